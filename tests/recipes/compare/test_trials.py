"""Trials: interrupted and resumed, in the way of another recipe, replaced, and damaged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.errors import InputError, OutputError
from relexify.methods.registry import METHODS
from relexify.recipes import run as running
from relexify.recipes.compare import trials
from relexify.recipes.compare.run import run_comparison
from relexify.recipes.file.recipe import read_recipe
from relexify.steps import STEPS
from tests.recipes.compare.conftest import CURVE

TABLES = "[begin]\n[learn]\n[compare]\nruns = [{name = 'a', method = 'fvt'}]"


def interrupted(options, context, model, output):
    raise KeyboardInterrupt


@pytest.fixture
def interrupt(monkeypatch):
    """Return a function that runs a comparison until its training begins."""

    def run(recipe, **options):
        with monkeypatch.context() as patch:
            patch.setitem(STEPS._entries, "learn", replace(STEPS["learn"], run=interrupted))
            with pytest.raises(KeyboardInterrupt):
                run_comparison(recipe, **options)

    return run


def test_an_interrupted_trial_does_not_repeat_finished_steps(write, tmp_path, interrupt, monkeypatch):
    recipe = read_recipe(write(TABLES))
    interrupt(recipe)
    runs = tmp_path / "out" / "runs"
    assert {path.name for path in runs.iterdir()} == {"a-seed0.work"}
    monkeypatch.setitem(STEPS._entries, "begin", replace(STEPS["begin"], run=interrupted))
    (comparison,) = run_comparison(recipe)
    assert comparison.curves["a"][0].last.step == 4
    written = {"a-seed0", "curve.json", "cost.json", "relexify.json", "evidence_quality.json"}
    assert {path.name for path in runs.rglob("*")} == written


def test_unfinished_work_of_another_recipe_is_rejected_with_what_differs_or_replaced(write, interrupt):
    interrupt(read_recipe(write(TABLES)))
    other = read_recipe(write(TABLES), ["learn.steps=7"])
    with pytest.raises(InputError, match=r"a-seed0\.work holds .*its learn\.steps was 4, here it is 7"):
        run_comparison(other)
    (comparison,) = run_comparison(other, overwrite=True)
    assert comparison.curves["a"][0].last.step == 7


def test_a_finished_trial_of_another_recipe_stays_until_the_new_one_is_complete(write, tmp_path, interrupt):
    first = read_recipe(write(TABLES))
    run_comparison(first)
    other = read_recipe(write(TABLES), ["learn.steps=7"])
    with pytest.raises(InputError, match=r"a-seed0 belongs to another recipe.*`overwrite`"):
        run_comparison(other)
    interrupt(other, overwrite=True)
    assert run_comparison(first)[0].curves["a"][0].last.step == 4
    (comparison,) = run_comparison(other, overwrite=True)
    assert comparison.curves["a"][0].last.step == 7
    assert [path.name for path in (tmp_path / "out" / "runs").iterdir()] == ["a-seed0"]


def test_a_trial_with_files_of_the_user_is_not_replaced(write, tmp_path):
    run_comparison(read_recipe(write(TABLES)))
    notes = tmp_path / "out" / "runs" / "a-seed0" / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(OutputError, match=r"did not write \(notes\.txt\)"):
        run_comparison(read_recipe(write(TABLES), ["learn.steps=7"]), overwrite=True)
    assert notes.read_text() == "mine"


def test_a_damaged_curve_is_trained_again(write, tmp_path, caplog):
    recipe = read_recipe(write(TABLES))
    expected = run_comparison(recipe)
    (tmp_path / "out" / "runs" / "a-seed0" / "curve.json").write_text("[{")
    assert run_comparison(recipe) == expected
    assert "training again" in caplog.text


def test_models_are_kept_only_on_request(write, tmp_path):
    recipe = read_recipe(write(TABLES), ["compare.keep_models=true"])
    run_comparison(recipe)
    model = tmp_path / "out" / "runs" / "a-seed0" / "model"
    assert (model / CURVE).exists()
    run_comparison(read_recipe(write(TABLES)))
    assert not model.exists()


def test_a_result_of_another_version_is_used_with_a_warning(write, monkeypatch, caplog):
    recipe = read_recipe(write(TABLES))
    (first,) = run_comparison(recipe)
    assert "was made by" not in caplog.text
    monkeypatch.setattr(trials, "__version__", "99.0")
    assert run_comparison(recipe) == [first]
    assert "was made by relexify 0" in caplog.text
    assert "this is 99.0: remove it to run it again" in caplog.text


def test_a_trial_of_other_code_is_rejected_or_repeated_and_never_combined_with_new_ones(
    write, tmp_path, monkeypatch, caplog
):
    two = "[begin]\n[learn]\n[compare]\nruns = [{name = 'a', method = 'fvt'}, {name = 'b', method = 'random'}]"
    recipe = read_recipe(write(two))
    (first,) = run_comparison(recipe, only=["a"])
    monkeypatch.setattr(running, "RUN_REVISIONS", {**running.RUN_REVISIONS, "scores": 99})
    message = r"a-seed0 was made by another version of relexify.*\(changed: scores\): .*`overwrite`"
    with pytest.raises(InputError, match=message):
        run_comparison(recipe)
    (alone,) = run_comparison(recipe, only=["b"])
    assert set(alone.curves) == {"b"}
    assert "a-seed0 is left out: it was made by another version" in caplog.text
    (again,) = run_comparison(recipe, overwrite=True)
    assert again.curves["a"] == first.curves["a"]
    monkeypatch.setitem(METHODS._entries, "random", replace(METHODS["random"], revision=99))
    with pytest.raises(InputError, match=r"b-seed0 was made by .*\(changed: begin.method\)"):
        run_comparison(recipe)


def test_an_interrupted_trial_of_other_code_is_rejected(write, interrupt, monkeypatch):
    recipe = read_recipe(write(TABLES))
    interrupt(recipe)
    monkeypatch.setattr(running, "RUN_REVISIONS", {**running.RUN_REVISIONS, "trainings": 99})
    with pytest.raises(InputError, match=r"a-seed0\.work holds work of another version .*\(changed: trainings\)"):
        run_comparison(recipe)
