"""Dependency parsing with a biaffine parser (RAMEN, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.evaluation.data.treebank import read_treebank
from relexify.evaluation.options import Evaluation, ParserTraining
from relexify.evaluation.registry import TASKS, Task
from relexify.evaluation.results import SeedResult, TaskResult

if TYPE_CHECKING:
    from relexify.evaluation.data.files import TaskData
    from relexify.scoring import Score


def _attachment(gold: Sequence[Any], predicted: Sequence[Any], /, *, task: str) -> tuple[Score, ...]:
    """Return UAS and LAS of all words, then without punctuation (as in RAMEN's tables)."""
    from relexify.evaluation.parsing.trees import attachment_scores

    with_punctuation = attachment_scores(gold, predicted)
    return (*with_punctuation, *attachment_scores(gold, predicted, punctuation=False))


def _evaluate(model: str, data: TaskData, options: Evaluation, folder: Path) -> TaskResult:
    """Train a parser with every seed, and parse the test treebank with each."""
    from relexify.evaluation.parsing.training import load_parser, train_parser
    from relexify.evaluation.parsing.trees import parse
    from relexify.grafting.swap import load_lexicon, swap_lexicon

    lexicon = None if options.through is None else load_lexicon(options.through)
    training = options.training
    assert isinstance(training, ParserTraining)
    results = []
    for run in train_parser(model, data.train, data.dev or (), training, folder, seeds=options.seeds):
        parser, tokenizer = load_parser(run.folder)
        if lexicon is not None:
            parser, tokenizer = swap_lexicon(parser, lexicon), lexicon.tokenizer
        trees = parse(parser.to(options.device), tokenizer, data.test)
        results.append(SeedResult(run.seed, _attachment(data.test, trees, task="parse")))
    return TaskResult(tuple(results))


TASKS.add(
    "parse",
    Task(
        summary="dependency parsing: CoNLL-U; UAS and LAS",
        read=read_treebank,
        predicts="trees",
        metric=_attachment,
        training=ParserTraining(),
        evaluate=_evaluate,
        needs_encoder=False,
        needs_dev=True,
    ),
)
