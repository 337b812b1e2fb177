"""The default: a token is half its meaning and half its source pieces; neutral tokens are copied.

The order of evidence: special tokens by role > neutral tokens > in equal parts, meaning and source pieces > random. The
meaning of a token is that of its translations, or else of the translations of its neighbours in the target language.
If there is neither a dictionary nor parallel text, it is that of its neighbours in aligned vectors. A token without any
is the mean of its source pieces.

Source pieces say little about the meaning of a word. That they help nevertheless may be because they keep tokens apart,
so that the model recognises a word that it has just read; a mean over neighbours says what kind of word it is. Aligned
vectors are not used beside a dictionary: they are less precise than neighbours in one language, and made it worse.
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
from relexify.methods.translations import check_columns, translations
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
        evidence: Mixtures from a dictionary (`translations`), from word vectors (`translated_neighbours`,
            `vector_neighbours`), …, in equal parts with each other and with the source pieces.
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
    known = _known_meanings(inputs)
    parts = [] if known is None else [known]
    rotation: Rotation | None = None
    try:
        if known is None:
            space = inputs.token_space()
            parts.append(neighbours_in_space(space, inputs))
            rotation = space.rotation
        else:
            parts.append(translated_neighbours(inputs.source, inputs.target_subwords, known, device=inputs.device))
    except EvidenceError as error:
        logger.warning("ignoring word vectors: %s", error)
    if not parts:
        logger.warning("continuing with source pieces alone")
        return Initialisation(fvt(inputs.source, inputs.target, overrides=inputs.overrides))
    mixture = blended(inputs.source, inputs.target, *parts, overrides=inputs.overrides)
    return Initialisation(mixture, rotation=rotation)


def _known_meanings(inputs: Inputs) -> Mixture | None:
    """Return the tokens that a dictionary and parallel text translate, in equal parts; None if there are none.

    Raises:
        InputError: The dictionary has its columns swapped.
    """
    parts: list[tuple[float, Mixture]] = []
    if (lexicon := inputs.evidence.lexicon) is not None:
        check_columns(inputs.source, inputs.target, lexicon)
        parts.append((1.0, translations(inputs.source, inputs.target, lexicon)))
    if inputs.evidence.bitext is not None:
        counts, options = inputs.aligned_token_counts, inputs.evidence.aligning
        try:
            aligned = aligned_tokens(
                inputs.source, inputs.target, counts, smoothing=options.smoothing, min_count=options.min_count
            )
            parts.append((1.0, aligned))
        except EvidenceError as error:
            logger.warning("ignoring the parallel text: %s", error)
    known = blend(*parts) if parts else None
    return known if known is not None and known.known.any() else None


METHODS.add(
    "blend",
    Method(
        becomes="half its source pieces (fvt), half those of its translations, or else of the translations of its "
        "neighbours in the target language, or, without a dictionary, its neighbours in aligned vectors (wechsel); "
        "digits and punctuation are copied: the default",
        evidence="a dictionary or parallel text, and vectors or text of the target language; or vectors or text of "
        "both languages; makes do with less",
        paper="relexify's own",
        build=_build,
        uses=("vectors", "target vectors", "dictionary", "bitext", "neighbours", "overrides"),
        replaced_by={"vectors": ("dictionary", "bitext"), "neighbours": ("dictionary", "bitext")},
        unigram_prior=True,
        revision=3,
    ),
)
