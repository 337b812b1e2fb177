"""Tagging of words: named entities and parts of speech (WECHSEL, Tables 2 and 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relexify.evaluation.data.columns import read_tagged
from relexify.evaluation.metrics import entity_scores, entity_table, word_accuracy, word_table
from relexify.evaluation.options import FineTuning, Probing
from relexify.evaluation.registry import TASKS, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from relexify.evaluation.data.files import TaskData
    from relexify.scoring import Score


def _probe(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, data: TaskData, options: Probing) -> Score:
    from relexify.evaluation.probing.probes import probe_words

    (tested,) = data.tests.values()  # a probe is called once for each test set
    train, test = ([(sentence.words, sentence.tags) for sentence in part] for part in (data.train, tested))
    return probe_words(model, tokenizer, train, test, batch=options.batch)


TASKS.add(
    "ner",
    Task(
        summary="named entities: one word and its IOB2 tag per line; entity F1",
        read=read_tagged,
        predicts="tags",
        metric=entity_scores,
        table=entity_table,
        training=FineTuning(epochs=10),
        packages=(("seqeval", "scoring names"),),
    ),
)
TASKS.add(
    "pos",
    Task(
        summary="parts of speech: one word and its tag per line, or CoNLL-U; accuracy",
        read=read_tagged,
        predicts="tags",
        metric=word_accuracy,
        table=word_table,
        training=FineTuning(epochs=10),
        probe=_probe,
    ),
)
