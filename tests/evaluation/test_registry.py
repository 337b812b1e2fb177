"""Tasks register themselves, without torch, and everything that depends on a task reads its entry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from relexify.errors import InputError
from relexify.evaluation.data.files import TaskFiles, read_task
from relexify.evaluation.metrics import accuracy_alone
from relexify.evaluation.options import Evaluation, FineTuning, ParserTraining, Probing
from relexify.evaluation.registry import TASKS, Task


def test_tasks_are_listed_without_importing_torch():
    code = """
import sys
from relexify.evaluation.options import Evaluation
from relexify.evaluation.registry import TASKS
Evaluation("nli", probe=True)
glue = {"cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte"}
assert set(TASKS) >= {"nli", "ner", "pos", "parse", *glue}, list(TASKS)
assert all(task.summary for task in TASKS.values())
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_task_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    assert [name for name in TASKS if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("cola", ["Matthews correlation", "accuracy"]),
        ("sst-2", ["accuracy"]),
        ("mrpc", ["mean of accuracy and F1", "accuracy", "F1"]),
        ("qqp", ["mean of accuracy and F1", "accuracy", "F1"]),
        ("sts-b", ["mean of Pearson and Spearman", "Pearson correlation", "Spearman correlation"]),
        ("mnli", ["accuracy"]),
        ("qnli", ["accuracy"]),
        ("rte", ["accuracy"]),
    ],
)
def test_glue_tasks_have_the_scores_of_glue(task, metrics):
    gold, predicted = ([1.0, 2.0, 4.0], [1.0, 3.0, 4.0]) if task == "sts-b" else (["0", "1", "1"], ["0", "1", "0"])
    assert [score.metric for score in TASKS[task].metric(gold, predicted, task=task)] == metrics


def test_a_task_is_one_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS))
    task = Task("letters", read=lambda path: list(str(path)), predicts="class", metric=accuracy_alone,
                training=FineTuning(epochs=5), needs_dev=True)  # fmt: skip
    TASKS.add("letters", task)
    options = Evaluation("letters", batch=4)
    assert (options.training.epochs, options.training.batch) == (5, 4)
    assert read_task("letters", TaskFiles("ab", "c", "d"), examples=1).train == ["a"]
    with pytest.raises(InputError, match="letters needs development data"):
        read_task("letters", TaskFiles("ab", "c"))
    with pytest.raises(InputError, match="there is no probe for letters: choose one of nli, pos"):
        Evaluation("letters", probe=True)


def test_an_evaluation_changes_the_defaults_of_its_task():
    assert Evaluation("nli").training == FineTuning(epochs=2, batch=128)
    assert Evaluation("nli", learning_rate=1e-4).training == FineTuning(epochs=2, batch=128, learning_rate=1e-4)
    assert Evaluation("parse", score_learning_rate=1e-3).training == ParserTraining(score_learning_rate=1e-3)
    assert Evaluation("pos", probe=True, batch=8).training == Probing(batch=8)
