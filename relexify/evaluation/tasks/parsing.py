"""Dependency parsing (RAMEN, section 4.2) and semantic role labelling (TreLM, Table 3), with a biaffine scorer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.evaluation.data.propositions import PredicateSentence, Proposition, read_propositions
from relexify.evaluation.data.treebank import ParsedSentence, read_treebank
from relexify.evaluation.options import Evaluation, ParserTraining
from relexify.evaluation.registry import TASKS, Task

if TYPE_CHECKING:
    from relexify.evaluation.data.files import TaskData
    from relexify.evaluation.parsing.trees import Parse
    from relexify.evaluation.results import TaskResult
    from relexify.scoring import Score


def _attachment(gold: Sequence[ParsedSentence], predicted: Sequence[Parse], /, *, task: str) -> tuple[Score, ...]:
    """Return LAS and UAS without punctuation, as in RAMEN's tables, then LAS and UAS of all words."""
    from relexify.evaluation.parsing.trees import attachment_scores

    words, all_tokens = attachment_scores(gold, predicted, punctuation=False), attachment_scores(gold, predicted)
    return words.las, words.uas, all_tokens.las, all_tokens.uas


def _role_scores(
    gold: Sequence[PredicateSentence], predicted: Sequence[Sequence[Proposition]], /, *, task: str
) -> tuple[Score, ...]:
    """Return F1, precision and recall of senses and arguments."""
    from relexify.evaluation.parsing.roles import role_scores

    return role_scores(gold, predicted)


def _parse(model: str, data: TaskData, options: Evaluation, folder: Path) -> TaskResult:
    """Train a parser with every seed, and test each."""
    import numpy as np

    from relexify.evaluation.parsing.training import evaluate_parser
    from relexify.evaluation.parsing.trees import TREES, best_tree

    best_tree(np.zeros((1, 2)))  # raise MissingExtra now, not after the first epoch
    return evaluate_parser(model, data, options, folder, TREES)


def _label_roles(model: str, data: TaskData, options: Evaluation, folder: Path) -> TaskResult:
    """Train a labeller of semantic roles with every seed, and test each."""
    from relexify.evaluation.parsing.roles import ROLES
    from relexify.evaluation.parsing.training import evaluate_parser

    return evaluate_parser(model, data, options, folder, ROLES)


TASKS.add(
    "parse",
    Task(
        summary="dependency parsing: CoNLL-U; LAS and UAS",
        read=read_treebank,
        predicts="trees",
        metric=_attachment,
        training=ParserTraining(),
        evaluate=_parse,
        needs_encoder=False,
        needs_dev=True,
        packages=(("ufal.chu-liu-edmonds", "parsing"),),
    ),
)
TASKS.add(
    "roles",
    Task(
        summary="semantic roles of given predicates: CoNLL-2009; F1, precision, recall",
        read=read_propositions,
        predicts="roles",
        metric=_role_scores,
        training=ParserTraining(),
        evaluate=_label_roles,
        needs_encoder=False,
        needs_dev=True,
    ),
)
