"""Gather the evidence of a transfer: vectors from files, from text, or from the model itself; a dictionary, or none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import SubwordVectors, VectorTraining, WordVectors, train_vectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.progress import report_under
from relexify.systems.transfer.steps import kept_file, step_name
from relexify.text import Corpus, train_segmenter
from relexify.tokens import encode_words, encoder_of, make_encodable, vocabulary_of

__all__ = [
    "TokensInSpace",
    "choose_lexicon",
    "embedding_vectors",
    "gather_vectors",
    "identical_words",
    "token_vectors",
    "trained_vectors",
]

TokensInSpace = Callable[[WordVectors], SubwordVectors]
"""Gives the vectors of a vocabulary's tokens in the space that word vectors were rotated to."""

logger = logging.getLogger(__name__)


def gather_vectors(
    source: str | Path | Corpus | None, target: str | Path | Corpus, options: VectorTraining
) -> tuple[WordVectors | None, WordVectors]:
    """Load vectors from files, or train them on text.

    Args:
        source: A file of vectors of the model's language, text to train them on, or nothing.
        target: The same for the new language.
        options: How to train.
    """
    sides = {"old language": source, "new language": target}
    # Files first: one that cannot be read should not cost the training of the other side.
    found = {name: load_vectors(side) for name, side in sides.items() if isinstance(side, str | Path)}
    # One after the other: each takes all cores, and two that share them are many times slower than two in turn.
    for name, side in sides.items():
        if isinstance(side, Corpus):
            found[name] = trained_vectors(side, options, name=name)
    return found.get("old language"), found["new language"]


def trained_vectors(corpus: Corpus, options: VectorTraining, *, name: str = "") -> WordVectors:
    """Train vectors on a corpus, or find them in the cache."""
    key = step_name("vectors", corpus=corpus.fingerprint(), options=asdict(options))
    with report_under(name) if name else nullcontext():
        return kept_file(
            "vectors",
            key,
            load_vectors,
            lambda: train_vectors(_sentences(corpus), options),
            lambda vectors, path: vectors.save(path),
        )


def choose_lexicon(dictionary: BilingualLexicon | None, source: WordVectors, target: WordVectors) -> BilingualLexicon:
    """The dictionary, or, where there is none, the words that both languages write alike."""
    if dictionary is not None:
        return dictionary
    lexicon = identical_words(source, target)
    logger.warning(
        "no dictionary given: falling back on %d words that both languages write alike; "
        "even a small dictionary (--dictionary) usually does better",
        len(lexicon),
    )
    return lexicon


def identical_words(source: WordVectors, target: WordVectors) -> BilingualLexicon:
    """The words that both languages write alike.

    Raises:
        EvidenceError: There are none.
    """
    lexicon = BilingualLexicon.identical(source.words, target.words)
    if not len(lexicon):
        raise EvidenceError(
            "the two languages write no word alike: give a dictionary (--dictionary) to a method that takes one"
        )
    return replace(lexicon, name="identical words")


def token_vectors(corpus: Corpus, tokenizer: Any, options: VectorTraining) -> SubwordVectors:
    """Train vectors of tokens on text that their tokenizer has cut, or find them in the cache."""
    options = replace(options, shortest_ngram=1, longest_ngram=0)  # a token is a whole; its letters say nothing more
    encoder, vocabulary = encoder_of(tokenizer), vocabulary_of(tokenizer)
    key = step_name("token vectors", corpus=corpus.fingerprint(), tokenizer=encoder.identity, options=asdict(options))

    def sentences() -> Iterator[list[str]]:
        lines = iter(corpus)
        while block := list(islice(lines, 1000)):
            yield from (list(map(str, ids)) for ids in encoder.encode([make_encodable(line)[0] for line in block]))

    vectors = kept_file(
        "vectors",
        key,
        load_vectors,
        lambda: train_vectors(sentences, options),
        lambda trained, path: trained.save(path),
    )
    matrix = vectors.lookup([str(id) for id in range(len(vocabulary))])
    return SubwordVectors(vocabulary, matrix, np.any(matrix != 0, axis=1))


def embedding_vectors(tokenizer: Any, embeddings: np.ndarray, words: list[str]) -> tuple[WordVectors, TokensInSpace]:
    """Read the model's own embedding as word vectors, for want of any others in the source language.

    A word is the mean of its tokens' rows; the rows are centred first, since they share a large common direction.

    Args:
        tokenizer: The model's tokenizer.
        embeddings: Its input embedding [tokens × d].
        words: Words that are needed, such as a dictionary's.

    Returns:
        The vectors of those words and of the whole words of the vocabulary, and a function that gives the vectors of
        the tokens in whatever space those word vectors were rotated to.
    """
    vocabulary = vocabulary_of(tokenizer)
    rows = np.asarray(embeddings[: len(vocabulary)], dtype=np.float32)
    special = np.array([form.is_special for form in vocabulary.forms])
    centred = np.where(special[:, None], 0, rows - rows[~special].mean(axis=0)).astype(np.float32)
    whole = [form.text for form in vocabulary.forms if form.starts_word and form.text.isalpha()]
    known = list(dict.fromkeys([*whole, *words]))
    pieces = encode_words(tokenizer, [f" {word}" for word in known])
    matrix = np.stack([centred[ids].mean(axis=0) if ids else np.zeros(rows.shape[1], np.float32) for ids in pieces])

    def tokens_in_space_of(rotated: WordVectors) -> SubwordVectors:
        moved = centred if rotated.rotation is None else centred @ rotated.rotation.astype(np.float32)
        return SubwordVectors(vocabulary, moved, ~special)

    return WordVectors(known, matrix, None, None), tokens_in_space_of


def _sentences(corpus: Corpus) -> Callable[[], Iterator[list[str]]]:
    """Words of each paragraph, cut as the script needs it."""
    split = train_segmenter(corpus)
    return lambda: (split(line) for line in corpus)
