"""Train fastText with gensim, and work around its pitfalls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from relexify.errors import importing
from relexify.evidence.vectors.options import ResolvedTraining, VectorTraining
from relexify.evidence.vectors.sentences import Sentences, split_long_sentences
from relexify.progress import Advance, track

__all__ = ["TrainingText", "run_gensim"]


@dataclass(frozen=True)
class TrainingText:
    """A text to train on: its sentences, the number of lists of words, and the vocabulary with counts."""

    sentences: Sentences
    lists: int
    vocabulary: dict[str, int]


def run_gensim(
    text: TrainingText, options: VectorTraining, resolved: ResolvedTraining, ngrams: list[np.ndarray]
) -> Any:
    """Train with gensim, and return its `wv`.

    Args:
        text: The text.
        options: Options of the training.
        resolved: The number of epochs and the minimum count.
        ngrams: For each word of the vocabulary, the rows of its n-grams.
    """
    with importing("gensim", f"training {options.method} vectors", "fasttext"):
        from gensim.models import FastText

    model = FastText(
        sg=int(options.method == "skipgram"),
        vector_size=options.width,
        alpha=options.learning_rate,
        min_alpha=min(1e-4, options.learning_rate),
        window=options.window,
        negative=options.negative,
        sample=options.subsampling,
        min_n=options.shortest_ngram,
        max_n=options.longest_ngram,
        bucket=1 + max(int(rows.max(initial=0)) for rows in ngrams),
        min_count=1,  # rare words are already left out
        sorted_vocab=0,  # words are already sorted
        seed=options.seed,
        workers=options.workers,
    )
    model.build_vocab_from_freq(dict(text.vocabulary), corpus_count=text.lists)
    # gensim would hash n-grams into as many buckets as it has rows; here, each n-gram has its own row.
    model.wv.buckets_word = ngrams
    with _without_empty_reports(), track("training vectors", resolved.epochs * text.lists) as advance:
        passes = _Passes(text.sentences, advance)
        model.train(passes, total_examples=text.lists, epochs=resolved.epochs)
    if passes.failure is not None:
        raise passes.failure
    return model.wv


@contextmanager
def _without_empty_reports() -> Iterator[None]:
    """Hide "Exception ignored" messages that name no exception; gensim's compiled loops sometimes print them."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda event: None if event.exc_type is None else hook(event)
    try:
        yield
    finally:
        sys.unraisablehook = hook


class _Passes:
    """The text as gensim needs it: an object that can be iterated over repeatedly.

    gensim iterates in a separate thread, and waits forever if that thread fails. Therefore, an exception only ends the
    pass, and is raised later.
    """

    def __init__(self, sentences: Sentences, advance: Advance) -> None:
        self.failure: Exception | None = None
        self._sentences = sentences
        self._advance = advance

    def __iter__(self) -> Iterator[list[str]]:
        if self.failure is not None:
            return
        try:
            for sentence in split_long_sentences(self._sentences()):
                yield sentence
                self._advance(1)
        except Exception as failure:
            self.failure = failure
