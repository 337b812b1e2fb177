"""Classification of texts or pairs of texts with any labels."""

from __future__ import annotations

from relexify.evaluation.data.examples import read_examples
from relexify.evaluation.metrics import accuracy_alone, label_table
from relexify.evaluation.options import FineTuning
from relexify.evaluation.registry import TASKS, Task

TASKS.add(
    "classification",
    Task(
        summary="classes of texts or pairs: .jsonl or hf:NAME with text(s) and label; accuracy",
        read=read_examples,
        predicts="class",
        metric=accuracy_alone,
        table=label_table,
        training=FineTuning(),
    ),
)
