"""The default: known meanings, neighbours and source pieces in equal parts, neutral tokens copied.

The order of evidence: special tokens by role > neutral tokens > in equal parts, its source pieces and its meaning, that
is: its translations, or else those of its neighbours in the target language, or else, if there is neither a dictionary
nor parallel text, its neighbours in aligned vectors > random. What one kind of evidence does not cover is left to the
others: a token without a vector is the mean of its source pieces.

Source pieces say nothing about the meaning of most tokens, but they keep tokens apart, so that the model recognises a
word it has just read; a mean over neighbours says what a token is like, and makes similar tokens similar.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from relexify.errors import EvidenceError
from relexify.evidence.alignment import Rotation
from relexify.methods.copying import neutral, shared, special
from relexify.methods.fvt import fvt, pieces
from relexify.methods.ramen import aligned_tokens
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.methods.translated_neighbours import translated_neighbours
from relexify.methods.translations import translations
from relexify.methods.wechsel import neighbours_in_space
from relexify.mixture import Mixture, blend, first_of
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from relexify.methods.inputs import Inputs

__all__ = ["blended"]

logger = logging.getLogger(__name__)

MOST_PRECISION = 0.9
"""Precisions above this count as this one, so that vectors get at most nine times the share of the source pieces."""


def blended(
    source_tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast,
    *evidence: tuple[float, Mixture],
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Compose evidence from outside with what the two tokenizers say.

    Two tokenizers with the same tokens are one language: then every token is copied.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        evidence: Mixtures from a dictionary (`translations`), from word vectors (`translated_neighbours`,
            `vector_neighbours`), …, each after its share; source pieces have the share 1.
        overrides: Source token by target token, as `special` takes them.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    special_tokens = special(source, target, overrides=overrides)
    if set(target.forms) == set(source.forms):
        return first_of(special_tokens, shared(source, target), method="blend")
    parts = blend(*evidence, (1.0, pieces(source_tokenizer, target_tokenizer)))
    return first_of(special_tokens, neutral(source, target), parts, method="blend")


def _build(inputs: Inputs) -> Initialisation:
    """Blend all the evidence there is; use source pieces alone if there is none."""
    meanings = _known_meanings(inputs)
    parts = [] if meanings is None else [(1.0, meanings)]
    rotation: Rotation | None = None
    try:
        space = inputs.token_space()
        if meanings is None:
            parts.append((1.0, neighbours_in_space(space, inputs)))
        else:
            source = vocabulary_of(inputs.source)
            parts.append((1.0, translated_neighbours(source, space.target, meanings, device=inputs.device)))
            if (odds := _odds(space.rotation)) > 0:
                parts.append((odds, neighbours_in_space(space, inputs)))
        rotation = space.rotation
    except EvidenceError as error:
        logger.warning("ignoring word vectors: %s", error)
    if not parts:
        logger.warning("continuing with source pieces alone")
        return Initialisation(fvt(inputs.source, inputs.target, overrides=inputs.overrides))
    mixture = blended(inputs.source, inputs.target, *parts, overrides=inputs.overrides)
    return Initialisation(mixture, rotation=rotation)


def _known_meanings(inputs: Inputs) -> Mixture | None:
    """Return the tokens that a dictionary or parallel text translates, in equal parts; None if there is neither."""
    parts: list[tuple[float, Mixture]] = []
    if inputs.evidence.lexicon is not None:
        parts.append((1.0, translations(inputs.source, inputs.target, inputs.evidence.lexicon)))
    if inputs.evidence.bitext is not None:
        counts, options = inputs.aligned_token_counts, inputs.evidence.aligning
        try:
            aligned = aligned_tokens(
                inputs.source, inputs.target, counts, smoothing=options.smoothing, min_count=options.min_count
            )
            parts.append((1.0, aligned))
        except EvidenceError as error:
            logger.warning("ignoring the parallel text: %s", error)
    meanings = blend(*parts) if parts else None
    return meanings if meanings is not None and meanings.known.any() else None


def _odds(rotation: Rotation) -> float:
    """Return the odds p / (1 − p) that aligned vectors translate a held-out word correctly; 0 if it is not known.

    At a precision of 3 %, which is common, neighbours in aligned vectors are noise; at 50 % they count as much as
    the source pieces.
    """
    precision = min(rotation.quality.precision, MOST_PRECISION) if rotation.quality else 0.0
    return precision / (1 - precision)


METHODS.add(
    "blend",
    Method(
        becomes="half its source pieces (fvt), half the source pieces of its translations, or else of those of its "
        "neighbours in the target language, and its neighbours in aligned vectors (wechsel) as far as those are "
        "precise; digits and punctuation are copied: the default",
        evidence="a dictionary or parallel text; vectors or text of both languages; makes do with less",
        paper="relexify's own",
        build=_build,
        uses=("vectors", "dictionary", "bitext", "neighbours", "overrides"),
    ),
)
