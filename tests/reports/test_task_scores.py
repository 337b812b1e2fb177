"""Scores of tasks: means over seeds, the best in bold, written and read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.errors import InputError
from relexify.reports import Comparison, TaskScores, task_result_rows, task_rows, write_report
from relexify.scoring import Score
from tests.reports.curves import FAST, SLOW, compare


def scores(task, step, *values, metric="F1", higher=True):
    return TaskScores(task, step, tuple((Score(task, metric, value, higher, 100),) for value in values))


NER = {
    "fast": (scores("ner", 0, 0.2, 0.4), scores("ner", None, 0.7, 0.8)),
    "slow": (scores("ner", 0, 0.5), scores("ner", None, 0.6)),
}


def with_tasks(**tasks):
    return replace(compare(fast=FAST, slow=SLOW), tasks=tasks)


def test_a_row_is_a_moment_and_the_best_of_each_is_bold():
    assert task_rows(with_tasks(**NER)) == [
        ["task", "measure", "step", "fast", "slow"],
        ["ner", "F1 ↑", "0", "0.300 ± 0.141", "**0.500**"],
        ["ner", "F1 ↑", "end", "**0.750 ± 0.071**", "0.600"],
    ]


def test_scores_during_training_stand_between_start_and_end_with_the_average_of_all_tasks():
    both = with_tasks(
        fast=(*NER["fast"], scores("ner", 1_000, 0.6), scores("nli", None, 0.55), scores("nli", 0, 0.4)),
        slow=(*NER["slow"], scores("nli", None, 0.3)),
    )
    assert task_rows(both)[1:] == [
        ["ner", "F1 ↑", "0", "0.300 ± 0.141", "**0.500**"],
        ["ner", "F1 ↑", "1,000", "**0.600**", "–"],
        ["ner", "F1 ↑", "end", "**0.750 ± 0.071**", "0.600"],
        ["nli", "F1 ↑", "0", "**0.400**", "–"],
        ["nli", "F1 ↑", "end", "**0.550**", "0.300"],
        ["average", "all tasks ↑", "0", "**0.350**", "–"],
        ["average", "all tasks ↑", "end", "**0.650**", "0.450"],
    ]


def test_where_less_is_better_the_least_is_bold_and_there_is_no_average():
    rows = task_rows(
        with_tasks(
            fast=(scores("gap", None, 0.2, metric="error", higher=False), scores("ner", None, 0.9)),
            slow=(scores("gap", None, 0.9, metric="error", higher=False), scores("ner", None, 0.8)),
        )
    )
    assert rows[1:] == [["gap", "error ↓", "end", "**0.200**", "0.900"], ["ner", "F1 ↑", "end", "**0.900**", "0.800"]]


def test_scores_that_look_the_same_are_both_bold():
    rows = task_rows(with_tasks(fast=(scores("a", None, 0.50001),), slow=(scores("a", None, 0.50002),)))
    assert rows[1][3:] == ["**0.500**", "**0.500**"]


def test_seeds_of_training_and_of_fine_tuning_are_taken_together():
    both = with_tasks(fast=(scores("ner", None, 0.1, 0.2), scores("ner", None, 0.3, 0.4)))
    assert task_rows(both)[1:] == [["ner", "F1 ↑", "end", "**0.250 ± 0.129**", "–"]]


def test_a_comparison_shows_the_main_score_of_a_task_and_a_single_model_all_of_them():
    parsed = TaskScores(
        "parse", None, ((Score("p", "LAS", 0.7, True, 9, "words"), Score("p", "UAS", 0.8, True, 9, "words")),)
    )
    assert task_rows(with_tasks(fast=(parsed,)))[1:] == [["parse", "LAS ↑", "end", "**0.700**", "–"]]
    assert task_result_rows([parsed]) == [
        ["task", "measure", "value", "measured on"],
        ["parse", "LAS ↑", "0.700", "9 words"],
        ["parse", "UAS ↑", "0.800", "9 words"],
    ]


def test_a_report_contains_tasks_and_is_read_back(tmp_path):
    comparison = with_tasks(**NER)
    write_report(comparison, tmp_path)
    assert Comparison.load(tmp_path / "comparison.json") == comparison
    text = (tmp_path / "comparison.md").read_text()
    assert "## Tasks" in text
    assert "where scores are better" in text
    assert "sample standard deviation over all seeds of training and fine-tuning" in text
    assert "| **0.750 ± 0.071** |" in text


def test_tasks_during_training_are_drawn_against_the_steps_of_all_trainings(tmp_path):
    write_report(with_tasks(**NER), tmp_path / "two")
    assert not (tmp_path / "two" / "tasks.svg").exists(), "two moments are no curve"
    during = with_tasks(fast=(*NER["fast"], scores("ner", 10, 0.6)))
    write_report(during, tmp_path)
    assert "![scores on tasks against steps](tasks.svg)" in (tmp_path / "comparison.md").read_text()
    drawn = (tmp_path / "tasks.svg").read_text()
    assert "ner" in drawn
    assert "F1" in drawn
    write_report(during, tmp_path / "again")
    assert (tmp_path / "again" / "tasks.svg").read_text() == drawn


def test_choices_and_models_that_learned_nothing_are_reported_below_the_table(tmp_path):
    chosen = replace(scores("ner", 1_000, 0.0), chosen={"learning_rate": 1e-5, "batch": 16}, hint="it predicts 'O'")
    comparison = with_tasks(fast=(chosen,))
    write_report(comparison, tmp_path)
    text = (tmp_path / "comparison.md").read_text()
    assert "- fast, ner, step 1,000: learning_rate = 1e-05, batch = 16, chosen on development data\n" in text
    assert "- fast, ner, step 1,000: it predicts 'O'\n" in text
    assert Comparison.load(tmp_path / "comparison.json") == comparison


def test_several_test_sets_have_a_row_each_and_one_for_their_average():
    both = replace(
        scores("xnli", None, 0.5),
        tests={name: scores("xnli", None, value).per_seed for name, value in (("de", 0.4), ("fr", 0.6))},
    )
    rows = task_rows(with_tasks(fast=(both, scores("ner", None, 0.7))))
    assert [(row[0], row[3]) for row in rows[1:]] == [
        ("xnli de", "**0.400**"),
        ("xnli fr", "**0.600**"),
        ("xnli", "**0.500**"),
        ("ner", "**0.700**"),
        ("average", "**0.600**"),
    ]
    assert [row[0] for row in task_result_rows([both])[1:]] == ["xnli de", "xnli fr", "xnli"]


def test_a_comparison_without_tasks_has_no_table_of_them(tmp_path):
    write_report(compare(fast=FAST), tmp_path)
    assert "Tasks" not in (tmp_path / "comparison.md").read_text()


def test_tasks_of_no_run_and_empty_scores_are_rejected():
    with pytest.raises(InputError, match="no run 'other'"):
        with_tasks(other=NER["fast"])
    with pytest.raises(InputError, match="has no scores"):
        TaskScores("ner", None, ())
