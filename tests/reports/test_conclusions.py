"""What is concluded from a comparison, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy.stats import ttest_ind

from relexify.reports import Comparison, conclude, write_report
from tests.reports.curves import FAST, SLOW, compare


def test_the_best_run_is_named_if_the_others_are_far_behind():
    (best,) = conclude(compare(slow=SLOW, fast=FAST))
    assert best.kind == "good"
    assert best.text.startswith("fast is the best. Its score is 1.200 bits per byte; the next, slow, has 1.800.")


def test_nothing_is_concluded_from_few_tokens():
    (best,) = conclude(compare(slow={0: 3.0, 3: 2.8}, fast={0: 3.0, 3: 2.0}))
    assert best.kind == "open"
    assert "too little training to conclude anything" in best.text
    assert "They have seen 3,000 tokens" in best.text
    assert "is the best" not in best.text


@pytest.mark.parametrize(("other", "kind"), [(1.22, "open"), (1.23, "good")])
def test_a_difference_that_another_seed_may_reverse_is_not_called_the_best(other, kind):
    (best,) = conclude(compare(fast={0: 3.0, 100: 1.2}, slow={0: 3.0, 100: other}))
    assert best.kind == kind
    assert ("the difference may be chance" in best.text) == (kind == "open")


@pytest.mark.parametrize(("spread", "kind"), [(0.001, "good"), (0.004, "good"), (0.005, "open"), (0.1, "open")])
@pytest.mark.parametrize("seeds", [2, 3])
def test_several_seeds_are_judged_by_welchs_test(spread, kind, seeds):
    changes = [-1, 1, 0.5][:seeds]
    fast, slow = [1.2 + change * spread for change in changes], [1.21 + change * spread / 2 for change in changes]
    (best,) = conclude(
        compare(**{name: [{0: 3.0, 100: end} for end in ends] for name, ends in {"fast": fast, "slow": slow}.items()})
    )
    assert (best.kind == "good") == (ttest_ind(fast, slow, equal_var=False).pvalue < 0.05)
    if seeds == 3:
        assert best.kind == kind


@pytest.mark.parametrize("other", [1.2, 1.2003])
def test_scores_that_are_shown_alike_are_not_told_apart_however_many_seeds_agree(other):
    (best,) = conclude(compare(fast=[{0: 3.0, 100: 1.2}] * 2, slow=[{0: 3.0, 100: other}] * 2))
    assert best.kind == "open"


def test_a_single_seed_is_mentioned_if_only_one_of_two_runs_has_it():
    (best,) = conclude(compare(fast=FAST, slow=[SLOW] * 3))
    assert "With one seed" in best.text


def test_a_score_that_ends_as_it_starts_did_not_get_worse():
    found = conclude(compare(fast=FAST, slow={0: 3.0, 100: 3.0003}))
    assert not any("got worse" in each.text for each in found)


def test_runs_that_differ_in_the_unigram_prior_are_named_in_every_report(tmp_path):
    prior = "transfer.unigram_prior"
    comparison = replace(compare(blend=FAST, fvt=SLOW), settings={"blend": {prior: True}, "fvt": {prior: False}})
    _, remark = conclude(comparison)
    assert remark.text.startswith("Not all runs have the unigram prior. blend has it, fvt does not,")
    assert "transfer.unigram_prior=true" in remark.text
    write_report(comparison, tmp_path)
    for name in ("comparison.md", "report.html"):
        assert "Not all runs have the unigram prior." in (tmp_path / name).read_text()
    assert Comparison.load(tmp_path / "comparison.json") == comparison
    same = {run: {prior: True} for run in ("blend", "fvt")}
    assert len(conclude(replace(comparison, settings=same))) == 1
