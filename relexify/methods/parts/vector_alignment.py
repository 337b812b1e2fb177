"""Word vectors of two languages: read or train them, and align them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from relexify.evidence.alignment import Rotation, align, align_randomly, unaligned
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import VectorTraining, WordVectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods.parts.translations import IF_SWAPPED
from relexify.methods.parts.vectors import (
    TokensInSpace,
    choose_lexicon,
    embedding_vectors,
    identical_words,
    trained_vectors,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["AlignedBy", "align_vectors", "read_target_vectors", "read_word_vectors"]

AlignedBy = Literal["dictionary", "identical", "self-learning", "unsupervised", "adversarial", "random", "nothing"]
"""How word vectors are aligned:

- dictionary: by the entries of a dictionary; without one, by words that both languages write alike
- identical: by words that both languages write alike
- self-learning: by a small dictionary that is extended by neighbours
- unsupervised: without pairs, by all searches for a map between the two spaces
- adversarial: without pairs, only by the adversarial training of the papers
- random: by a random rotation, as a control
- nothing: not at all, because the vectors are already in one space, as multilingual vectors are
"""

_FORM_WORDS = 50_000
"""Number of the most frequent words with vectors that the Unicode form of the vectors is determined from."""

logger = logging.getLogger(__name__)


def read_word_vectors(
    evidence: Evidence,
    training: VectorTraining,
    tokenizer: PreTrainedTokenizerFast,
    read_embedding: Callable[[], np.ndarray],
    *,
    warn: bool = True,
) -> tuple[WordVectors, WordVectors, TokensInSpace | None]:
    """Return word vectors of both languages: from files, from text, or from the model's embedding.

    Args:
        evidence: The files and texts.
        training: Options of the training of vectors on text.
        tokenizer: The source model's tokenizer.
        read_embedding: Returns the source model's input embedding [tokens × d]. It replaces vectors of the source
            language if there are neither vectors nor text.
        warn: Whether to warn if the embedding replaces vectors.

    Returns:
        The vectors of the source language and of the target language. If the embedding replaced the source vectors,
        also a function that returns the vectors of its tokens once the words are aligned (`embedding_vectors`).
    """
    # Files first: if one cannot be read, no time has been spent on training the other side.
    source = None if evidence.source_vectors is None else load_vectors(evidence.source_vectors)
    target = None if evidence.target_vectors is None else load_vectors(evidence.target_vectors)
    # Train one after the other: each training uses all cores, and two at once would be many times slower.
    if source is None and evidence.source_corpus is not None:
        source = trained_vectors(evidence.source_corpus, training, name="source language")
    if target is None:
        target = read_target_vectors(evidence, training)
    if source is not None:
        return source, target, None
    logger.log(
        logging.WARNING if warn else logging.DEBUG,
        "neither vectors nor text of the model's language are given: its own embedding replaces word vectors; "
        "`source_corpus` or `source_vectors` usually do better",
    )
    lexicon = evidence.lexicon
    words = [word for word in lexicon.source_words if " " not in word] if lexicon else []
    source, tokens_in_space = embedding_vectors(tokenizer, read_embedding(), words, target_words=target.words)
    return source, target, tokens_in_space


def read_target_vectors(evidence: Evidence, training: VectorTraining) -> WordVectors:
    """Return word vectors of the target language: from a file, or from text."""
    if evidence.target_vectors is not None:
        return load_vectors(evidence.target_vectors)
    return trained_vectors(evidence.corpus, training, name="target language")


def align_vectors(
    source: WordVectors,
    target: WordVectors,
    lexicon: BilingualLexicon | None,
    *,
    aligned_by: AlignedBy = "dictionary",
    with_dictionary: bool = True,
    search: AdversarialTraining | None = None,
    seed: int = 0,
    device: str = "cpu",
    warn: bool = True,
) -> Rotation:
    """Align the word vectors of two languages.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language.
        lexicon: The dictionary, if there is one; it also tests alignments by other evidence.
        aligned_by: How to align them.
        with_dictionary: Whether the dictionary may align them; otherwise, all identical words do, however short, as in
            RAMEN.
        search: Options of the search for a map without pairs.
        seed: Random seed.
        device: The device to search on.
        warn: Whether to warn if evidence is missing, or if it does not align the vectors.

    Raises:
        EvidenceError: There is no evidence to align the vectors with.
    """
    if lexicon is not None:  # the dictionary is spelled like the text, but vectors may be in another Unicode form
        lexicon = lexicon.spelled_like(" ".join(target.words[:_FORM_WORDS]))
    if aligned_by == "nothing":
        return unaligned(source, target, lexicon=lexicon, seed=seed)
    if aligned_by == "random":
        return align_randomly(source, target, lexicon=lexicon, seed=seed)
    if aligned_by in ("unsupervised", "adversarial"):
        from relexify.evidence.alignment.unsupervised.search import align_unsupervised  # imports torch

        return align_unsupervised(
            source, target, options=search, lexicon=lexicon, reduce=True, seed=seed, device=device
        )
    if not with_dictionary:
        pairs = identical_words(source, target, shortest=1)
    elif aligned_by == "identical":
        pairs = identical_words(source, target)
    else:
        pairs = choose_lexicon(lexicon, source, target, warn=warn)
    refinement = None
    if aligned_by == "self-learning":
        from relexify.evidence.alignment.unsupervised.self_learning import self_learn  # imports torch

        refinement = partial(self_learn, device=device)
    return align(source, target, pairs, reduce=True, refinement=refinement, seed=seed, warn=warn, if_swapped=IF_SWAPPED)
