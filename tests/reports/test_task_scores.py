"""Scores of tasks: means over seeds, the best in bold, written and read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.errors import InputError
from relexify.reports import Comparison, TaskScores, task_result_rows, task_rows, write_report
from relexify.scoring import Score
from tests.reports.curves import FAST, SLOW, compare


def scores(task, moment, *values, metric="F1", higher=True):
    return TaskScores(task, moment, tuple((Score(task, metric, value, higher, 100),) for value in values))


NER = {
    "fast": (scores("ner", "start", 0.2, 0.4), scores("ner", "end", 0.7, 0.8)),
    "slow": (scores("ner", "start", 0.5), scores("ner", "end", 0.6)),
}


def with_tasks(**tasks):
    return replace(compare(fast=FAST, slow=SLOW), tasks=tasks)


def test_columns_are_moments_and_the_best_of_each_is_bold():
    assert task_rows(with_tasks(**NER)) == [
        ["initialisation", "ner: F1 ↑, step 0", "ner: F1 ↑, end"],
        ["fast", "0.300 ± 0.141", "**0.750 ± 0.071**"],
        ["slow", "**0.500**", "0.600"],
    ]


def test_where_less_is_better_the_least_is_bold():
    rows = task_rows(
        with_tasks(
            fast=(scores("gap", "end", 0.2, metric="error", higher=False),),
            slow=(scores("gap", "end", 0.9, metric="error", higher=False),),
        )
    )
    assert rows == [["initialisation", "gap: error ↓, end"], ["fast", "**0.200**"], ["slow", "0.900"]]


def test_scores_that_look_the_same_are_both_bold():
    rows = task_rows(with_tasks(fast=(scores("a", "end", 0.50001),), slow=(scores("a", "end", 0.50002),)))
    assert [row[1] for row in rows[1:]] == ["**0.500**", "**0.500**"]


def test_seeds_of_training_and_of_fine_tuning_are_taken_together():
    both = with_tasks(fast=(scores("ner", "end", 0.1, 0.2), scores("ner", "end", 0.3, 0.4)))
    assert task_rows(both)[1:] == [["fast", "**0.250 ± 0.129**"], ["slow", "–"]]


def test_a_comparison_shows_the_main_score_of_a_task_and_a_single_model_all_of_them():
    parsed = TaskScores("parse", "end", ((Score("p", "LAS", 0.7, True, 9), Score("p", "UAS", 0.8, True, 9)),))
    assert task_rows(with_tasks(fast=(parsed,)))[:2] == [
        ["initialisation", "parse: LAS ↑, end"],
        ["fast", "**0.700**"],
    ]
    assert task_result_rows([parsed]) == [
        ["task", "measure", "value", "measured on"],
        ["parse", "LAS ↑", "0.700", "9"],
        ["parse", "UAS ↑", "0.800", "9"],
    ]


def test_a_report_contains_tasks_and_is_read_back(tmp_path):
    comparison = with_tasks(**NER)
    write_report(comparison, tmp_path)
    assert Comparison.load(tmp_path / "comparison.json") == comparison
    text = (tmp_path / "comparison.md").read_text()
    assert "## Tasks" in text
    assert "where scores are better" in text
    assert "sample standard deviation over all seeds of training and fine-tuning" in text
    assert "| fast           |     0.300 ± 0.141 | **0.750 ± 0.071** |" in text


def test_a_comparison_without_tasks_has_no_table_of_them(tmp_path):
    write_report(compare(fast=FAST), tmp_path)
    assert "Tasks" not in (tmp_path / "comparison.md").read_text()


def test_tasks_of_no_run_and_empty_scores_are_rejected():
    with pytest.raises(InputError, match="no run 'other'"):
        with_tasks(other=NER["fast"])
    with pytest.raises(InputError, match="has no scores"):
        TaskScores("ner", "end", ())
    with pytest.raises(InputError, match="no moment 'middle'"):
        scores("ner", "middle", 1.0)
