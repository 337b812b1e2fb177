"""Vectors of words and tokens, trained on text or read from a model's embedding; words that align two languages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import (
    EachLine,
    ShardsLost,
    SplitText,
    SubwordVectors,
    VectorTraining,
    WordVectors,
    train_vectors,
)
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.evidence.vectors.training import vector_shards
from relexify.processes import launch
from relexify.progress import report_under
from relexify.storage.cache import cached, is_cached
from relexify.text import Corpus, train_segmenter
from relexify.tokens import encode_words, encoder_of, normaliser_of, vocabulary_of
from relexify.tokens.encoding import TokenSplitting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = [
    "TokensInSpace",
    "choose_lexicon",
    "counted_vectors",
    "embedding_vectors",
    "has_token_vectors",
    "has_trained_vectors",
    "identical_words",
    "token_vectors",
    "trained_vectors",
]

TokensInSpace = Callable[[WordVectors], SubwordVectors]
"""Takes rotated word vectors, and returns the vectors of a vocabulary's tokens in the same space."""

_FILE = "vectors.safetensors"

logger = logging.getLogger(__name__)


def trained_vectors(corpus: Corpus, options: VectorTraining, *, name: str = "") -> WordVectors:
    """Train word vectors on a corpus, or load them from the cache.

    Args:
        corpus: The text.
        options: Options of the training.
        name: The name of the text in progress bars.
    """

    def words() -> SplitText:
        return SplitText(corpus, EachLine(train_segmenter(corpus)))  # split as the script requires

    with report_under(name) if name else nullcontext():
        return counted_vectors(*_word_entry(corpus, options), words, options)


def has_trained_vectors(corpus: Corpus, options: VectorTraining) -> bool:
    """Whether the result of `trained_vectors` is in the cache."""
    return is_cached(*_word_entry(corpus, options))


def token_vectors(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, options: VectorTraining) -> SubwordVectors:
    """Train vectors of tokens on text that their tokenizer has split, or load them from the cache."""
    options = _of_whole_tokens(options)
    encoder, vocabulary = encoder_of(tokenizer), vocabulary_of(tokenizer)

    text = SplitText(corpus, TokenSplitting(encoder.encode))
    vectors = counted_vectors(*_token_entry(corpus, tokenizer, options), lambda: text, options)
    matrix = vectors.lookup([str(id) for id in range(len(vocabulary))])
    return SubwordVectors(vocabulary, matrix, np.any(matrix != 0, axis=1))


def has_token_vectors(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, options: VectorTraining) -> bool:
    """Whether the vectors that `token_vectors` trains are in the cache."""
    return is_cached(*_token_entry(corpus, tokenizer, _of_whole_tokens(options)))


def choose_lexicon(
    dictionary: BilingualLexicon | None, source: WordVectors, target: WordVectors, *, warn: bool = True
) -> BilingualLexicon:
    """Return the dictionary; without one, log a warning and return the words that both languages write alike."""
    if dictionary is not None:
        return dictionary
    lexicon = identical_words(source, target)
    logger.log(
        logging.WARNING if warn else logging.DEBUG,
        "no dictionary given: falling back on %d words that both languages write alike; "
        "even a small dictionary (`dictionary`) usually does better",
        len(lexicon),
    )
    return lexicon


def identical_words(source: WordVectors, target: WordVectors, *, shortest: int = 4) -> BilingualLexicon:
    """Return the words of at least `shortest` letters that both languages write alike.

    Raises:
        EvidenceError: There are no such words.
    """
    lexicon = BilingualLexicon.identical(source.words, target.words, shortest=shortest)
    if not len(lexicon):
        raise EvidenceError(
            "the two languages write no word alike: give a dictionary (`dictionary`) to a method that takes one"
        )
    return lexicon


