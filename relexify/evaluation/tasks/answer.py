"""Extractive question answering, such as CMRC 2018 of CLUE (TreLM, Table 1)."""

from __future__ import annotations

from relexify.evaluation.data.answers import read_passages
from relexify.evaluation.metrics import answer_scores
from relexify.evaluation.options import FineTuning
from relexify.evaluation.registry import TASKS, Task

TASKS.add(
    "answer",
    Task(
        summary="find the answer in a text: .json of SQuAD 1.1, .jsonl or hf:NAME; exact matches, F1 of words",
        read=read_passages,
        predicts="answer",
        metric=answer_scores,
        training=FineTuning(length=512),
    ),
)
