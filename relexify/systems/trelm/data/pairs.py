"""Sentence pairs with the word alignment O: for every token, the position of the token it is aligned to (Eq. 3)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.bitext import (
    Bitext,
    DirectedLinks,
    EncodedBitext,
    Links,
    Side,
    encode_bitext,
    find_overlap,
    import_eflomal,
    parse_links,
    read_links,
    report_overlap,
)
from relexify.evidence.bitext.aligned_tokens import cached_links, is_aligned
from relexify.pretrained.architecture import encoder_frame
from relexify.progress import ONCE, count_of
from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.systems.trelm.model.folder import Tokenizers
from relexify.systems.trelm.options import Trelm
from relexify.text import TextOption

__all__ = ["AlignedPairs", "AlignedSentence", "align_pairs", "check_bitext", "load_pairs", "open_bitext"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class AlignedSentence:
    """One side of a sentence pair.

    Attributes:
        ids: Its tokens, int64 [n].
        positions: For every token, the position of the token on the other side that it is aligned to, or `UNALIGNED`,
            int64 [n].
    """

    ids: np.ndarray
    positions: np.ndarray


@dataclass(frozen=True, eq=False)
class AlignedPairs:
    """Parallel text to train on.

    Attributes:
        sides: The tokens of the source language and of the target language.
        positions: For every token of each side, the position that it is aligned to in the other sentence, int32
            [tokens] each.
        lines: The lines of the parallel text that are used, int64 [n].
        left_out: Number of pairs that are left out because they are in text to score on.
    """

    sides: tuple[Side, Side]
    positions: tuple[np.ndarray, np.ndarray]
    lines: np.ndarray
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.lines)

    def pair(self, number: int) -> tuple[AlignedSentence, AlignedSentence]:
        """Return the source and the target sentence of a pair."""
        line = int(self.lines[number])

        def sentence(side: Side, positions: np.ndarray) -> AlignedSentence:
            tokens = slice(side.units[side.lines[line]], side.units[side.lines[line + 1]])
            return AlignedSentence(side.ids[tokens].astype(np.int64), positions[tokens].astype(np.int64))

        source, target = self.sides
        return sentence(source, self.positions[0]), sentence(target, self.positions[1])

    def fingerprint(self) -> str:
        """Return a sha256 of all tokens and links."""
        digest = hashlib.sha256(self.lines.tobytes())
        for side, positions in zip(self.sides, self.positions, strict=True):
            for array in (side.ids, side.units, side.lines, positions):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def open_bitext(bitext: TextOption | None, options: Trelm) -> Bitext:
    """Open parallel text with the fields and the order of languages that the options specify."""
    # `TextOption` is also used for monolingual text, so it is wider than what `Bitext.open` accepts; `check_trelm` has
    # validated that it is given.
    names = cast("str | Path | Sequence[str | Path]", bitext)
    return Bitext.open(names, fields=options.aligning.fields, swapped=options.aligning.swapped)


def check_bitext(options: Trelm) -> None:
    """Validate, before any work, that the parallel text can be read and aligned.

    Raises:
        InputError: Parallel text or its word alignment cannot be read.
        MissingExtra: The text is not aligned yet, and a package that is needed for it is missing.
    """
    bitext = open_bitext(options.bitext, options)
    bitext.ensure_pairs()
    if options.alignment is None and not is_aligned(bitext):
        import_eflomal()
    if options.alignment is not None:
        parse_links(Path(options.alignment), expected=sum(1 for _ in bitext))


def load_pairs(
    tokenizers: Tokenizers, options: Trelm, *, held_out: tuple[Iterable[str], Iterable[str]] = ((), ())
) -> AlignedPairs:
    """Load the parallel text with its word alignment; the alignment by eflomal is cached.

    Pairs with a sentence that a model will be scored on, in held-out text or in `test_bitext`, are left out.

    Args:
        tokenizers: The tokenizers of the source language and of the target language.
        options: The text, how to read it, and the maximum length of sentences.
        held_out: Text of the source language and of the target language to score on.

    Raises:
        EvidenceError: No sentence pair is short enough, none is aligned, or all are in text to score on.
    """
    source, target = tokenizers
    bitext, aligning = open_bitext(options.bitext, options), options.aligning
    # A given word alignment has one line for every line of the text, so no line may be skipped in that case.
    most_pairs = None if options.alignment is not None else aligning.most_pairs
    pairs = encode_bitext(bitext, source, target, units=aligning.units, most_pairs=most_pairs)
    frames = [encoder_frame(tokenizer) for tokenizer in tokenizers]
    max_tokens = options.transfer.length - max(len(before) + len(after) for before, after in frames)
    max_together = None
    if options.objective != "cdlm":  # both sentences are in one sequence, each followed by a separator
        max_together = max_tokens - max(len(after) for _, after in frames)
    links: DirectedLinks | Links
    if options.alignment is not None:
        links = read_links(Path(options.alignment), pairs, swapped=aligning.swapped)
    else:
        links = cached_links(bitext, pairs, tokenizers, aligning.most_pairs)
    aligned = align_pairs(pairs, links, max_tokens=max_tokens, max_together=max_together)
    tested = [] if options.test_bitext is None else list(open_bitext(options.test_bitext, options))
    source_texts = chain(held_out[0], (sentence for sentence, _ in tested))
    target_texts = chain(held_out[1], (sentence for _, sentence in tested))
    overlap = np.intersect1d(aligned.lines, find_overlap(bitext.sample(most_pairs)[1], source_texts, target_texts))
    report_overlap(len(overlap), len(aligned))
    return replace(aligned, lines=np.setdiff1d(aligned.lines, overlap), left_out=len(overlap))


def align_pairs(
    pairs: EncodedBitext, links: DirectedLinks | Links, *, max_tokens: int, max_together: int | None = None
) -> AlignedPairs:
    """Return the pairs that fit into a model, with the word alignment in both directions.

    If a token is aligned to several others, the first one is used. If two words with several tokens are linked, their
    tokens are aligned one by one; further tokens are aligned to the last token of the other word.

    Args:
        pairs: The tokens of both sides, from one vocabulary or from two.
        links: The output of an aligner: one word alignment for each direction, or one for both.
        max_tokens: Maximum number of tokens of a sentence; pairs with longer sentences are left out.
        max_together: Maximum number of tokens of both sentences together.

    Raises:
        EvidenceError: No pair is left, or no token is aligned.
    """
    forward, reverse = (links.forward, links.reverse) if isinstance(links, DirectedLinks) else (links, links)
    to_target = _token_positions(reverse.line, reverse.source, reverse.target, pairs.source, pairs.target)
    to_source = _token_positions(forward.line, forward.target, forward.source, pairs.target, pairs.source)
    lengths = np.stack([np.diff(side.units[side.lines]) for side in (pairs.source, pairs.target)])  # [2 × lines]
    complete = (lengths > 0).all(axis=0)
    short = (lengths <= max_tokens).all(axis=0) & (lengths.sum(axis=0) <= (max_together or 2 * max_tokens))
    lines = np.flatnonzero(complete & short)
    if not len(lines):
        raise EvidenceError(
            f"none of the {len(pairs)} pairs of parallel text has tokens on both sides and no more than {max_tokens} "
            "of them: give parallel text of single sentences, or a greater length"
        )
    if long := int((complete & ~short).sum()):
        pairs_are = count_of(long, "sentence pair is", "sentence pairs are")
        logger.warning("%s left out, too long for sequences of %d tokens", pairs_are, max_tokens)
    shares = [float((positions != UNALIGNED).mean()) for positions in (to_target, to_source)]
    logger.info(
        "%d sentence pairs; %.0f%% of the source tokens and %.0f%% of the target tokens are aligned",
        len(lines),
        100 * shares[0],
        100 * shares[1],
        extra=ONCE,
    )
    if max(shares) == 0:
        raise EvidenceError("no token of the parallel text is aligned to another: is it the right word alignment?")
    return AlignedPairs((pairs.source, pairs.target), (to_target, to_source), lines)


def _token_positions(
    lines: np.ndarray, own: np.ndarray, other: np.ndarray, own_side: Side, other_side: Side
) -> np.ndarray:
    """Return the position in the other sentence that each token of one side is aligned to, int32 [tokens].

    It is `UNALIGNED` for tokens without a link. Links are between units (words or tokens): `side.lines` contains the
    first unit of every line, and `side.units` the first token of every unit.

    Args:
        lines: The line of every link [links].
        own: The unit of this side, counted within its line [links].
        other: The unit of the other side [links].
        own_side: This side.
        other_side: The other side.
    """
    # Convert from indices within a line to indices within the whole text.
    units, others = own_side.lines[lines] + own, other_side.lines[lines] + other
    # If a unit has several links, keep the one to the first unit of the other side.
    order = np.lexsort((others, units))
    _, first = np.unique(units[order], return_index=True)
    kept = order[first]
    lines, units, others = lines[kept], units[kept], others[kept]
    lengths, other_lengths = np.diff(own_side.units)[units], np.diff(other_side.units)[others]
    has_tokens = other_lengths > 0  # some words have no tokens
    lines, units, others = lines[has_tokens], units[has_tokens], others[has_tokens]
    lengths, other_lengths = lengths[has_tokens], other_lengths[has_tokens]
    # For every token of a linked unit, its index within the unit.
    piece = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    starts = other_side.units[others] - other_side.units[other_side.lines[lines]]  # positions within the sentence
    positions = np.full(len(own_side.ids), UNALIGNED, np.int32)
    positions[np.repeat(own_side.units[units], lengths) + piece] = np.repeat(starts, lengths) + np.minimum(
        piece, np.repeat(other_lengths, lengths) - 1
    )
    return positions
