"""The joint vocabulary (section 3.1): one WordPiece tokenizer over both languages, and the rows of its tokens.

The rows start as skip-gram vectors of the tokens, trained on text of both languages; `embedding` maps them into the
model's space.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import InputError
from relexify.evidence.evidence import Evidence
from relexify.evidence.vectors import SplitText, VectorTraining, WordVectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods.inputs import Inputs
from relexify.methods.parts.vectors import counted_vectors
from relexify.mixture import PrecomputedRows
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer, train_joint_tokenizer
from relexify.storage.cache import cached
from relexify.systems.trelm.embedding import embedding_rows, identical_tokens, static_vectors
from relexify.systems.trelm.method import TrelmInitialisation
from relexify.text import Corpus
from relexify.tokens import Vocabulary, encoder_of, interleave_lines, vocabulary_of
from relexify.tokens.encoding import TokenSplitting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["joint_rows", "joint_token_vectors", "joint_tokenizer", "sort_by_frequency", "token_counts"]

COUNTED_BYTES = 8_000_000
"""Text of the source language in which tokens are counted; enough to distinguish frequent tokens from rare ones."""

logger = logging.getLogger(__name__)


def joint_tokenizer(
    source: PreTrainedTokenizerFast, evidence: Evidence, *, vocab_size: int, options: TrelmInitialisation
) -> PreTrainedTokenizerFast:
    """Train a WordPiece tokenizer over both languages, or load it from the cache.

    Args:
        source: The model's tokenizer, whose special tokens it gets.
        evidence: With text of both languages.
        vocab_size: Size of the vocabulary.
        options: Its alphabet, and whether it is in lower case.

    Raises:
        InputError: There is no text of the source language.
    """
    texts = _texts(evidence)
    alphabet, lowercase = options.alphabet, options.lowercase
    return cached(
        "joint-tokenizer",
        {"texts": texts, "like": source, "vocab_size": vocab_size, "alphabet": alphabet, "lowercase": lowercase},
        make=lambda: train_joint_tokenizer(
            texts, like=source, vocab_size=vocab_size, alphabet=alphabet, lowercase=lowercase
        ),
        save=save_tokenizer,
        load=load_tokenizer,
    )


def joint_rows(inputs: Inputs) -> PrecomputedRows:
    """Return rows for the tokens of the joint vocabulary that the text has.

    Args:
        inputs: With the joint tokenizer as target, and the source embedding as the space to map into.

    Raises:
        InputError: The given vectors have another width than the model.
        EvidenceError: The vectors could not be aligned with the embedding.
        MissingExtra: gensim is needed.
    """
    options = inputs.own_options(TrelmInitialisation)
    width, given = inputs.embedding.shape[1], inputs.evidence.target_vectors
    vectors: WordVectors | None = None  # every token gets a random vector
    is_random = options.initialisation.startswith("random")
    if not is_random and given is None:
        training = replace(inputs.vectors, method="skipgram", width=width, seed=inputs.seed)
        vectors = joint_token_vectors(_texts(inputs.evidence), inputs.target, training)
    elif not is_random and given is not None:
        vectors = load_vectors(given)
        if vectors.width != width:
            raise InputError(
                f"{given} is {vectors.width} wide and the model's embedding {width}: trelm takes vectors of "
                "tokens in the width of the model, or trains them if none are given"
            )
    # The tokens of both vocabularies are ordered by their frequency in the same text of the source language, so that
    # the map is fitted where the two vocabularies describe the same things.
    text = _texts(inputs.evidence)[0].sample_bytes(COUNTED_BYTES)
    source, target = vocabulary_of(inputs.source), vocabulary_of(inputs.target)
    anchor = sort_by_frequency(source, token_counts(inputs.source, text))
    counts = token_counts(inputs.target, text)
    ids, static = static_vectors(target, vectors, width=width, counts=counts, seed=inputs.seed)
    pairs = None  # a map is searched for
    if inputs.aligned_by == "identical":
        pairs = identical_tokens([target.forms[id] for id in ids], [source.forms[id] for id in anchor])
    rows, found = embedding_rows(
        static,
        inputs.embedding[anchor],
        options.initialisation,
        by=options.map,
        pairs=pairs,
        options=inputs.map_search,
        seed=inputs.seed,
        device=inputs.device,
    )
    if found is not None and found.stability:
        logger.info("Two maps by frequency send %.1f%% of the frequent tokens to the same row.", 100 * found.stability)
    elif found is not None and found.chance is not None:
        logger.info(
            "%.1f%% of the frequent tokens are mutual nearest neighbours of rows, %.1f%% under random rotations.",
            100 * found.agreement.share,
            100 * found.chance.share,
        )
    return PrecomputedRows(ids, rows)


def joint_token_vectors(
    texts: Sequence[Corpus], tokenizer: PreTrainedTokenizerFast, options: VectorTraining
) -> WordVectors:
    """Train vectors of tokens, by their spelling, on the lines of all texts in turn, or load them from the cache.

    Raises:
        MissingExtra: gensim is needed.
    """
    encoder, tokens = encoder_of(tokenizer), vocabulary_of(tokenizer).tokens

    key = {"texts": list(texts), "tokenizer": encoder.identity, "options": options}
    text = SplitText(_Lines(texts), TokenSplitting(encoder.encode, tokens))
    return counted_vectors("token-vectors", key, lambda: text, options)


@dataclass(frozen=True)
class _Lines:
    """The lines of all texts in turn, which can be read repeatedly."""

    texts: Sequence[Corpus]

    def __iter__(self) -> Iterator[str]:
        return interleave_lines([text.__iter__ for text in self.texts])


def token_counts(tokenizer: PreTrainedTokenizerFast, text: str) -> np.ndarray:
    """Return how often each token of a vocabulary occurs in a text, int64 [tokens]."""
    counts = np.zeros(len(tokenizer), np.int64)
    for ids in encoder_of(tokenizer).encode(text.split("\n")):
        np.add.at(counts, np.asarray(ids, np.int64), 1)
    return counts


def sort_by_frequency(vocabulary: Vocabulary, counts: np.ndarray) -> np.ndarray:
    """Return the ids of all tokens that are not special, most frequent first, int64 [n].

    Ids say little about frequency: BERT's vocabulary starts with a thousand tokens that no text has.

    Args:
        vocabulary: The model's vocabulary.
        counts: How often each of its tokens occurs in text of its language [tokens].
    """
    plain = np.array([not form.is_special for form in vocabulary.forms])
    order = np.argsort(-counts[: len(plain)], kind="stable")
    found: np.ndarray = order[plain[order]]
    return found


def _texts(evidence: Evidence) -> list[Corpus]:
    """Return the text of the source language and that of the target language."""
    if evidence.source_corpus is None:
        raise InputError("the method trelm needs text of the model's language too: give `source_corpus`")
    return [evidence.source_corpus, evidence.corpus]
