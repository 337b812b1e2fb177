"""Alignments as the tools write them: `0-0 1-2 …`, one line for each pair of sentences."""

from __future__ import annotations

import re
from array import array
from pathlib import Path

import numpy as np

from relexify.errors import InputError
from relexify.evidence.bitext.encoding import EncodedBitext
from relexify.evidence.bitext.links import Links
from relexify.text.decoding import read_blocks

__all__ = ["parse_links", "read_links"]

_LINK = r"\d{1,9}-\d{1,9}"
_LINE = re.compile(rf"\s*(?:{_LINK}(?:\s+|$))*")


def read_links(path: str | Path, pairs: EncodedBitext, *, swapped: bool = False) -> Links:
    """Read a ready alignment of a bitext.

    Args:
        path: One line for each line of the bitext, each with links SOURCE-TARGET that count units from 0; it may be
            compressed.
        pairs: The bitext, encoded in the units that the links count.
        swapped: The links are TARGET-SOURCE.

    Raises:
        InputError: A line is no list of links, there are more or fewer lines than pairs, or a link leads outside its
            sentence.
    """
    links = parse_links(Path(path), expected=len(pairs))
    if swapped:
        links = Links(links.line, links.target, links.source)
    source, target = pairs.source.lengths[links.line], pairs.target.lengths[links.line]
    outside = np.flatnonzero((links.source >= source) | (links.target >= target))
    if len(outside):
        bad = outside[0]
        line = int(links.line[bad])
        raise InputError(
            f"{path}, line {line + 1}: the link {links.source[bad]}-{links.target[bad]} leads outside sentences of "
            f"{source[bad]} and {target[bad]} units: count from 0, source first, and say whether tokens or words are "
            "counted (aligning.units)"
        )
    return Links.from_points(links.points())


def parse_links(path: Path, *, expected: int | None = None) -> Links:
    """The links of a file, not yet checked against any text.

    Raises:
        InputError: A line is no list of links, or there are not as many lines as expected.
    """
    numbers, lengths = array("i"), array("i")
    for block in read_blocks(path):
        for line in block:
            if not _LINE.fullmatch(line):
                wrong = next(word for word in line.split() if not re.fullmatch(_LINK, word))
                number = len(lengths) + 1
                raise InputError(f"{path}, line {number}: {wrong[:40]!r} is no link: write 0-0 1-2, one line a pair")
            found = line.replace("-", " ").split()
            numbers.extend(map(int, found))
            lengths.append(len(found) // 2)
    if expected is not None and len(lengths) != expected:
        raise InputError(
            f"{path} has {len(lengths)} lines and the parallel text {expected}: line n must be the alignment of "
            "pair n, an empty line where there is none"
        )
    places = np.array(numbers, np.int32).reshape(-1, 2)
    lines = np.repeat(np.arange(len(lengths), dtype=np.int32), np.array(lengths, np.int64))
    return Links(lines, places[:, 0], places[:, 1])
