"""Options of training word vectors, and defaults that depend on the size of the text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from relexify.errors import LARGEST_SEED, InputError, check_choices, check_number, check_positive

__all__ = ["ResolvedTraining", "VectorTraining", "resolve_training", "validate_vector_training"]

_WORDS_SHOWN = 30_000_000
_FEWEST_EPOCHS = 2
_MOST_EPOCHS = 5
_LARGEST_RATE = 0.5


@dataclass(frozen=True)
class VectorTraining:
    """Options of training word vectors; some defaults depend on the size of the text.

    Attributes:
        method: `counts` counts neighbours and factors the counts: seconds, and repeatable. `skipgram` and `cbow` train
            fastText, which needs the extra `fasttext`.
        width: Number of components of a vector. With a few million words of text, 100 translate as well as 300 and
            train faster.
        contexts: For `counts`: number of most frequent words that serve as contexts.
        epochs: Passes over the text; default: as many as show 30 million words, from 2 to 5. fastText only.
        minimum_count: Rarer words are left out; default: 2 up to a million words of text, 3 up to ten million, then 5.
        window: Words to the left and to the right that count as context, at most.
        negative: Negative samples per word. fastText only.
        shortest_ngram: Length of the shortest character n-gram; above `longest_ngram`, only words are trained.
        longest_ngram: Length of the longest character n-gram.
        buckets: Number of hash buckets of n-grams; default: enough that collisions are rare, at most two million.
        learning_rate: Initial learning rate, which falls to nearly zero. fastText only.
        subsampling: Words more frequent than this share of the text are skipped at random; 0 skips none. fastText only.
        seed: Random seed.
        workers: Threads of fastText. One gives the same bytes for the same text, options and seed; more are faster, but
            not repeatable.
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
    """Options of `VectorTraining` that depend on the size of the text, resolved."""

    epochs: int
    minimum_count: int


def validate_vector_training(options: VectorTraining) -> None:
    """Validate options that gensim would crash on or misunderstand.

    Raises:
        InputError: An option is out of range.
    """
    check_choices(options)
    lowest = {
        "width": 1, "contexts": 1, "epochs": 1, "minimum_count": 1, "window": 1, "negative": 1, "shortest_ngram": 1,
        "longest_ngram": 0, "buckets": 1, "seed": 0, "workers": 1,
    }  # fmt: skip
    largest = {"width": 2**14, "seed": LARGEST_SEED, "workers": 2**10}
    for name, least in lowest.items():
        most = largest.get(name, 2**31 - 1)
        check_number(name, getattr(options, name), least, most, before="Training vectors with ")
    check_positive("learning_rate", options.learning_rate, before="Training vectors with ")
    # Numbers that overflow become indices of a table in gensim, and the process crashes: with 0.8, CBOW overflowed.
    if options.learning_rate > _LARGEST_RATE:
        raise InputError(
            f"Training vectors with `learning_rate={options.learning_rate}` is not possible: "
            f"give {_LARGEST_RATE} or less"
        )
    if not 0 <= options.subsampling < 1:  # gensim treats 1 and more as a count
        raise InputError(
            f"Training vectors with `subsampling={options.subsampling}` is not possible: give a share below 1"
        )


def resolve_training(options: VectorTraining, words: int) -> ResolvedTraining:
    """Resolve the options that depend on the number of words of the text."""
    epochs = min(max(math.ceil(_WORDS_SHOWN / max(words, 1)), _FEWEST_EPOCHS), _MOST_EPOCHS)
    if words <= 1_000_000:
        minimum = 2
    elif words <= 10_000_000:
        minimum = 3
    else:
        minimum = 5
    return ResolvedTraining(
        epochs=epochs if options.epochs is None else options.epochs,
        minimum_count=minimum if options.minimum_count is None else options.minimum_count,
    )
