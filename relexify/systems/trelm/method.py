"""TreLM's vocabulary and embedding: one vocabulary over both languages, its vectors moved into the model's space."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors import VectorTraining, WordVectors, train_vectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.mixture import PrecomputedRows
from relexify.pretrained.tokenizers import train_joint_tokenizer
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.steps import kept_file, kept_tokenizer, step_name
from relexify.systems.trelm.embedding import tokens_in_embedding_space
from relexify.text import Corpus
from relexify.tokens import TokenForm, Vocabulary, encoder_of, interleave_lines, vocabulary_of

__all__ = ["anchor_ids", "joint_tokenizer", "token_counts", "token_vectors", "trelm_rows"]

BATCH = 1_000
COUNTED_BYTES = 8_000_000
"""Of the model's language: enough to tell frequent tokens from rare ones."""

logger = logging.getLogger(__name__)


def joint_tokenizer(recipe: Transfer, old: Any, corpus: Corpus) -> Any:
    """The WordPiece tokenizer over both languages, or that of an earlier run on the same texts."""
    texts = _texts(recipe, corpus)
    name = step_name(
        "joint tokenizer",
        corpora=[text.fingerprint() for text in texts],
        like=old.backend_tokenizer.to_str(),
        special=old.special_tokens_map,
        size=recipe.vocab_size,
        alphabet=recipe.alphabet,
    )
    return kept_tokenizer(
        name,
        lambda: train_joint_tokenizer(texts, like=old, vocab_size=recipe.vocab_size, alphabet=recipe.alphabet),
    )


def trelm_rows(recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus) -> PrecomputedRows:
    """Rows for the tokens of the new vocabulary that the text has.

    Args:
        recipe: What is wanted.
        model: The source model, whose rows are the space to move into.
        old: Its tokenizer.
        new: The joint tokenizer.
        corpus: Text of the new language.

    Raises:
        InputError: The vectors that were given have another width than the model.
        EvidenceError: The vectors could not be aligned with the embedding.
        MissingExtra: gensim is needed.
    """
    width = int(model.get_input_embeddings().weight.shape[1])
    drawn = recipe.initialisation.startswith("random")
    vectors = None if drawn else _vectors(recipe, new, corpus, width)
    anchor, forms, counts = _anchor(recipe, model, old, new)
    rows, found = tokens_in_embedding_space(
        *(vocabulary_of(new), vectors, anchor, recipe.initialisation),
        by=recipe.map,
        counts=counts,
        anchor_forms=forms if recipe.aligned_by == "identical" else None,
        seed=recipe.seed,
        device=recipe.device,
    )
    if found is not None and found.stability:
        logger.info("two maps by frequency send %.1f %% of the frequent tokens to the same row", 100 * found.stability)
    elif found is not None and found.chance is not None:
        logger.info(
            "%.1f %% of the frequent tokens are one another's nearest in the embedding, under random rotations %.1f %%",
            *(100 * found.agreement.share, 100 * found.chance.share),
        )
    return rows


def token_vectors(texts: list[Corpus], tokenizer: Any, options: VectorTraining) -> WordVectors:
    """Vectors of tokens, by their spelling, trained on the lines of all texts in turn, or found in the cache.

    Raises:
        MissingExtra: gensim is needed.
    """
    encoder = encoder_of(tokenizer)
    key = step_name(
        "token vectors",
        corpora=[text.fingerprint() for text in texts],
        tokenizer=encoder.identity,
        options=asdict(options),
    )
    return kept_file(
        "vectors",
        key,
        load_vectors,
        lambda: train_vectors(_sentences(texts, tokenizer), options),
        lambda vectors, path: vectors.save(path),
    )


def _anchor(recipe: Transfer, model: Any, old: Any, new: Any) -> tuple[np.ndarray, list[TokenForm], np.ndarray]:
    """The model's rows and what their tokens say, most frequent first; and how often new tokens occur in its language.

    Both are counted in the same text of the model's language: a map is sought where the two vocabularies speak of the
    same things.
    """
    text = Corpus.open(recipe.source_corpus).sample_bytes(COUNTED_BYTES)
    vocabulary = vocabulary_of(old)
    ids = anchor_ids(vocabulary, token_counts(old, text))
    embedding = model.get_input_embeddings().weight.detach().float().cpu().numpy()
    return embedding[ids], [vocabulary.forms[id] for id in ids], token_counts(new, text)


def _vectors(recipe: Transfer, new: Any, corpus: Corpus, width: int) -> WordVectors:
    """Vectors of the new tokens by their spelling: those that were given, or skip-gram ones."""
    if recipe.target_vectors is None:
        options = replace(recipe.vectors, method="skipgram", width=width, seed=recipe.seed)
        return token_vectors(_texts(recipe, corpus), new, options)
    given = load_vectors(recipe.target_vectors)
    if given.width != width:
        raise InputError(
            f"{recipe.target_vectors} is {given.width} wide and the model's embedding {width}: trelm takes vectors of "
            "tokens in the width of the model, or trains them if none are given"
        )
    return given


def _texts(recipe: Transfer, corpus: Corpus) -> list[Corpus]:
    return [Corpus.open(recipe.source_corpus), corpus]


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
