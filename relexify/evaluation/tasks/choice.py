"""Multiple choice, such as the reading comprehension C³ of CLUE (TreLM, Table 1)."""

from __future__ import annotations

from relexify.evaluation.data.choices import read_questions
from relexify.evaluation.metrics import accuracy_alone
from relexify.evaluation.options import FineTuning
from relexify.evaluation.registry import TASKS, Task

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
