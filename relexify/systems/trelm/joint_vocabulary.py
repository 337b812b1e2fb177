"""The joint vocabulary (section 3.1): one WordPiece tokenizer over both languages, and the rows of its tokens.

The rows are skip-gram vectors of the tokens, trained on text of both languages, which `embedding` maps into the model's
space.
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
from relexify.systems.trelm.method_options import TrelmInitialisation
from relexify.text import Corpus
from relexify.tokens import Vocabulary, encoder_of, interleave_lines, vocabulary_of
from relexify.tokens.encoding import TokenSplitting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["joint_rows", "joint_token_vectors", "joint_tokenizer", "sort_by_frequency", "token_counts"]

COUNTED_BYTES = 8_000_000
"""Size of the source text in which tokens are counted; enough to distinguish frequent tokens from rare ones."""

_REVISION = 2
"""Of joint vocabularies: raised when another one is trained on the same text."""

logger = logging.getLogger(__name__)


def joint_tokenizer(
    source: PreTrainedTokenizerFast, evidence: Evidence, *, vocab_size: int, options: TrelmInitialisation
) -> PreTrainedTokenizerFast:
    """Train a WordPiece tokenizer over both languages, or load it from the cache.

    Args:
        source: The model's tokenizer, whose special tokens are used.
        evidence: Evidence with text of both languages.
        vocab_size: Size of the vocabulary.
        options: The alphabet of the vocabulary, and whether it is in lower case.

    Raises:
        InputError: There is no text of the source language.
    """
    texts = _texts_of_both_languages(evidence)
    alphabet, lowercase = options.alphabet, options.lowercase
    return cached(
        "joint-tokenizer",
        {
            "revision": _REVISION,
            "texts": texts,
            "like": source,
            "vocab_size": vocab_size,
            "alphabet": alphabet,
            "lowercase": lowercase,
        },
        make=lambda: train_joint_tokenizer(
            texts, like=source, vocab_size=vocab_size, alphabet=alphabet, lowercase=lowercase
        ),
        save=save_tokenizer,
        load=load_tokenizer,
    )


def joint_rows(inputs: Inputs) -> PrecomputedRows:
    """Return rows for the tokens of the joint vocabulary that occur in the text.

    Args:
        inputs: Inputs with the joint tokenizer as target, and the source embedding as the space to map into.

    Raises:
        InputError: The width of the given vectors is not that of the model.
        EvidenceError: The vectors could not be aligned with the embedding.
        MissingExtra: gensim is needed.
    """
    options = inputs.own_options(TrelmInitialisation)
    width, vectors_file = inputs.embedding.shape[1], inputs.evidence.target_vectors
    vectors: WordVectors | None = None  # if it stays None, every token gets a random vector
    is_random = options.initialisation.startswith("random")
    if not is_random and vectors_file is None:
        training = replace(inputs.vectors, method="skipgram", width=width, seed=inputs.seed)
        vectors = joint_token_vectors(_texts_of_both_languages(inputs.evidence), inputs.target, training)
    elif not is_random and vectors_file is not None:
        vectors = load_vectors(vectors_file)
        if vectors.width != width:
            raise InputError(
                f"{vectors_file} is {vectors.width} wide and the model's embedding {width}: trelm needs vectors of "
                "tokens in the width of the model, or trains them if none are given"
            )
    # The tokens of both vocabularies are ordered by their frequency in the same text of the source language, so that
    # the map is fitted on tokens with the same meaning in both.
    text = _texts_of_both_languages(inputs.evidence)[0].sample_bytes(COUNTED_BYTES)
    source, target = vocabulary_of(inputs.source), vocabulary_of(inputs.target)
    anchor = sort_by_frequency(source, token_counts(inputs.source, text))
    counts = token_counts(inputs.target, text)
    ids, static = static_vectors(target, vectors, width=width, counts=counts, seed=inputs.seed)
    pairs = None  # without pairs, a map is searched for
    if inputs.aligned_by == "identical":
        pairs = identical_tokens([target.forms[id] for id in ids], [source.forms[id] for id in anchor])
    rows, found_map = embedding_rows(
        static,
        inputs.embedding[anchor],
        options.initialisation,
        by=options.map,
        pairs=pairs,
        options=inputs.map_search,
        seed=inputs.seed,
        device=inputs.device,
    )
    if found_map is not None and found_map.stability:
        logger.info(
            "two maps by frequency agree on the row of %.1f%% of the frequent tokens", 100 * found_map.stability
        )
    elif found_map is not None and found_map.chance is not None:
        logger.info(
            "%.1f%% of the frequent tokens are mutual nearest neighbours of rows, %.1f%% under random rotations",
            100 * found_map.agreement.share,
            100 * found_map.chance.share,
        )
    return PrecomputedRows(ids, rows)


def joint_token_vectors(
    texts: Sequence[Corpus], tokenizer: PreTrainedTokenizerFast, options: VectorTraining
) -> WordVectors:
    """Train vectors of tokens, by their spelling, on the interleaved lines of all texts, or load them from the cache.

    Raises:
        MissingExtra: gensim is needed.
    """
    encoder, tokens = encoder_of(tokenizer), vocabulary_of(tokenizer).tokens

    key = {"texts": list(texts), "tokenizer": encoder.identity, "options": options}
    text = SplitText(_Lines(texts), TokenSplitting(encoder.encode, tokens))
    return counted_vectors("token-vectors", key, lambda: text, options)


@dataclass(frozen=True)
class _Lines:
    """The interleaved lines of all texts; they can be read repeatedly."""

    texts: Sequence[Corpus]

    def __iter__(self) -> Iterator[str]:
        return interleave_lines([text.__iter__ for text in self.texts])


def token_counts(tokenizer: PreTrainedTokenizerFast, text: str) -> np.ndarray:
    """Return the number of occurrences of each token of a vocabulary in a text, int64 [tokens]."""
    counts = np.zeros(len(tokenizer), np.int64)
    for ids in encoder_of(tokenizer).encode(text.split("\n")):
        np.add.at(counts, np.asarray(ids, np.int64), 1)
    return counts


def sort_by_frequency(vocabulary: Vocabulary, counts: np.ndarray) -> np.ndarray:
    """Return the ids of all tokens that are not special, most frequent first, int64 [n].

    Ids do not reflect frequency: BERT's vocabulary begins with a thousand unused tokens.

    Args:
        vocabulary: The model's vocabulary.
        counts: Number of occurrences of each token in text of its language [tokens].
    """
    is_text = np.array([not form.is_special for form in vocabulary.forms])
    order = np.argsort(-counts[: len(is_text)], kind="stable")
    ids: np.ndarray = order[is_text[order]]
    return ids


def _texts_of_both_languages(evidence: Evidence) -> list[Corpus]:
    """Return the text of the source language and that of the target language."""
    if evidence.source_corpus is None:
        raise InputError("the method trelm also needs text of the model's language: give `source_corpus`")
    return [evidence.source_corpus, evidence.corpus]
