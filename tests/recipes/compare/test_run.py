"""A comparison of tables that a new system adds: nothing in recipes knows them."""

from __future__ import annotations

import os

import pytest

from relexify.errors import InputError
from relexify.recipes.compare.run import run_comparison
from relexify.recipes.file.recipe import read_recipe
from relexify.reports import Comparison, TrainingCost
from tests.recipes.compare.conftest import first_bits

ONE = "{name = 'a', method = 'fvt'}"
TWO = "{name = 'b', method = 'random', plan = 'embeddings-only'}"


def test_runs_differ_in_the_method_the_plan_and_the_seed(write, tmp_path):
    recipe = read_recipe(write(f"[begin]\n[learn]\nsteps = 6\n[compare]\nseeds = [0, 3]\nruns = [{ONE}, {TWO}]"))
    (comparison,) = run_comparison(recipe)
    for run, method, plan in (("a", "fvt", "direct"), ("b", "random", "embeddings-only")):
        curves = comparison.curves[run]
        assert [curve.first.bits_per_byte for curve in curves] == [first_bits(method, seed) for seed in (0, 3)]
        assert {(curve.last.stage, curve.last.step) for curve in curves} == {(plan, 6)}
    assert (comparison.step_size, comparison.keeps_best, comparison.earlier) == ("8", False, {})
    names = {f"{run}-seed{seed}" for run in "ab" for seed in (0, 3)}
    assert {path.name for path in (tmp_path / "out" / "runs").iterdir()} == names
    assert run_comparison(recipe) == [comparison]


def test_runs_can_be_trained_one_by_one_and_the_report_has_all_that_are_finished(write, tmp_path):
    recipe = read_recipe(write(f"[begin]\n[learn]\n[compare]\nruns = [{ONE}, {TWO}]"))
    (first,) = run_comparison(recipe, only=["b"])
    assert list(first.curves) == ["b"]
    assert {path.name for path in (tmp_path / "out" / "runs").iterdir()} == {"b-seed0"}
    (both,) = run_comparison(recipe, only=["a"])
    assert list(both.curves) == ["a", "b"]
    assert both == Comparison.load(tmp_path / "out" / "comparison.json")
    with pytest.raises(InputError, match="there is no run 'c': choose a or b"):
        run_comparison(recipe, only=["c"])


def test_the_recipe_in_the_output_can_be_run_again_whatever_its_files_are_called(write, tmp_path):
    file = write(f"[begin]\n[learn]\n[compare]\nruns = [{ONE}]")
    text = tmp_path / os.fsdecode(b"caf\xe9.txt")
    text.write_text("un café\n")
    recipe = read_recipe(file, [f"corpus={text}"])
    run_comparison(recipe)
    assert read_recipe(tmp_path / "out" / "recipe.toml") == recipe


def test_a_comparison_knows_the_plan_and_the_cost_of_each_run(write):
    (comparison,) = run_comparison(read_recipe(write(f"[begin]\n[learn]\n[compare]\nruns = [{ONE}, {TWO}]")))
    assert comparison.plans == {"a": "direct", "b": "embeddings-only"}
    machine = comparison.notes["machine"]
    assert comparison.costs == dict.fromkeys("ab", (TrainingCost(machine, seconds=2.0, tokens_per_second=16.0),))


def test_runs_differ_in_what_aligns_their_vectors_and_show_how_well(write):
    control = "{name = 'control', method = 'fvt', aligned_by = 'random'}"
    recipe = read_recipe(write(f"[begin]\n[learn]\n[compare]\nseeds = [0, 1]\nruns = [{ONE}, {control}]"))
    (comparison,) = run_comparison(recipe)
    assert comparison.evidence_quality == {"a": ({"precision": 0.25},) * 2, "control": ({"precision": 0.0},) * 2}
    assert run_comparison(recipe)[0].evidence_quality == comparison.evidence_quality
    named = read_recipe(write("[begin]\n[learn]\n[compare]\nruns = ['wechsel-random-rotation']"))
    assert (named.compare.runs[0].method, named.compare.runs[0].aligned_by) == ("wechsel", "random")
    with pytest.raises(InputError, match="aligned_by"):
        read_recipe(write("[begin]\n[learn]\n[compare]\nruns = [{name = 'a', method = 'fvt', aligned_by = 'magic'}]"))


def test_of_two_trainings_both_curves_are_kept_and_neither_takes_a_plan(write):
    recipe = read_recipe(write(f"[begin]\n[learn]\n[refine]\nsteps = 9\n[compare]\nruns = [{ONE}]"))
    (comparison,) = run_comparison(recipe)
    (last,), (earlier,) = comparison.curves["a"], comparison.earlier["a"]
    assert (earlier.last.step, last.last.step) == (4, 9)
    assert earlier.last.bits_per_byte == last.first.bits_per_byte
    with pytest.raises(
        InputError, match=r"runs\[0\] has the plan .*with \[refine\] all runs are trained as the recipe"
    ):
        read_recipe(write(f"[begin]\n[learn]\n[refine]\n[compare]\nruns = [{TWO}]"))


def test_runs_may_differ_in_any_key_and_share_the_method_of_the_recipe(write):
    runs = "{name = 'short', changes.learn.steps = 3}, {name = 'long', changes.learn.steps = 7}"
    (comparison,) = run_comparison(read_recipe(write(f"[begin]\nmethod = 'fvt'\n[learn]\n[compare]\nruns = [{runs}]")))
    for name, steps in (("short", 3), ("long", 7)):
        (curve,) = comparison.curves[name]
        assert (curve.last.step, curve.first.bits_per_byte) == (steps, first_bits("fvt", 0))


RUNS = f"[compare]\nruns = [{ONE}]"


@pytest.mark.parametrize("tables", [f"[begin]\n{RUNS}", f"[learn]\n{RUNS}", "[begin]\n[learn]"])
def test_a_recipe_without_a_method_a_training_or_runs_is_rejected_with_the_tables_that_there_are(write, tables):
    with pytest.raises(InputError, match=r"\[transfer\] or \[begin\], .*\[learn\] or \[refine\], and \[compare\]"):
        run_comparison(read_recipe(write(tables)))


def test_a_seed_that_a_comparison_would_ignore_is_rejected(write):
    tables = f"[begin]\n[learn]\nseed = 7\n[compare]\nruns = [{ONE}]\nseeds = "
    with pytest.raises(InputError, match=r"learn.seed is 7, .* \[0, 1\]: set compare.seeds=\[7\] instead"):
        run_comparison(read_recipe(write(f"{tables}[0, 1]")))
    (comparison,) = run_comparison(read_recipe(write(f"{tables}[7]")))
    assert comparison.curves["a"][0].first.bits_per_byte == first_bits("fvt", 7)


@pytest.mark.parametrize(("size", "name"), [("2 MB", "2MB"), ("1 MiB", "1MiB"), (1_500, "1500B")])
def test_folders_of_parts_of_the_text_are_named_by_their_size(write, tmp_path, size, name):
    compare = f"[compare]\nruns = [{ONE}]\nsubsamples = [{size!r}]"
    run_comparison(read_recipe(write(f"[begin]\n[learn]\n{compare}")))
    assert (tmp_path / "out" / name / "comparison.json").exists()
    assert (tmp_path / "out" / "runs" / f"{name}-a-seed0").is_dir()
