"""The default: all evidence in equal parts, neutral tokens copied.

The order of evidence: special tokens by role > neutral tokens > vectors, dictionary and source pieces in equal parts >
random. What one kind of evidence does not cover is left to the others: without a dictionary it is half WECHSEL, half
source pieces, and a token without a vector is the mean of its source pieces.
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
from relexify.methods.translations import translations
from relexify.methods.wechsel import neighbours_in_space
from relexify.mixture import Mixture, blend, first_of
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from relexify.methods.inputs import Inputs

__all__ = ["blended"]

logger = logging.getLogger(__name__)


def blended(
    source_tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast,
    *evidence: Mixture,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Compose evidence from outside with what the two tokenizers say.

    Two tokenizers with the same tokens are one language: then every token is copied.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        evidence: Mixtures from word vectors (`wechsel`, `vector_neighbours`), from a dictionary (`translations`), …
        overrides: Source token by target token, as `special` takes them.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    special_tokens = special(source, target, overrides=overrides)
    if set(target.forms) == set(source.forms):
        return first_of(special_tokens, shared(source, target), method="blend")
    parts = blend(*((1.0, part) for part in (*evidence, pieces(source_tokenizer, target_tokenizer))))
    return first_of(special_tokens, neutral(source, target), parts, method="blend")


def _build(inputs: Inputs) -> Initialisation:
    """Blend all the evidence there is; use source pieces alone if there is none."""
    parts: list[Mixture] = []
    rotation: Rotation | None = None
    try:
        space = inputs.token_space()
        parts.append(neighbours_in_space(space, inputs))
        rotation = space.rotation
    except EvidenceError as error:
        logger.warning("ignoring word vectors: %s", error)
    if inputs.evidence.lexicon is not None:
        parts.append(translations(inputs.source, inputs.target, inputs.evidence.lexicon))
    if inputs.evidence.bitext is not None:
        counts, options = inputs.aligned_token_counts, inputs.evidence.aligning
        try:
            parts.append(
                aligned_tokens(
                    inputs.source, inputs.target, counts, smoothing=options.smoothing, min_count=options.min_count
                )
            )
        except EvidenceError as error:
            logger.warning("ignoring the parallel text: %s", error)
    if not parts:
        logger.warning("continuing with source pieces alone")
        return Initialisation(fvt(inputs.source, inputs.target, overrides=inputs.overrides))
    mixture = blended(inputs.source, inputs.target, *parts, overrides=inputs.overrides)
    return Initialisation(mixture, rotation=rotation)


METHODS.add(
    "blend",
    Method(
        becomes="in equal parts: its neighbours in aligned vectors (wechsel), the source pieces of its translations, "
        "and its own source pieces (fvt); digits and punctuation are copied: the default",
        evidence="vectors or text of both languages, a dictionary; parallel text, if given, is one more part; "
        "makes do with less",
        paper="relexify's own",
        build=_build,
        uses=("vectors", "dictionary", "bitext", "neighbours", "overrides"),
        unigram_prior=True,
    ),
)
