"""Dependency parsing with a biaffine parser (RAMEN, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.evaluation.data.treebank import read_treebank
from relexify.evaluation.options import Evaluation, ParserTraining
from relexify.evaluation.registry import TASKS, Task

if TYPE_CHECKING:
    from relexify.evaluation.data.files import TaskData
    from relexify.evaluation.results import TaskResult
    from relexify.scoring import Score


def _attachment(gold: Sequence[Any], predicted: Sequence[Any], /, *, task: str) -> tuple[Score, ...]:
    """Return LAS and UAS without punctuation, as in RAMEN's tables, then those of all words."""
    from relexify.evaluation.parsing.trees import attachment_scores

    words, all_tokens = attachment_scores(gold, predicted, punctuation=False), attachment_scores(gold, predicted)
    return words.las, words.uas, all_tokens.las, all_tokens.uas


def _evaluate(model: str, data: TaskData, options: Evaluation, folder: Path) -> TaskResult:
    """Train a parser with every seed, and parse the test treebank with each."""
    import numpy as np

    from relexify.evaluation.parsing.training import evaluate_parser
    from relexify.evaluation.parsing.trees import TREES, best_tree

    best_tree(np.zeros((1, 2)))  # raises MissingExtra now, not after the first epoch
    return evaluate_parser(model, data, options, folder, TREES)


TASKS.add(
    "parse",
    Task(
        summary="dependency parsing: CoNLL-U; LAS and UAS",
        read=read_treebank,
        predicts="trees",
        metric=_attachment,
        training=ParserTraining(),
        evaluate=_evaluate,
        needs_encoder=False,
        needs_dev=True,
    ),
)
