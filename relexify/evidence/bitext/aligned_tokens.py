"""From parallel text to counts of aligned tokens; word alignments are cached."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from relexify.evidence.bitext.bitext import Bitext
from relexify.evidence.bitext.eflomal import align_bitext
from relexify.evidence.bitext.encoding import EncodedBitext, Side, encode_bitext, looks_swapped
from relexify.evidence.bitext.links import DirectedLinks, Links, read_links
from relexify.evidence.bitext.options import WordAlignmentOptions
from relexify.evidence.bitext.symmetrisation import symmetrise
from relexify.storage.cache import cached, has_entries
from relexify.storage.fingerprint import fingerprint
from relexify.tokens import encoder_of, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["aligned_counts", "cached_links", "count_aligned_tokens", "is_aligned", "most_lines"]

_LINKS = "links.safetensors"
_LINKS_AT_ONCE = 1_000_000

logger = logging.getLogger(__name__)


def count_aligned_tokens(
    bitext: Bitext,
    source: PreTrainedTokenizerFast,
    target: PreTrainedTokenizerFast,
    *,
    links: Path | None = None,
    options: WordAlignmentOptions | None = None,
    left_out: np.ndarray | None = None,
) -> scipy.sparse.csr_array:
    """Count how often tokens of two vocabularies are aligned in parallel text, [target × source].

    Args:
        bitext: Parallel text.
        source: The tokenizer of the source language.
        target: The tokenizer of the target language.
        links: A file with an existing word alignment; if None, eflomal computes one.
        options: How to align the text.
        left_out: Indices of pairs, among the used lines, that are aligned but not counted, int64 [n]. They are aligned
            too, so that the cached word alignment is the same for every text to score on.

    Raises:
        InputError: The text does not match its word alignment.
        MissingExtra: The text has not been aligned yet, and eflomal is not installed.
    """
    options = options or WordAlignmentOptions()
    if looks_swapped(bitext, source, target):
        logger.warning(
            "%s seems to have the target language first: its first column fits the target tokenizer better, and its "
            "second column the model's; put the model's language first, or set `aligning.swapped=true`",
            bitext.name,
        )
    most_pairs = most_lines(links, options)
    pairs = encode_bitext(bitext, source, target, units=options.units, most_pairs=most_pairs)
    if links is not None:
        found = read_links(links, pairs, swapped=options.swapped)
    else:
        directed = cached_links(bitext, pairs, (source, target), options.most_pairs)
        found = symmetrise(directed.forward, directed.reverse, options.symmetrisation)
    if left_out is not None and len(left_out):
        found = Links.from_points(found.points()[~np.isin(found.line, left_out)])
    return aligned_counts(pairs, found, (len(vocabulary_of(target)), len(vocabulary_of(source))))


def most_lines(links: Path | None, options: WordAlignmentOptions) -> int | None:
    """Return the maximum number of lines of parallel text; None (all) for a given word alignment, which has all."""
    return options.most_pairs if links is None else None


def aligned_counts(pairs: EncodedBitext, links: Links, shape: tuple[int, int]) -> scipy.sparse.csr_array:
    """Count the links between target and source tokens.

    A link between two tokens counts one. A link between two words counts one for every token of the target word,
    divided equally among the tokens of the source word.

    Args:
        pairs: The text of the links.
        links: Links between its units.
        shape: Sizes of the target and the source vocabulary.

    Returns:
        float64 [target × source].
    """
    counts = scipy.sparse.csr_array(shape, dtype=np.float64)
    for start in range(0, len(links), _LINKS_AT_ONCE):
        part = slice(start, start + _LINKS_AT_ONCE)
        source = _unit_tokens(pairs.source, links.line[part], links.source[part], shape[1])
        target = _unit_tokens(pairs.target, links.line[part], links.target[part], shape[0])
        lengths = np.maximum(np.asarray(source.sum(axis=1)).ravel(), 1)
        source.data /= np.repeat(lengths, np.diff(source.indptr))
        counts = counts + target.T @ source
    counted = scipy.sparse.csr_array(counts)
    counted.sort_indices()
    return counted


def cached_links(
    bitext: Bitext,
    pairs: EncodedBitext,
    tokenizers: tuple[PreTrainedTokenizerFast, PreTrainedTokenizerFast],
    most_pairs: int | None,
) -> DirectedLinks:
    """Return eflomal's links of both directions, from the cache if the text was aligned before.

    They are cached before symmetrisation, so that all symmetrisations share them.

    Args:
        bitext: Parallel text.
        pairs: The parallel text in tokens.
        tokenizers: The tokenizers of the source language and of the target language.
        most_pairs: The maximum number of pairs to which `pairs` was limited.

    Raises:
        MissingExtra: The text has not been aligned yet, and eflomal is not installed.
    """
    return cached(
        _kind_of(bitext),
        {
            "aligner": "eflomal",
            "tokenizers": [encoder_of(tokenizer).identity for tokenizer in tokenizers],
            "most_pairs": most_pairs,
        },
        make=lambda: align_bitext(pairs),
        save=lambda links, folder: links.save(folder / _LINKS),
        load=lambda folder: DirectedLinks.load(folder / _LINKS),
    )


def is_aligned(bitext: Bitext) -> bool:
    """Whether an earlier run aligned the text, with any tokenizers; if so, eflomal may not be needed again."""
    return has_entries(_kind_of(bitext))


def _kind_of(bitext: Bitext) -> str:
    """Return the folder of a text's entries in the cache, so that `is_aligned` needs no tokenizers."""
    return f"alignments/{fingerprint(bitext)[:32]}"


def _unit_tokens(side: Side, lines: np.ndarray, positions: np.ndarray, tokens: int) -> scipy.sparse.csr_array:
    """Return the tokens of units, one row per unit, [n × tokens]."""
    units = side.lines[lines] + positions
    starts, lengths = side.units[units], side.units[units + 1] - side.units[units]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    ids = side.ids[np.repeat(starts, lengths) + within]
    return scipy.sparse.csr_array((np.ones(len(ids)), ids, indptr), shape=(len(units), tokens))
