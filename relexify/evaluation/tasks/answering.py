"""Questions about a text: multiple choice, such as C³, and extraction, such as CMRC 2018 (TreLM, Table 1)."""

from __future__ import annotations

from relexify.evaluation.data.answers import read_passages
from relexify.evaluation.data.choices import read_questions
from relexify.evaluation.metrics import accuracy_alone, answer_scores
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
TASKS.add(
    "choice",
    Task(
        summary="multiple choice: .jsonl or hf:NAME with context, question, choices and answer; accuracy",
        read=read_questions,
        predicts="choice",
        metric=accuracy_alone,
        training=FineTuning(length=512),
    ),
)
