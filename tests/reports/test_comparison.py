"""Runs side by side: means over seeds, shares of the steps, and where one run reaches another."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from relexify.errors import InputError
from relexify.reports import Comparison, Reach, Statistic, step_reaching, steps_to_reach
from relexify.reports.comparison_report import write_report
from relexify.training.results.curve import Curve
from tests.reports.curves import FAST, SLOW, WORSE, compare, curve


def reaches(comparison):
    return {(reach.run, reach.target): (reach.step, reach.factor) for reach in steps_to_reach(comparison)}


def test_shares_are_those_of_the_runs_own_last_step():
    both = compare(fast={0: 3.0, 4: 2.5, 5: 2.0, 50: 1.5}, slow=SLOW)
    assert both.at("fast", 0) == Statistic(3.0, None, 1, 0)
    assert both.at("fast", 0.1) == Statistic(2.0, None, 1, 5)
    assert both.at("fast", 1) == Statistic(1.5, None, 1, 50)
    assert both.at("slow", 0.1).step == 10
    assert both.at("slow", 0.31).step == 50  # 31 lies nearer to 50 than to 10


def test_mean_and_sample_deviation_over_seeds():
    seeds = compare(run=[{0: 3.0, 100: 1.0}, {0: 3.0, 100: 2.0}, {0: 3.0, 100: 3.0}])
    assert seeds.at("run", 1) == Statistic(2.0, 1.0, 3, 100)  # √((1 + 0 + 1) / 2)
    assert seeds.at("run", 0) == Statistic(3.0, 0.0, 3, 0)
    assert seeds.at("run", 1, metric="perplexity") == Statistic(20.0, 10.0, 3, 100)
    last = seeds.mean_curve("run").last
    assert (last.bits_per_byte, last.perplexity, last.loss, last.tokens) == (2.0, 20.0, 3.0, 100_000)


def test_the_mean_curve_has_the_steps_that_all_seeds_share():
    seeds = compare(run=[{0: 3.0, 50: 2.0, 75: 1.5, 100: 1.0}, {0: 3.0, 50: 1.0, 60: 0.5, 75: 0.5}])
    assert [(point.step, point.bits_per_byte) for point in seeds.mean_curve("run").points] == [
        (0, 3.0),
        (50, 1.5),
        (75, 1.0),
    ]
    assert seeds.at("run", 1).step == 75


def test_of_one_seed_the_mean_curve_is_the_curve():
    assert compare(fast=FAST).mean_curve("fast") == curve(FAST)


def test_the_best_is_that_of_the_mean_curve_with_its_step():
    overfitted = compare(run=[{0: 3.0, 50: 1.0, 75: 1.4, 100: 2.0}, {0: 3.0, 50: 2.0, 75: 1.4, 100: 2.0}])
    assert overfitted.best("run") == Statistic(pytest.approx(1.4), pytest.approx(0.0), 2, 75)
    assert compare(run={0: 3.0, 50: 1.5, 100: 1.5}).best("run").step == 50


def test_what_counts_is_the_model_that_is_handed_on():
    seeds = [WORSE, {0: 3.0, 10: 0.5, 50: 4.0, 100: 2.0}]
    best, last = (compare(run=seeds, keeps_best=keeps_best) for keeps_best in (True, False))
    assert best.kept("run") == Statistic(0.75, pytest.approx(0.125**0.5), 2, 30)
    assert best.kept("run", metric="perplexity").mean == 7.5
    assert last.kept("run") == last.at("run", 1)
    assert last.kept("run").mean == 2.25
    with pytest.raises(InputError, match="no metric"):
        best.kept("run", metric="loss")


def test_the_score_to_reach_is_that_of_the_kept_model():
    kept = reaches(compare(worse=WORSE, fast=FAST, keeps_best=True))
    assert kept["fast", "worse"] == (None, None)
    assert kept["worse", "fast"] == (pytest.approx(42.0), pytest.approx(100 / 42))
    ready = {0: 1.5, 100: 0.5}
    assert reaches(compare(worse=WORSE, ready=ready, keeps_best=True))["ready", "worse"] == (50.0, 1.0)


def test_a_crossing_between_two_measurements_is_interpolated():
    found = reaches(compare(fast=FAST, slow=SLOW))
    # 1.8 lies half way between 2.0 at step 10 and 1.6 at step 50.
    assert found["fast", "slow"] == (pytest.approx(30), pytest.approx(100 / 30))
    assert found["slow", "fast"] == (None, None)


def test_a_crossing_at_a_measurement_is_that_measurement():
    assert step_reaching(curve(FAST), 1.6) == pytest.approx(50)
    assert step_reaching(curve(FAST), 1.2) == pytest.approx(100)


def test_the_factor_counts_the_steps_that_the_target_took():
    found = reaches(compare(long={0: 3.0, 100: 1.0, 200: 1.0}, short={0: 3.0, 50: 2.0}))
    assert found["long", "short"] == (pytest.approx(50), pytest.approx(1.0))
    assert found["short", "long"] == (None, None)


def test_what_needs_no_training_has_a_step_but_no_factor():
    assert reaches(compare(ready={0: 1.5, 100: 1.0}, slow=SLOW))["ready", "slow"] == (0.0, None)
    assert reaches(compare(fast=FAST, untrained={0: 2.0}))["fast", "untrained"] == (pytest.approx(10), None)


def test_the_first_crossing_counts_even_if_the_run_becomes_worse_again():
    assert step_reaching(curve({0: 3.0, 10: 1.0, 20: 4.0, 30: 0.5}), 2.0) == pytest.approx(5)


def test_the_first_measurement_after_the_start_may_already_be_good_enough():
    assert step_reaching(curve({10: 1.0, 20: 0.5}), 2.0) == 10


def test_every_ordered_pair_is_reported_once():
    pairs = [(reach.run, reach.target) for reach in steps_to_reach(compare(a=FAST, b=SLOW, c=SLOW))]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b")]
    assert steps_to_reach(compare(a=FAST)) == []


def test_runs_are_reached_by_their_mean_over_seeds():
    both = compare(fast=[{0: 3.0, 100: 0.0}, {0: 5.0, 100: 0.0}], slow=[{0: 4.0, 100: 1.0}, {0: 4.0, 100: 3.0}])
    assert steps_to_reach(both)[0] == Reach("fast", "slow", pytest.approx(50), pytest.approx(2))


def test_a_run_that_diverged_is_never_good():
    broken = compare(broken=[{0: math.nan, 10: 2.0, 100: math.nan}, {0: 3.0, 10: 2.0, 100: math.inf}], fast=FAST)
    assert broken.best("broken") == Statistic(2.0, 0.0, 2, 10)
    assert math.isnan(broken.at("broken", 1).deviation)
    assert reaches(broken)["fast", "broken"] == (None, None)
    assert step_reaching(curve({0: math.inf, 10: 1.0}), 2.0) == 10
    assert step_reaching(curve({0: math.nan, 10: 1.0}), 2.0) == 10


def test_a_saved_comparison_is_read_back_in_order(tmp_path):
    notes = {"machine": "NVIDIA H200", "recipe": {"steps": 100, "stages": ["embeddings", "everything"]}}
    saved = compare("Kiswahili, čeština", notes=notes, zulu=[FAST, SLOW], afar=SLOW)
    path = saved.save(tmp_path / "new" / "comparison.json")
    read = Comparison.load(path)
    assert read == saved
    assert list(read.curves) == ["zulu", "afar"]
    assert read.save(tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_which_model_is_kept_survives_saving_and_older_files_have_the_last(tmp_path):
    kept = compare(worse=WORSE, keeps_best=True)
    path = kept.save(tmp_path / "comparison.json")
    assert Comparison.load(path) == kept
    older = json.loads(path.read_text())
    del older["keeps_best"]
    path.write_text(json.dumps(older))
    assert Comparison.load(path) == compare(worse=WORSE)


def test_the_quality_of_evidence_survives_saving(tmp_path):
    comparison = replace(compare(fast=FAST), evidence_quality={"fast": ({"P@1": 0.02},)})
    comparison.save(tmp_path / "comparison.json")
    assert Comparison.load(tmp_path / "comparison.json").evidence_quality == comparison.evidence_quality


def test_notes_that_json_does_not_know_are_saved_as_text(tmp_path):
    path = compare(notes={"output": tmp_path}, fast=FAST).save(tmp_path / "comparison.json")
    assert Comparison.load(path).notes == {"output": str(tmp_path)}


def damaged(change):
    content = {"title": "x", "notes": {}, "curves": {"fast": [curve(FAST).as_list()]}, "plans": {}, "costs": {}}
    return json.dumps({**content, **change})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        "\0",
        damaged({"curves": []}),
        damaged({"curves": {}}),
        damaged({"curves": {"fast": []}}),
        damaged({"curves": {"fast": [[]]}}),
        damaged({"curves": {"fast": [[{"step": 1}]]}}),
        damaged({"curves": {"fast": 3}}),
        damaged({"plans": 3}),
        damaged({"costs": {"fast": [{"seconds": 1}]}}),
        damaged({"notes": 3}),
    ],
)
def test_a_damaged_file_is_reported_in_one_sentence(tmp_path, text):
    path = tmp_path / "comparison.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"comparison\.json is not a comparison \(.+\): write the report again"):
        Comparison.load(path)


def test_a_missing_file_and_one_that_is_not_text_are_reported(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"\xff\xfe\x00")
    for name in ("model.bin", "none.json"):
        with pytest.raises(InputError, match=f"{name} is not a comparison"):
            Comparison.load(tmp_path / name)


def test_an_empty_comparison_is_rejected():
    with pytest.raises(InputError, match="has no runs"):
        Comparison("x", {})
    with pytest.raises(InputError, match="the run 'a' of 'x' has no measurements"):
        Comparison("x", {"a": ()})
    with pytest.raises(InputError, match="no step in common"):
        compare(a=[{0: 1.0}, {5: 1.0}])


def test_unknown_names_and_impossible_shares_are_rejected():
    both = compare(fast=FAST, slow=SLOW)
    with pytest.raises(InputError, match="has no run 'quick': choose one of fast, slow"):
        both.at("quick", 1)
    with pytest.raises(InputError, match="no metric 'accuracy'"):
        both.at("fast", 1, metric="accuracy")
    with pytest.raises(InputError, match="not a share"):
        both.at("fast", 10)


def test_tokens_per_step_may_differ_between_runs():
    small = Curve.of(replace(point, tokens=point.step * 250) for point in curve(FAST).points)
    comparison = Comparison("x", {"large": (curve(FAST),), "small": (small,), "start": (curve({0: 1.0}),)})
    assert [comparison.tokens_per_step(run) for run in comparison.curves] == [1_000, 250, 0]
    assert comparison.step_size == "250 to 1,000"
    assert compare(fast=FAST).step_size == "1,000"
    assert compare(start={0: 1.0}).step_size == "0"


def test_names_in_a_report_in_markdown_are_plain_text(tmp_path):
    """A recipe without a title is called like its file, and the notes contain names of files and models."""
    named = replace(compare(fast=FAST), title="<img src=x>\n## more", notes={"model": "[x](javascript:y) `z`"})
    write_report(named, tmp_path)
    text = (tmp_path / "comparison.md").read_text()
    assert text.startswith("# \\<img src=x\\> ## more\n")
    assert "- model: \\[x\\](javascript:y) \\`z\\`\n" in text


def test_a_comparison_that_nests_too_many_lists_is_rejected(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for load in (Comparison.load, Curve.load):
        with pytest.raises(InputError, match="nests too many"):
            load(tmp_path / "deep.json")
