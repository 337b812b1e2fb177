"""TreLM's vocabulary and embedding: one vocabulary over both languages, its vectors moved into the model's space."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from relexify.errors import InputError
from relexify.evidence.evidence import Evidence
from relexify.evidence.vectors import VectorTraining, WordVectors, train_vectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods.inputs import Inputs
from relexify.mixture import PrecomputedRows
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer, train_joint_tokenizer
from relexify.storage.cache import cached
from relexify.systems.trelm.embedding import tokens_in_embedding_space
from relexify.systems.trelm.registration import TrelmInitialisation
from relexify.text import Corpus
from relexify.tokens import TokenForm, Vocabulary, encoder_of, interleave_lines, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["anchor_ids", "joint_tokenizer", "token_counts", "token_vectors", "trelm_rows"]

BATCH = 1_000
_VECTORS = "vectors.safetensors"
COUNTED_BYTES = 8_000_000
"""Of the model's language: enough to tell frequent tokens from rare ones."""

logger = logging.getLogger(__name__)


def joint_tokenizer(
    source: PreTrainedTokenizerFast, evidence: Evidence, *, vocab_size: int, options: TrelmInitialisation
) -> PreTrainedTokenizerFast:
    """Train a WordPiece tokenizer over both languages, or load it from the cache."""
    texts = _texts(evidence)
    return cached(
        "joint-tokenizer",
        {"texts": texts, "like": source, "vocab_size": vocab_size, "alphabet": options.alphabet},
        make=lambda: train_joint_tokenizer(texts, like=source, vocab_size=vocab_size, alphabet=options.alphabet),
        save=save_tokenizer,
        load=load_tokenizer,
    )


def trelm_rows(inputs: Inputs) -> PrecomputedRows:
    """Return rows for the tokens of the joint vocabulary that the text has.

    Args:
        inputs: With the joint tokenizer as target, and the source embedding as the space to move into.

    Raises:
        InputError: The given vectors have another width than the model.
        EvidenceError: The vectors could not be aligned with the embedding.
        MissingExtra: gensim is needed.
    """
    options: TrelmInitialisation = inputs.options
    vectors = None if options.initialisation.startswith("random") else _vectors(inputs)
    anchor, forms, counts = _anchor(inputs)
    rows, found = tokens_in_embedding_space(
        vocabulary_of(inputs.target),
        vectors,
        anchor,
        options.initialisation,
        by=options.map,
        counts=counts,
        anchor_forms=forms if inputs.aligned_by == "identical" else None,
        seed=inputs.seed,
        device=inputs.device,
    )
    if found is not None and found.stability:
        logger.info("two maps by frequency send %.1f %% of the frequent tokens to the same row", 100 * found.stability)
    elif found is not None and found.chance is not None:
        logger.info(
            "%.1f %% of the frequent tokens are one another's nearest in the embedding, under random rotations %.1f %%",
            100 * found.agreement.share,
            100 * found.chance.share,
        )
    return rows


def token_vectors(texts: list[Corpus], tokenizer: Any, options: VectorTraining) -> WordVectors:
    """Vectors of tokens, by their spelling, trained on the lines of all texts in turn, or found in the cache.

    Raises:
        MissingExtra: gensim is needed.
    """
    encoder = encoder_of(tokenizer)
    return cached(
        "token-vectors",
        {"texts": texts, "tokenizer": encoder.identity, "options": options},
        make=lambda: train_vectors(_sentences(texts, tokenizer), options),
        save=lambda vectors, folder: vectors.save(folder / _VECTORS),
        load=lambda folder: load_vectors(folder / _VECTORS),
    )


def _anchor(inputs: Inputs) -> tuple[np.ndarray, list[TokenForm], np.ndarray]:
    """Return the model's rows and the forms of their tokens, most frequent first, and the counts of the target tokens.

    Both are counted in the same text of the model's language, so that the map is sought where the two vocabularies
    describe the same things.
    """
    source_corpus, _ = _texts(inputs.evidence)
    text = source_corpus.sample_bytes(COUNTED_BYTES)
    vocabulary = vocabulary_of(inputs.source)
    ids = anchor_ids(vocabulary, token_counts(inputs.source, text))
    return inputs.embedding[ids], [vocabulary.forms[id] for id in ids], token_counts(inputs.target, text)


def _vectors(inputs: Inputs) -> WordVectors:
    """Return vectors of the target tokens by their spelling: the given ones, or skip-gram vectors."""
    width, given = inputs.embedding.shape[1], inputs.evidence.target_vectors
    if given is None:
        options = replace(inputs.vectors, method="skipgram", width=width, seed=inputs.seed)
        return token_vectors(_texts(inputs.evidence), inputs.target, options)
    vectors = load_vectors(given)
    if vectors.width != width:
        raise InputError(
            f"{given} is {vectors.width} wide and the model's embedding {width}: trelm takes vectors of "
            "tokens in the width of the model, or trains them if none are given"
        )
    return vectors


def _texts(evidence: Evidence) -> list[Corpus]:
    if evidence.source_corpus is None:
        raise InputError("the method trelm needs text of the model's language too: give --source-corpus")
    return [evidence.source_corpus, evidence.corpus]


def _sentences(texts: list[Corpus], tokenizer: Any) -> Callable[[], Iterator[list[str]]]:
    encode, tokens = encoder_of(tokenizer).encode, vocabulary_of(tokenizer).tokens

    def lines() -> Iterator[list[str]]:
        batch: list[str] = []
        for line in interleave_lines([text.__iter__ for text in texts]):
            batch.append(line)
            if len(batch) == BATCH:
                yield from ([tokens[id] for id in ids] for ids in encode(batch))
                batch = []
        yield from ([tokens[id] for id in ids] for ids in encode(batch))

    return lines


def token_counts(tokenizer: Any, text: str) -> np.ndarray:
    """How often each token of a vocabulary occurs in a text, int64 [tokens]."""
    counts = np.zeros(len(tokenizer), np.int64)
    for ids in encoder_of(tokenizer).encode(text.split("\n")):
        np.add.at(counts, np.asarray(ids, np.int64), 1)
    return counts


def anchor_ids(vocabulary: Vocabulary, counts: np.ndarray) -> np.ndarray:
    """The tokens whose rows stand for a model's space, most frequent first, int64 [n].

    The ids of a vocabulary tell little of frequency: BERT's begin with a thousand that no text has.

    Args:
        vocabulary: Of the model.
        counts: Of its tokens in text of its language.
    """
    plain = np.array([not form.is_special for form in vocabulary.forms])
    order = np.argsort(-counts[: len(plain)], kind="stable")
    found: np.ndarray = order[plain[order]]
    return found
