"""Dependency parsing with a biaffine parser (RAMEN, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    """Return LAS and UAS without punctuation, as in RAMEN's tables, then those of all words."""
    from relexify.evaluation.parsing.trees import attachment_scores

    words, all_tokens = attachment_scores(gold, predicted, punctuation=False), attachment_scores(gold, predicted)
    return words.las, words.uas, all_tokens.las, all_tokens.uas


def _evaluate(model: str, data: TaskData, options: Evaluation, folder: Path) -> TaskResult:
    """Train a parser with every seed, and parse the test treebank with each."""
    from relexify.evaluation.parsing.training import load_parser, train_parser
    from relexify.evaluation.parsing.trees import parse
    from relexify.grafting.swap import load_lexicon, swap_lexicon
    from relexify.scoring import Score

    lexicon = None if options.through is None else load_lexicon(options.through)
    training = options.training
    assert isinstance(training, ParserTraining)
    results = []
    for run in train_parser(model, data.train, data.dev or (), training, folder, seeds=options.seeds):
        parser, tokenizer = load_parser(run.folder)
        if lexicon is not None:
            parser, tokenizer = swap_lexicon(parser, lexicon), lexicon.tokenizer
        parser = parser.to(options.device)
        found = {
            name: SeedResult(run.seed, _attachment(test, parse(parser, tokenizer, test), task="parse"))
            for name, test in data.tests.items()
        }
        words = sum(map(len, data.dev or ()))
        dev = Score("parse", "LAS", run.las, higher_is_better=True, examples=words, unit="words")
        results.append(replace(SeedResult.over_tests(run.seed, found), dev=dev))
    return TaskResult(tuple(results))


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
