"""The runner: steps in order, finished runs found again, and nothing left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from relexify.errors import InputError, OutputError
from relexify.methods.registry import METHODS
from relexify.recipes import run as running
from relexify.recipes.file.recipe import read_recipe
from relexify.recipes.run import prepare_run, run_recipe
from relexify.registry import Registry
from relexify.steps import STEPS
from tests import pico

TRAINING = "batch = 4\nlength = 16\nevaluate_every = 2\nreport_to = []\n"


@pytest.fixture
def write(tmp_path: Path, cache: Path):
    pico.saved("gpt2", tmp_path / "gpt2")
    (tmp_path / "text.txt").write_text("\n".join(pico.sentences(300, seed=3, words=pico.foreign_words())))

    def written(tables: str) -> Path:
        file = tmp_path / "recipe.toml"
        file.write_text(f'output = "out"\nmodel = "./gpt2"\ncorpus = "text.txt"\n{tables}')
        return file

    return written


def interrupted(options, context, model, output):
    raise KeyboardInterrupt


def folders(tmp_path: Path) -> set[str]:
    return {path.name for path in tmp_path.iterdir() if path.name.startswith("out")}


def test_a_finished_transfer_is_found_again_and_another_one_does_not_replace_it(write, tmp_path, caplog):
    file = write('[transfer]\nmethod = "fvt"\nvocab_size = 300\n')
    first = run_recipe(read_recipe(file))
    with caplog.at_level(logging.INFO, "relexify"):
        again = run_recipe(read_recipe(file))
    assert "is up to date" in caplog.text
    assert again.scores == first.scores
    assert folders(tmp_path) == {"out"}
    with pytest.raises(OutputError, match="exists already"):
        run_recipe(read_recipe(file, ["transfer.vocab_size=310"]))


def test_steps_run_in_their_order_whatever_the_order_of_the_tables(write, tmp_path):
    file = write(f'[training]\nsteps = 2\n{TRAINING}[transfer]\nmethod = "fvt"\nvocab_size = 300\n')
    recipe = read_recipe(file)
    assert [step.table for step in recipe.steps] == ["transfer", "training"]
    assert run_recipe(recipe).curve.last.step == 2
    assert folders(tmp_path) == {"out"}


def test_only_the_last_model_of_a_run_is_described(write, tmp_path, monkeypatch):
    described: list[Path] = []
    documents: Registry[Callable[[Path], str]] = Registry("document")
    documents.add("card.txt", lambda folder: described.append(folder) or "a model")
    monkeypatch.setattr("relexify.storage.documents.DOCUMENTS", documents)
    run_recipe(read_recipe(write(f'[transfer]\nmethod = "fvt"\nvocab_size = 300\n[training]\nsteps = 2\n{TRAINING}')))
    assert described == [tmp_path / "out"]


def test_a_mistake_that_a_step_finds_leaves_no_work_in_the_way_of_the_corrected_recipe(write, tmp_path):
    (tmp_path / "text.txt").write_text("ba la mi to\n" * 30)
    file = write(f'[transfer]\nmethod = "fvt"\nvocab_size = 300\n[training]\nsteps = 2\n{TRAINING}')
    with pytest.raises(InputError):
        run_recipe(read_recipe(file))
    assert folders(tmp_path) == set()


def test_a_finished_run_of_other_code_is_rejected_or_repeated(write, tmp_path, monkeypatch):
    recipe = read_recipe(write('[transfer]\nmethod = "fvt"\nvocab_size = 300\n'))
    run_recipe(recipe)
    monkeypatch.setattr(running, "RUN_REVISIONS", {**running.RUN_REVISIONS, "tokenizers": 99})
    with pytest.raises(OutputError, match=r"out was made by another version .*\(changed: tokenizers\): .*`overwrite`"):
        run_recipe(recipe)
    run_recipe(recipe, overwrite=True)
    assert prepare_run(recipe).is_finished


def test_only_runs_on_several_texts_depend_on_how_texts_are_sampled(write, tmp_path, monkeypatch):
    file = write('[transfer]\nmethod = "fvt"\nvocab_size = 300\n')
    recipe = read_recipe(file)
    run_recipe(recipe)
    (tmp_path / "more.txt").write_text("ba la mi to\n" * 30)
    several = replace(recipe, corpus=[tmp_path / "text.txt", tmp_path / "more.txt"], output=tmp_path / "several")
    run_recipe(several)
    assert prepare_run(several).is_finished
    monkeypatch.setattr("relexify.text.corpus.SAMPLES", 99)
    assert prepare_run(recipe).is_finished
    with pytest.raises(OutputError, match=r"several was made by another version .*\(changed: samples\)"):
        prepare_run(several)


def test_steps_of_other_code_are_not_combined_with_new_ones(write, tmp_path, monkeypatch):
    recipe = read_recipe(write(f'[transfer]\nmethod = "fvt"\nvocab_size = 300\n[training]\nsteps = 2\n{TRAINING}'))
    with monkeypatch.context() as patch:
        patch.setitem(STEPS._entries, "training", replace(STEPS["training"], run=interrupted))
        with pytest.raises(KeyboardInterrupt):
            run_recipe(recipe)
    monkeypatch.setitem(METHODS._entries, "fvt", replace(METHODS["fvt"], revision=99))
    message = r"out\.work holds work of another version .*\(changed: transfer\.method\); .*delete"
    with pytest.raises(InputError, match=message):
        run_recipe(recipe)
    assert folders(tmp_path) == {"out.work"}
    run_recipe(recipe, overwrite=True)
    assert folders(tmp_path) == {"out"}


def test_an_interrupted_run_does_not_repeat_finished_steps(write, tmp_path, monkeypatch):
    file = write(f'[transfer]\nmethod = "fvt"\nvocab_size = 300\n[training]\nsteps = 2\n{TRAINING}')
    calls = []

    def counting(options, context, model, output):
        calls.append(output)
        return transfer.run(options, context, model, output)

    transfer, training = STEPS["transfer"], STEPS["training"]
    monkeypatch.setitem(STEPS._entries, "transfer", replace(transfer, run=counting))
    with monkeypatch.context() as patch:
        patch.setitem(STEPS._entries, "training", replace(training, run=interrupted))
        with pytest.raises(KeyboardInterrupt):
            run_recipe(read_recipe(file))
    assert folders(tmp_path) == {"out.work"}
    run_recipe(read_recipe(file))
    assert calls == [tmp_path / "out.work" / "transfer"]
    assert folders(tmp_path) == {"out"}


def test_a_recipe_without_steps_or_with_tasks_for_an_untrained_model_is_rejected(write):
    with pytest.raises(InputError, match=r"has no steps: .*\[transfer\]"):
        run_recipe(read_recipe(write("")))
    tasks = '[[tasks]]\ntask = "pos"\nprobe = true\ntrain = "a"\ntest = "b"\n'
    with pytest.raises(InputError, match=r"\[\[tasks\]\] for a trained model and no table that trains"):
        run_recipe(read_recipe(write(f'[transfer]\nmethod = "fvt"\n{tasks}')))
