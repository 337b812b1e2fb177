"""How word vectors are trained, and what follows from the size of the text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from relexify.errors import InputError

__all__ = ["ResolvedTraining", "VectorTraining", "resolve_training", "validate_vector_training"]

_WORDS_SHOWN = 30_000_000
_FEWEST_EPOCHS = 2
_MOST_EPOCHS = 5


@dataclass(frozen=True)
class VectorTraining:
    """How to train word vectors. What is `None` follows from the size of the text.

    Attributes:
        method: `"counts"` counts neighbours and factors the counts: seconds, and repeatable.
            `"skipgram"` and `"cbow"` train fastText, which needs the extra `fasttext`.
        width: The number of components of a vector. A hundred translate as well as three hundred where the text has a
            few million words, and train faster.
        contexts: For counts: how many of the most frequent words count as neighbours.
        epochs: Passes over the text. By default as many as show 30 million words, from 2 to 5: on a million words,
            vectors of 20 passes translate worse than those of 5.
        minimum_count: A word must occur so often. By default 2 up to a million words, 3 up to ten million, then 5.
        window: Words to the left and to the right that count as context, at most.
        negative: Noise words per true one.
        shortest_ngram: The shortest character n-gram; above `longest_ngram` to train words only.
        longest_ngram: The longest character n-gram.
        buckets: Into how many buckets n-grams are hashed. By default so many that hardly two n-grams share one, unless
            the text has more than two million n-grams: then two million.
        learning_rate: At the start; it falls to nearly zero.
        subsampling: Words more frequent than this share of the text are skipped now and then; 0 to skip none.
        seed: Where randomness starts.
        workers: Threads. One gives the same bytes for the same text, options and seed; more are faster, and give
            slightly different vectors every time.

    From `epochs` on, `window` and the n-grams apart, all is for fastText alone.
    """

    method: Literal["counts", "skipgram", "cbow"] = "counts"
    width: int = 100
    contexts: int = 20_000
    epochs: int | None = None
    minimum_count: int | None = None
    window: int = 5
    negative: int = 5
    shortest_ngram: int = 3
    longest_ngram: int = 6
    buckets: int | None = None
    learning_rate: float = 0.05
    subsampling: float = 1e-4
    seed: int = 0
    workers: int = 1


@dataclass(frozen=True)
class ResolvedTraining:
    """What `VectorTraining` leaves open, decided; fields as there."""

    epochs: int
    minimum_count: int


def validate_vector_training(options: VectorTraining) -> None:
    """Refuse options that gensim would crash on, or take for something else."""
    lowest = {
        "width": 1, "contexts": 1, "epochs": 1, "minimum_count": 1, "window": 1, "negative": 1, "shortest_ngram": 1,
        "longest_ngram": 0, "buckets": 1, "seed": 0, "workers": 1,
    }  # fmt: skip
    for name, least in lowest.items():
        value = getattr(options, name)
        if value is not None and value < least:
            raise InputError(f"Training vectors with {name} = {value} is not possible: give {least} or more")
    if not 0 < options.learning_rate < math.inf:
        raise InputError(
            f"Training vectors with learning_rate = {options.learning_rate} is not possible: give a number above 0"
        )
    if not 0 <= options.subsampling < 1:  # gensim takes 1 and more for a count
        raise InputError(
            f"Training vectors with subsampling = {options.subsampling} is not possible: give a share below 1"
        )


def resolve_training(options: VectorTraining, words: int) -> ResolvedTraining:
    """Decide what follows from the number of words of the text."""
    epochs = min(max(math.ceil(_WORDS_SHOWN / max(words, 1)), _FEWEST_EPOCHS), _MOST_EPOCHS)
    minimum = 2 if words <= 1_000_000 else 3 if words <= 10_000_000 else 5
    return ResolvedTraining(
        epochs=epochs if options.epochs is None else options.epochs,
        minimum_count=minimum if options.minimum_count is None else options.minimum_count,
    )
