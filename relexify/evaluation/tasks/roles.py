"""Semantic role labelling with a biaffine scorer (TreLM, Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.evaluation.data.propositions import read_propositions
from relexify.evaluation.options import Evaluation, ParserTraining
from relexify.evaluation.registry import TASKS, Task

if TYPE_CHECKING:
    from relexify.evaluation.data.files import TaskData
    from relexify.evaluation.results import TaskResult
    from relexify.scoring import Score


def _scores(gold: Sequence[Any], predicted: Sequence[Any], /, *, task: str) -> tuple[Score, ...]:
    """Return F1, precision and recall of senses and arguments."""
    from relexify.evaluation.parsing.roles import role_scores

    return role_scores(gold, predicted)


def _evaluate(model: str, data: TaskData, options: Evaluation, folder: Path) -> TaskResult:
    """Train a labeller with every seed, and label the test sentences with each."""
    from relexify.evaluation.parsing.roles import ROLES
    from relexify.evaluation.parsing.training import evaluate_parser

    return evaluate_parser(model, data, options, folder, ROLES)


TASKS.add(
    "roles",
    Task(
        summary="semantic roles of given predicates: CoNLL-2009; F1, precision, recall",
        read=read_propositions,
        predicts="roles",
        metric=_scores,
        training=ParserTraining(),
        evaluate=_evaluate,
        needs_encoder=False,
        needs_dev=True,
    ),
)
