"""Pairs of sentences with, for every token, the place of the token it corresponds to."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.bitext import (
    Bitext,
    DirectedLinks,
    EncodedBitext,
    Links,
    Side,
    encode_bitext,
    import_eflomal,
    parse_links,
    read_links,
)
from relexify.pretrained.architecture import encoder_frame
from relexify.systems.transfer.aligned_text import is_aligned, kept_links
from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.systems.trelm.options import Trelm

__all__ = ["AlignedPairs", "Sentence", "aligned_pairs", "check_pairs", "open_pairs", "pairs_to_learn"]


logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Sentence:
    """One side of a pair.

    Attributes:
        ids: Its tokens, int64 [n].
        places: For every token the place of the other side's token that it is aligned to, or `UNALIGNED`, int64 [n].
    """

    ids: np.ndarray
    places: np.ndarray


@dataclass(frozen=True, eq=False)
class AlignedPairs:
    """Parallel text to learn from.

    Attributes:
        sides: The source language's tokens and the target language's.
        places: For every token of either side its place in the other sentence, int32 [tokens] each.
        lines: The pairs that are learnt from, int64 [n].
    """

    sides: tuple[Side, Side]
    places: tuple[np.ndarray, np.ndarray]
    lines: np.ndarray

    def __len__(self) -> int:
        return len(self.lines)

    def pair(self, number: int) -> tuple[Sentence, Sentence]:
        """A pair: source and target."""
        line = int(self.lines[number])
        first, second = (_sentence(side, places, line) for side, places in zip(self.sides, self.places, strict=True))
        return first, second

    def identity(self) -> str:
        """What changes with every token and every link."""
        digest = hashlib.sha256(self.lines.tobytes())
        for side, places in zip(self.sides, self.places, strict=True):
            for array in (side.ids, side.units, side.lines, places):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def aligned_pairs(
    pairs: EncodedBitext, links: DirectedLinks | Links, *, longest: int, together: int | None = None
) -> AlignedPairs:
    """Pairs that a model can take, and their alignment in both directions.

    Of several tokens that one is aligned to, the first counts. Of two words that are linked, the first pieces
    correspond, the second ones, and so on; pieces beyond the last of the other word correspond to that.

    Args:
        pairs: Both sides in tokens, of one vocabulary or of two.
        links: What an aligner found: both directions, or one alignment for both.
        longest: Tokens that a sentence may have; pairs with longer ones are left out.
        together: Tokens that both may have together.

    Raises:
        EvidenceError: No pair is left.
    """
    forward, reverse = (links.forward, links.reverse) if isinstance(links, DirectedLinks) else (links, links)
    to_target = _token_places(reverse.line, reverse.source, reverse.target, pairs.source, pairs.target)
    to_source = _token_places(forward.line, forward.target, forward.source, pairs.target, pairs.source)
    lengths = np.stack([_tokens_of_lines(side) for side in (pairs.source, pairs.target)])
    complete = (lengths > 0).all(axis=0)
    short = (lengths <= longest).all(axis=0) & (lengths.sum(axis=0) <= (together or 2 * longest))
    lines = np.flatnonzero(complete & short)
    if not len(lines):
        raise EvidenceError(
            f"none of the {len(pairs)} pairs of parallel text has tokens on both sides and no more than {longest} of "
            "them: give parallel text of single sentences, or a greater length"
        )
    if long := int((complete & ~short).sum()):
        logger.warning("%d pairs are too long for sequences of %d tokens and are left out", long, longest)
    found = AlignedPairs((pairs.source, pairs.target), (to_target, to_source), lines)
    _tell_of(found)
    return found


def _tell_of(pairs: AlignedPairs) -> None:
    aligned = [float((places != UNALIGNED).mean()) for places in pairs.places]
    logger.info(
        "%d pairs; %.0f %% of the source tokens and %.0f %% of the target tokens are aligned",
        len(pairs),
        *(100 * share for share in aligned),
    )
    if max(aligned) == 0:
        raise EvidenceError("no token of the parallel text is aligned to another: is it the right alignment?")


def _tokens_of_lines(side: Side) -> np.ndarray:
    counts: np.ndarray = np.diff(side.units[side.lines])
    return counts


def _sentence(side: Side, places: np.ndarray, line: int) -> Sentence:
    part = slice(side.units[side.lines[line]], side.units[side.lines[line + 1]])
    return Sentence(side.ids[part].astype(np.int64), places[part].astype(np.int64))


def _token_places(
    lines: np.ndarray, own: np.ndarray, other: np.ndarray, own_side: Side, other_side: Side
) -> np.ndarray:
    """For every token of one side its place in the other sentence, or `UNALIGNED`, int32 [tokens]."""
    units, others = own_side.lines[lines] + own, other_side.lines[lines] + other
    order = np.lexsort((others, units))
    _, first = np.unique(units[order], return_index=True)
    chosen = order[first]
    lines, units, others = lines[chosen], units[chosen], others[chosen]
    lengths, widths = (np.diff(side.units)[which] for side, which in ((own_side, units), (other_side, others)))
    known = widths > 0
    lines, units, others, lengths, widths = (each[known] for each in (lines, units, others, lengths, widths))
    piece = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    starts = other_side.units[others] - other_side.units[other_side.lines[lines]]
    places = np.full(len(own_side.ids), UNALIGNED, np.int32)
    places[np.repeat(own_side.units[units], lengths) + piece] = np.repeat(starts, lengths) + np.minimum(
        piece, np.repeat(widths, lengths) - 1
    )
    return places


def open_pairs(bitext: Any, options: Trelm) -> Bitext:
    """Parallel text, read as the options say."""
    return Bitext.open(bitext, fields=options.aligning.fields, swapped=options.aligning.swapped)


def check_pairs(options: Trelm) -> None:
    """Find out before the work begins what would stop it.

    Raises:
        InputError: Parallel text or its alignment cannot be read.
        MissingExtra: A package is needed to align what no earlier run aligned.
    """
    bitext = open_pairs(options.bitext, options)
    bitext.ensure_pairs()
    if options.alignment is None and not is_aligned(bitext):
        import_eflomal()
    if options.alignment is not None:
        parse_links(Path(options.alignment), expected=sum(1 for _ in bitext))


def pairs_to_learn(tokenizers: tuple[Any, Any], options: Trelm) -> AlignedPairs:
    """Parallel text with its alignment, which is kept in the cache where eflomal finds it.

    Args:
        tokenizers: Of the model's language and of the new one.
        options: Which text, how it is read, and how long sentences may be.
    """
    bitext, aligning = open_pairs(options.bitext, options), options.aligning
    most = None if options.alignment is not None else aligning.most_pairs
    pairs = encode_bitext(bitext, *tokenizers, units=aligning.units, most_pairs=most)
    frames = [encoder_frame(tokenizer) for tokenizer in tokenizers]
    longest = options.transfer.length - max(len(before) + len(after) for before, after in frames)
    together = None if options.objective == "cdlm" else longest - max(len(after) for _, after in frames)
    if options.alignment is not None:
        ready = read_links(Path(options.alignment), pairs, swapped=aligning.swapped)
        return aligned_pairs(pairs, ready, longest=longest, together=together)
    links = kept_links(bitext, pairs, tokenizers, aligning.most_pairs)
    return aligned_pairs(pairs, links, longest=longest, together=together)