def embedding_vectors(
    tokenizer: PreTrainedTokenizerFast, embedding: np.ndarray, words: list[str], *, target_words: Sequence[str] = ()
) -> tuple[WordVectors, TokensInSpace]:
    """Use a model's own embedding as word vectors of its language.

    The vector of a word is the mean of its tokens' rows. Rows are centred first, because they share a large common
    direction.

    Args:
        tokenizer: The model's tokenizer.
        embedding: The model's input embedding [tokens × d].
        words: Words that need a vector, such as those of a dictionary.
        target_words: Words of the target language. If the tokenizer normalises one to a whole word of its vocabulary
            (`Berlin` to `berlin`), it gets a vector too, so that both languages share this word.

    Returns:
        The vectors of these words and of the whole words of the vocabulary, and a function that returns the vectors of
        the tokens in the space to which the word vectors were rotated.
    """
    vocabulary = vocabulary_of(tokenizer)
    rows = np.asarray(embedding[: len(vocabulary)], dtype=np.float32)
    special = np.array([form.is_special for form in vocabulary.forms])
    centred = np.where(special[:, None], 0, rows - rows[~special].mean(axis=0)).astype(np.float32)
    whole = [form.text for form in vocabulary.forms if form.starts_word and form.is_word]
    alike: list[str] = []
    if (normalise := normaliser_of(tokenizer)) is not None:
        in_vocabulary = set(whole)
        alike = [word for word in target_words if normalise(word) in in_vocabulary]
    known = list(dict.fromkeys([*whole, *words, *alike]))
    pieces = encode_words(tokenizer, [f" {word}" for word in known])
    matrix = np.stack([centred[ids].mean(axis=0) if ids else np.zeros(rows.shape[1], np.float32) for ids in pieces])

    def tokens_in_space_of(rotated: WordVectors) -> SubwordVectors:
        moved = centred if rotated.rotation is None else centred @ rotated.rotation.astype(np.float32)
        return SubwordVectors(vocabulary, moved, ~special)

    return WordVectors(known, matrix, None, None), tokens_in_space_of


def counted_vectors(
    kind: str, key: Mapping[str, object], text: Callable[[], SplitText], options: VectorTraining
) -> WordVectors:
    """Load vectors from the cache, or train them on a text; hosts that work together share the counting.

    Args:
        kind: As for `cached`.
        key: As for `cached`.
        text: Opens the text; called only if the vectors are not in the cache.
        options: Options of the training.
    """
    shards = vector_shards(kind, key)

    def make() -> WordVectors:
        alone = text()
        # With a single host, existing shards are left from an interrupted run.
        if launch().hosts == 1 and not shards.exist():
            return train_vectors(alone, options)
        with suppress(ShardsLost):
            return train_vectors(replace(alone, shards=shards), options)
        # The shards are gone: another host has removed them after caching its vectors, or the cache is not writable.
        return _cached_vectors(kind, key, lambda: train_vectors(alone, options))

    vectors = _cached_vectors(kind, key, make)
    shards.remove()
    return vectors


def _cached_vectors(kind: str, key: object, make: Callable[[], WordVectors]) -> WordVectors:
    return cached(
        kind,
        key,
        make=make,
        save=lambda vectors, folder: vectors.save(folder / _FILE),
        load=lambda folder: load_vectors(folder / _FILE),
    )


def _of_whole_tokens(options: VectorTraining) -> VectorTraining:
    """Return options without n-grams, because the letters of a token carry no additional information."""
    return replace(options, shortest_ngram=1, longest_ngram=0)


def _word_entry(corpus: Corpus, options: VectorTraining) -> tuple[str, Mapping[str, object]]:
    """Return the kind and the key of word vectors in the cache."""
    return "vectors", {"corpus": corpus, "options": options}


def _token_entry(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, options: VectorTraining
) -> tuple[str, Mapping[str, object]]:
    """Return the kind and the key of token vectors in the cache."""
    return "token-vectors", {"corpus": corpus, "tokenizer": encoder_of(tokenizer).identity, "options": options}
