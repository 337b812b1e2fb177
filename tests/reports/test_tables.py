"""Comparisons as rows of text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from relexify.reports import TrainingCost, effort_rows, reach_rows, score_rows
from relexify.reports.tables import tokens_text
from relexify.training.results.curve import Curve
from tests.reports.curves import FAST, SLOW, WORSE, compare


def test_scores_of_runs_that_end_together():
    assert score_rows(compare(fast=FAST, slow=SLOW)) == [
        ["run", "step 0", "step 10", "step 50", "step 100", "perplexity (end)", "tokens"],
        ["fast", "**3.000**", "**2.000**", "**1.600**", "**1.200**", "12.0", "100k"],
        ["slow", "4.000", "3.000", "2.000", "1.800", "18.0", "100k"],
    ]


def test_runs_are_grouped_by_plan_with_their_cost():
    cost = TrainingCost("GPU", 30.4, 400_000.4)
    comparison = replace(
        compare(ours=FAST, paper=SLOW, other={0: 3.0, 10: 2.5, 50: 1.9, 100: 1.2}),
        plans={"ours": "relexify", "paper": "direct", "other": "relexify"},
        costs={"ours": (cost, replace(cost, seconds=31.8)), "paper": (replace(cost, tokens_per_second=None),)},
    )
    rows = [[*row[:3], *row[-2:]] for row in score_rows(comparison)]
    assert rows == [
        ["run", "plan", "step 0", "time", "tokens/s"],
        ["ours", "relexify", "**3.000**", "31 s", "400,000"],
        ["other", "relexify", "**3.000**", "–", "–"],
        ["paper", "direct", "4.000", "30 s", "–"],
    ]


def test_a_long_run_is_shown_at_five_steps_and_a_diverged_one_is_never_the_lowest():
    steps = range(0, 251, 25)
    rows = score_rows(compare(run={step: 3 - step / 250 for step in steps}, lost=dict.fromkeys(steps, math.nan)))
    assert rows[0][1:6] == ["step 0", "step 25", "step 50", "step 100", "step 250"]
    assert rows[1][1:6] == ["**3.000**", "**2.900**", "**2.800**", "**2.600**", "**2.000**"]
    assert set(rows[2][1:6]) == {"nan"}


def test_scores_of_a_run_that_stopped_early_tell_their_steps():
    early = compare(fast=FAST, early={0: 3.0, 5: 2.5, 30: 1.5, 50: 1.6})
    assert list(zip(*score_rows(early), strict=True)) == [
        ("run", "fast", "early"),
        ("step 0", "**3.000**", "**3.000**"),
        ("10 %", "**2.000 (step 10)**", "2.500 (step 5)"),
        ("40 %", "1.600 (step 50)", "**1.500 (step 30)**"),
        ("end", "**1.200 (step 100)**", "1.600 (step 50)"),
        ("best", "1.200 (step 100)", "1.500 (step 30)"),
        ("perplexity (end)", "12.0", "16.0"),
        ("tokens", "100k", "50.0k"),
    ]


def test_several_seeds_show_their_deviation_and_unequal_numbers_of_seeds_are_shown():
    rows = score_rows(
        compare(run=[{0: 3.0, 100: 1.0}, {0: 3.0, 100: 2.0}, {0: 3.0, 100: 3.0}], alone={0: 4.0, 100: 1.8})
    )
    assert rows[1][2:4] == ["2.000 ± 1.000", "20.0 ± 10.0"]
    assert rows[2][2] == "**1.800**"
    assert [row[-1] for row in rows] == ["seeds", "3", "1"]


def test_the_evidence_of_runs_that_have_a_share_is_shown_beside_their_scores():
    plain = compare(fast=[FAST, FAST], slow=SLOW)
    shown = replace(plain, evidence_quality={"fast": ({"P@1": 0.02}, {"P@1": 0.04}), "slow": ({},)})
    header, fast, slow = score_rows(shown)
    column = header.index("P@1")
    assert (fast[column], slow[column]) == ("3.0%", "–")
    assert score_rows(plain) == [row[:column] + row[column + 1 :] for row in (header, fast, slow)]


def test_a_setting_that_methods_decide_differently_is_shown_beside_the_scores():
    plain = compare(fast=FAST, slow=SLOW)
    prior = "transfer.unigram_prior"
    header, fast, slow = score_rows(replace(plain, settings={"fast": {prior: True}, "slow": {prior: False}}))
    assert (header[1], fast[1], slow[1]) == ("unigram prior", "yes", "no")
    assert score_rows(replace(plain, settings={"fast": {prior: True}, "slow": {prior: True}})) == score_rows(plain)


def test_the_reach_matrix():
    assert reach_rows(compare(fast=FAST, slow=SLOW, ready={0: 1.0, 100: 1.0})) == [
        ["run", "fast (1.200)", "slow (1.800)", "ready (1.000)"],
        ["fast", "–", "step 30 (3.3×)", "not within 100 steps"],
        ["slow", "not within 100 steps", "–", "not within 100 steps"],
        ["ready", "step 0", "step 0", "–"],
    ]


def test_effort_is_relative_to_the_least_training():
    assert effort_rows(compare(fast=FAST, slow=SLOW)) == [
        ["run", "steps to reach 1.800, the end of slow", "tokens", "effort"],
        ["fast", "30", "30.0k", "1.0×"],
        ["slow", "100", "100k", "3.3×"],
    ]


def test_a_run_that_hands_its_best_model_on_is_judged_by_that_one():
    kept, last = (compare(worse=WORSE, slow=SLOW, keeps_best=keeps_best) for keeps_best in (True, False))
    assert score_rows(kept) == [
        ["run", "step 0", "step 10", "step 50", "step 100", "best, kept", "perplexity (kept)", "tokens"],
        ["worse", "**3.000**", "**2.000**", "**1.000**", "2.500", "1.000 (step 50)", "10.0", "100k"],
        ["slow", "4.000", "3.000", "2.000", "**1.800**", "1.800 (step 100)", "18.0", "100k"],
    ]
    assert reach_rows(kept) == [
        ["run", "worse (1.000)", "slow (1.800)"],
        ["worse", "–", "step 18 (5.6×)"],
        ["slow", "not within 100 steps", "–"],
    ]
    assert effort_rows(kept)[0][1] == "steps to reach 1.800, the best of slow"
    assert reach_rows(last)[0] == ["run", "worse (2.500)", "slow (1.800)"]
    assert effort_rows(last)[0][1] == "steps to reach 2.500, the end of worse"


def test_effort_is_that_of_the_tokens_if_runs_have_smaller_steps():
    comparison = compare(large=SLOW, small=SLOW)
    points = comparison.curves["small"][0].points
    small = Curve.of(replace(point, tokens=point.tokens // 4) for point in points)
    rows = effort_rows(replace(comparison, curves={**comparison.curves, "small": (small,)}))
    assert [row[1:] for row in rows[1:]] == [["100", "100k", "4.0×"], ["100", "25.0k", "1.0×"]]


def test_effort_of_seeds_that_are_at_their_best_at_different_steps():
    seeds = compare(run=[{0: 3.0, 10: 1.0, 20: 2.0, 40: 2.0}, {0: 3.0, 10: 2.0, 20: 2.0, 40: 1.0}], keeps_best=True)
    assert score_rows(seeds)[1][-3] == "1.000 ± 0.000 (step 25)"
    assert effort_rows(seeds)[1] == ["run", "25", "25.0k", "1.0×"]


def test_effort_may_be_without_end_or_none_at_all():
    rows = effort_rows(compare(slow=SLOW, lost={0: 3.0, 100: math.nan}, ready={0: 1.0, 100: 0.9}))
    assert rows[1:] == [
        ["slow", "100", "100k", "1.0×"],
        ["lost", "not within 100 steps", "–", "–"],
        ["ready", "0", "0", "none"],
    ]


def test_what_needs_a_little_training_is_not_shown_as_none():
    rows = reach_rows(compare(quick={0: 3.0, 100: -1000.0}, slow={0: 3.0, 100: 2.9}))
    assert rows[1][2].startswith("step 1 (")


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.00k"),
        (32_768, "32.8k"),
        (999_499, "999k"),
        (999_999, "1.00M"),
        (9_999_000, "10.0M"),
        (16_384_000, "16.4M"),
        (327_680_000, "328M"),
        (1_234_000_000, "1.23B"),
        (4e12, "4.00T"),
    ],
)
def test_tokens_have_three_digits(tokens, text):
    assert tokens_text(tokens) == text


@pytest.mark.parametrize(("value", "text"), [(18.34, "18.3"), (12_345.6, "12,346"), (3e7, "3.0e+07"), (1e999, "inf")])
def test_perplexities_have_the_digits_they_deserve(value, text):
    assert score_rows(compare(run={0: value / 10}))[1][-2] == text
