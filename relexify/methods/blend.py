"""The default: a token is a mixture of its meaning and its source pieces; neutral tokens are copied.

Each row comes from the first of these that applies: special tokens by role > neutral tokens > meaning and source pieces
> random. The meaning of a token comes from the best available evidence:

- Known from translations: it has three times the weight of the source pieces.
- Guessed from the translations of the nearest tokens in the target language: a third of the weight of the source
  pieces.
- Without a dictionary and parallel text, guessed from neighbours in aligned vectors: also a third.
- If aligned vectors are unreliable, or if dictionary and parallel text translate no token, mixed by FOCUS from tokens
  in both vocabularies: the same weight as the source pieces.

A token without any of these is the mean of its source pieces.

Source pieces contain little information about the meaning of a word. They may help because they keep tokens distinct,
so that the model recognises a word that it has just read; a mean over neighbours only represents the type of word.
Aligned vectors are not used together with a dictionary: they are less precise than neighbours in one language, and made
results worse.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from relexify.errors import EvidenceError
from relexify.evidence.alignment import Rotation
from relexify.methods.focus import focus
from relexify.methods.fvt import fvt, pieces
from relexify.methods.parts.aligned import aligned_tokens
from relexify.methods.parts.copying import neutral, shared, special
from relexify.methods.parts.translated_neighbours import NEIGHBOURS, translated_neighbours
from relexify.methods.parts.translations import check_columns, translations, whole_words
from relexify.methods.registry import METHODS, TRANSLATIONS, Initialisation, Method
from relexify.methods.wechsel import neighbours_in_space
from relexify.mixture import Mixture, blend, first_of
from relexify.progress import ONCE
from relexify.tokens import AnyTokenizer, vocabulary_of

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs
    from relexify.methods.parts.token_space import TokenSpace
    from relexify.methods.parts.vector_alignment import AlignedBy

__all__ = ["blended"]

KNOWN_SHARE, GUESSED_SHARE, FOCUS_SHARE = 3.0, 1 / 3, 1.0
"""Weights of a meaning relative to the source pieces. With equal weights for known and guessed meanings, scores were
the same after 250 steps of training, but worse before it, because neighbours are often wrong."""
RELIABLE = 0.1
"""Minimum precision at 1 on held-out words (P@1) for aligned vectors to be used. With a precision of 0.002, from an
alignment on identical words in 60 MB of Swahili, they scored worse after training than FOCUS, which needs no
alignment."""

_TRUSTED: tuple[AlignedBy, ...] = ("unsupervised", "adversarial", "nothing")
"""Alignments that are used even if no words were held out to test them. The two searches without known pairs test their
map themselves; with `nothing`, the user states that the vectors are already in one space."""

_TEXT_ALONE = (
    "no dictionary: tokens are built from their spelling and from tokens in both vocabularies (%s); a "
    "dictionary (`dictionary`) usually does better"
)

logger = logging.getLogger(__name__)


def blended(
    source_tokenizer: AnyTokenizer,
    target_tokenizer: AnyTokenizer,
    *,
    known: Mixture | None = None,
    guessed: Mixture | None = None,
    focused: Mixture | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Compose known and guessed meanings with source pieces and copied tokens.

    If both tokenizers have the same tokens, every token is copied: both are assumed to be for the same language.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        known: Tokens whose meaning is known from a dictionary (`translations`) or parallel text (`aligned_tokens`).
        guessed: Tokens whose meaning is guessed from word vectors (`translated_neighbours`, `vector_neighbours`).
        focused: Tokens that are mixed from tokens of both vocabularies (`focus`).
        overrides: Source token by target token, as in `special`.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    special_tokens = special(source, target, overrides=overrides)
    if set(target.forms) == set(source.forms):
        return first_of(special_tokens, shared(source, target), method="blend")
    meanings = [(KNOWN_SHARE, known), (GUESSED_SHARE, guessed), (FOCUS_SHARE, focused)]
    evidence = [(share, each) for share, each in meanings if each is not None]
    parts = blend(*evidence, (1.0, pieces(source_tokenizer, target_tokenizer)))
    return first_of(special_tokens, neutral(source, target), parts, method="blend")


def _build(inputs: Inputs) -> Initialisation:
    """Blend all available evidence; without any, use only source pieces."""
    known = _known_meanings(inputs)
    guessed: Mixture | None = None
    focused: Mixture | None = None
    rotation: Rotation | None = None
    try:
        if known is not None:
            _report_few(int(known.known.sum()))
            guessed = translated_neighbours(inputs.source, inputs.target_subwords, known, device=inputs.device)
        elif (space := _reliable_space(inputs)) is not None:
            guessed, rotation = neighbours_in_space(space, inputs), space.rotation
        else:
            has_target_vectors = inputs.evidence.target_vectors is not None
            vectors = inputs.target_subwords if has_target_vectors else inputs.target_token_vectors
            focused = focus(inputs.source, vectors, device=inputs.device)
    except EvidenceError as error:
        logger.warning("ignoring word vectors: %s", error)
    if known is None and guessed is None and focused is None:
        logger.warning("continuing with source pieces only")
        return Initialisation(fvt(inputs.source, inputs.target, overrides=inputs.overrides))
    mixture = blended(
        inputs.source, inputs.target, known=known, guessed=guessed, focused=focused, overrides=inputs.overrides
    )
    return Initialisation(mixture, rotation=rotation)


def _known_meanings(inputs: Inputs) -> Mixture | None:
    """Return the translations from a dictionary and parallel text, with equal weights; None if there are none.

    Raises:
        InputError: The columns of the dictionary are swapped.
    """
    parts: list[tuple[float, Mixture]] = []
    if (lexicon := inputs.evidence.lexicon) is not None:
        check_columns(whole_words(inputs.source), whole_words(inputs.target), lexicon)
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


def _report_few(known: int) -> None:
    """Warn if so few meanings are known that all other tokens have the same neighbours."""
    if known <= NEIGHBOURS:
        logger.warning(
            "the dictionary or parallel text translates only %s, and the meanings of all others are guessed from this: "
            "give more of it, or none",
            "one token" if known == 1 else f"{known} tokens",
        )


def _reliable_space(inputs: Inputs) -> TokenSpace | None:
    """Return aligned vectors of both languages; None, with a message, if they cannot be aligned or are unreliable.

    Aligned vectors are never used together with a dictionary or parallel text, even if these translate nothing
    (`replaced_by` below). If only text is given, the user did not request an alignment, so a failed attempt is logged
    as information, not as a warning.
    """
    evidence = inputs.evidence
    if inputs.translations:
        logger.warning(
            "the dictionary or parallel text translates no token, so it is not used: tokens are built from "
            "neighbours in both vocabularies; check that it is for this language and spelled like the text"
        )
        return None
    for_alignment = (evidence.source_corpus, evidence.source_vectors, evidence.target_vectors, evidence.rotation)
    is_attempt = inputs.aligned_by == "dictionary" and all(each is None for each in for_alignment)
    try:
        space = inputs.token_space(warn=not is_attempt)
    except EvidenceError as error:
        if is_attempt:
            reason = str(error).partition(":")[0]  # without the advice, because _TEXT_ALONE gives the same
            logger.info(_TEXT_ALONE, f"aligning word vectors failed: {reason}", extra=ONCE)
        else:
            logger.warning("continuing without aligned vectors: %s", error)
        return None
    quality = space.rotation.quality
    if quality is None:
        # A rotation that the user provides is trusted too.
        is_reliable = evidence.rotation is not None or inputs.aligned_by in _TRUSTED
        finding = f"are based on {space.rotation.pairs_used:,} pairs of words, too few to test them"
    else:
        is_reliable = quality.precision >= RELIABLE
        finding = f"find the translation of {100 * quality.precision:.1f} % of the words"
    if is_reliable:
        return space
    if is_attempt:
        logger.info(_TEXT_ALONE, f"aligned word vectors were also tried, but {finding}", extra=ONCE)
        return None
    logger.warning(
        "the aligned vectors %s, so they are not used: tokens are built from neighbours in both vocabularies; "
        "a dictionary (`dictionary`) does better",
        finding,
    )
    return None


METHODS.add(
    "blend",
    Method(
        becomes="its translations, or those of its neighbours, and its source pieces",
        evidence="any of: dictionary, parallel text, vectors; or text alone",
        paper="relexify's own",
        without_translations="its source pieces, and its neighbours in aligned vectors, if these are reliable, or else "
        "among shared tokens",
        build=_build,
        uses=("vectors", "target vectors", "dictionary", "bitext", "neighbours", "overrides"),
        replaced_by={"vectors": TRANSLATIONS, "neighbours": TRANSLATIONS},
        unigram_prior=True,
        revision=11,
    ),
)
