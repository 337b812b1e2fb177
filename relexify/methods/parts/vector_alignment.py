"""Word vectors of two languages: where they come from, and what aligns them."""

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
"""What aligns word vectors:

- dictionary: the entries of a dictionary; without one, words that both languages write alike
- identical: words that both languages write alike
- self-learning: a small dictionary that is extended by neighbours
- unsupervised: no pairs; all searches for a map between the two spaces
- adversarial: no pairs; only the adversarial training of the papers
- random: a random rotation, as a control
- nothing: the vectors are in one space already, as multilingual ones are
"""

_FORM_WORDS = 50_000
"""Words with vectors that show which Unicode form these are in, the most frequent ones."""

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
        training: How vectors are trained on text.
        tokenizer: The source model's tokenizer.
        read_embedding: Returns its input embedding [tokens × d], which replaces vectors of its language if there are
            neither vectors nor text.
        warn: Whether to warn of that.

    Returns:
        The vectors of the source and of the target language; and, if the embedding replaced the former, what returns
        those of its tokens once the words are aligned (`embedding_vectors`).
    """
    # Files first: one that cannot be read must not cost the training of the other side.
    source = None if evidence.source_vectors is None else load_vectors(evidence.source_vectors)
    target = None if evidence.target_vectors is None else load_vectors(evidence.target_vectors)
    # One after the other: each takes all cores, and two that share them are many times slower than two in turn.
    if source is None and evidence.source_corpus is not None:
        source = trained_vectors(evidence.source_corpus, training, name="source language")
    if target is None:
        target = read_target_vectors(evidence, training)
    if source is not None:
        return source, target, None
    logger.log(
        logging.WARNING if warn else logging.DEBUG,
        "neither vectors nor text of the model's language given: its own embedding replaces word vectors; "
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
        lexicon: The dictionary, if there is one; it also tests what other evidence aligns.
        aligned_by: What aligns them.
        with_dictionary: Whether a dictionary may; otherwise all identical words do, however short, as in RAMEN.
        search: How a map is searched for without pairs.
        seed: Random seed.
        device: Where to search.
        warn: Whether to warn of missing evidence and of vectors that it does not align.

    Raises:
        EvidenceError: There is nothing to align the vectors by.
    """
    if lexicon is not None:  # its words are spelled like the text, and those of a file may be in another Unicode form
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
