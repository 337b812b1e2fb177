"""compare and run with [bilingual] and zero-shot tasks: both languages by stage, and what is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from relexify.reports import Comparison, stage_rows, task_rows
from relexify.training.results.curve import Curve
from tests.cli.command import relexify

RUNS = ("fvt", "ramen-random")


@pytest.fixture(scope="module")
def recipe(world, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("recipe")
    for name, text in (("en", world.source_corpus), ("de", world.corpus)):
        lines = [line.split() for line in text.read_text().splitlines()[:24]]
        tagged = ("".join(f"{word}\t{'AB'[len(word) % 2]}\n" for word in words) for words in lines)
        (root / f"{name}.tsv").write_text("\n".join(tagged))
    (root / "recipe.toml").write_text(
        world.bilingual_recipe(world.bert, ("en", "de"))
        + f"""
[compare]
runs = {list(RUNS)}
[[tasks]]
task = "pos"
language = "en"
through = "de"
train = "en.tsv"
test = "de.tsv"
epochs = 1
"""
    )
    return root / "recipe.toml"


@pytest.fixture(scope="module")
def compared(recipe, tmp_path_factory) -> tuple[Path, str]:
    """The folder of a comparison, and what the command said."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("COLUMNS", "200")
        outcome = relexify("compare", recipe)
    assert outcome.status == 0, outcome.err
    return recipe.parent / "out", outcome.out


def test_both_languages_are_compared_stage_by_stage_and_on_the_zero_shot_task(compared):
    folder, said = compared
    for words in ("de, initialised", "de, embeddings trained", "en, change", "pos-de", "accuracy ↑"):
        assert words in said
        assert words in (folder / "comparison.md").read_text()
    (tasks,) = [row for row in task_rows(Comparison.load(folder / "comparison.json")) if row[0] == "pos-de"]
    assert tasks[2] == "end", "by default, a task in two languages is evaluated at the end"
    header, *rows = stage_rows(Comparison.load(folder / "comparison.json"))
    assert len(header) == 7
    assert [row[0] for row in rows] == list(RUNS)
    first = Curve.load(folder / "runs" / "fvt-seed0" / "earlier_curve.json")
    both = Curve.load(folder / "runs" / "fvt-seed0" / "curve.json")
    numbers = (first.first.bits_per_byte, first.last.bits_per_byte, both.last.by_language["de"])
    assert rows[0][1:4] == [f"{bits:.3f}" for bits in numbers]
    english = [point.by_language["en"] for point in (both.first, both.last)]
    assert rows[0][4:] == [*(f"{bits:.3f}" for bits in english), f"{100 * (english[1] / english[0] - 1):+.1f} %"]


def test_training_of_both_begins_where_the_first_step_ended(compared):
    for run in RUNS:
        folder = compared[0] / "runs" / f"{run}-seed0"
        first, both = Curve.load(folder / "earlier_curve.json"), Curve.load(folder / "curve.json")
        assert both.first.by_language["de"] == pytest.approx(first.last.bits_per_byte)


def test_the_first_language_begins_the_same_in_every_run(compared):
    curves = [Curve.load(compared[0] / "runs" / f"{run}-seed0" / "curve.json") for run in RUNS]
    assert curves[0].first.by_language["en"] == curves[1].first.by_language["en"]
    assert curves[0].first.by_language["de"] != curves[1].first.by_language["de"]


def test_finished_runs_are_kept_and_a_changed_step_is_rejected(compared, recipe, rejects):
    kept = {path: path.stat().st_mtime_ns for path in (compared[0] / "runs").rglob("*")}
    assert not [path for path in kept if path.name in ("model", "target", "grafted")], "a model was left behind"
    assert relexify("compare", recipe).status == 0
    assert {path: path.stat().st_mtime_ns for path in (compared[0] / "runs").rglob("*")} == kept
    rejects(("compare", recipe, "--set", "bilingual.training.steps=6"), "belongs to another recipe", "--overwrite")
    rejects(("compare", recipe, "--set", "tasks.0.epochs=2"), "its model was not kept")


def test_a_single_run_has_the_same_result_and_is_scored_on_the_task(compared, recipe, tmp_path):
    outcome = relexify("run", recipe, "--set", f"output={tmp_path / 'alone'}")
    assert outcome.status == 0, outcome.err
    assert "pos-de" in outcome.out
    alone, together = tmp_path / "alone", compared[0] / "runs" / "fvt-seed0"
    for ours, theirs in (("earlier_curve.json", "earlier_curve.json"), ("training.json", "curve.json")):
        assert json.loads((alone / ours).read_text()) == json.loads((together / theirs).read_text())
    assert {path.name for path in tmp_path.iterdir()} == {"alone"}, "something was left behind"
    measured = json.loads(next((together / "tasks").glob("*.json")).read_text())
    assert list(json.loads((alone / "tasks.json").read_text()).values()) == [measured]


def test_tasks_follow_every_stage_from_the_initialised_embeddings_on(recipe, tmp_path, compared):
    changes = ("--set", f"output={tmp_path / 'out'}", "--set", 'compare.runs=["fvt"]')
    outcome = relexify("compare", recipe, *changes, "--set", "compare.tasks_at=[0, 0.5, 1]")
    assert outcome.status == 0, outcome.err
    comparison, plain = (Comparison.load(folder / "comparison.json") for folder in (tmp_path / "out", compared[0]))
    first, both = comparison.earlier["fvt"][0].last.step, comparison.curves["fvt"][0].last.step
    found = comparison.tasks["fvt"]
    assert [scores.step for scores in found] == [0, first, first + both // 2, None]
    assert found[-1] == plain.tasks["fvt"][0], "the end does not depend on what is evaluated before it"
    assert len({scores.per_seed for scores in found}) > 1


def test_a_damaged_curve_of_the_first_step_is_left_out_of_the_tables(compared, recipe, tmp_path):
    shutil.copytree(compared[0], tmp_path / "out")
    (tmp_path / "out" / "runs" / "fvt-seed0" / "earlier_curve.json").write_text("[{")
    outcome = relexify("compare", recipe, "--set", f"output={tmp_path / 'out'}")
    assert outcome.status == 0, outcome.err
    assert "earlier_curve.json cannot be read" in outcome.err
    assert [row[0] for row in stage_rows(Comparison.load(tmp_path / "out" / "comparison.json"))[1:]] == ["ramen-random"]
