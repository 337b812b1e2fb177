"""Links between the corresponding units (tokens or words) of two sentences, and files with links.

Word aligners write links in the Pharaoh format: `0-0 1-2 …`, one line for each pair of sentences.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relexify.errors import InputError
from relexify.evidence.bitext.encoding import EncodedBitext
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.text.decoding import read_blocks

__all__ = ["DirectedLinks", "Links", "parse_links", "read_links", "sorted_distinct"]

_KIND = "token alignment"
_BITS = 16  # number of bits of a position in a key
_LAST = (1 << _BITS) - 1
_LINK = r"\d{1,9}-\d{1,9}"
_LINE = re.compile(rf"\s*(?:{_LINK}(?:\s+|$))*")


@dataclass(frozen=True, eq=False)
class Links:
    """Links between units (tokens or words) of a bitext, sorted by line.

    Attributes:
        line: The line of the bitext, from 0, int32 [n].
        source: The position of the unit in the source sentence, from 0, int32 [n].
        target: The position of the unit in the target sentence, from 0, int32 [n].
    """

    line: np.ndarray
    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.line)

    def points(self) -> np.ndarray:
        """Return one row (line, source, target) per link, int32 [n × 3]."""
        return np.stack([self.line, self.source, self.target], axis=1)

    @classmethod
    def from_points(cls, points: np.ndarray) -> Links:
        """Create links from rows as `points` returns them; they are sorted, and duplicates are removed."""
        return cls.from_keys(sorted_distinct(_keys(np.asarray(points).reshape(-1, 3))))

    def keys(self) -> np.ndarray:
        """Return one number per link, in the same order as the links; sorted and distinct, int64 [n]."""
        return sorted_distinct(_keys(self.points()))

    @classmethod
    def from_keys(cls, keys: np.ndarray) -> Links:
        """Create links from keys as `keys` returns them."""
        line, source, target = keys >> 2 * _BITS, keys >> _BITS & _LAST, keys & _LAST
        return cls(line.astype(np.int32), source.astype(np.int32), target.astype(np.int32))


@dataclass(frozen=True, eq=False)
class DirectedLinks:
    """The links that an aligner found in each direction.

    Attributes:
        forward: Every target unit has at most one source unit.
        reverse: Every source unit has at most one target unit.
    """

    forward: Links
    reverse: Links

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file."""
        arrays = {
            f"{direction}.{name}": array.astype(np.int32)
            for direction, links in (("forward", self.forward), ("reverse", self.reverse))
            for name, array in vars(links).items()
        }
        return save_arrays(path, arrays, {"kind": _KIND})

    @classmethod
    def load(cls, path: str | Path) -> DirectedLinks:
        """Read a file that `save` wrote.

        Raises:
            InputError: The file is missing, damaged, or of another kind.
        """
        arrays, _ = load_arrays(path, _KIND)
        forward, reverse = (
            Links(arrays[f"{direction}.line"], arrays[f"{direction}.source"], arrays[f"{direction}.target"])
            for direction in ("forward", "reverse")
        )
        return cls(forward, reverse)


def read_links(path: str | Path, pairs: EncodedBitext, *, swapped: bool = False) -> Links:
    """Read a word alignment of a bitext from a file.

    Args:
        path: A file with one line for each line of the bitext, with links SOURCE-TARGET that count units from 0; it may
            be compressed.
        pairs: The bitext, encoded in the same units (tokens or words) as the links.
        swapped: Whether the links are TARGET-SOURCE.

    Raises:
        InputError: A line is not a list of links, there are more or fewer lines than pairs, or a link points outside
            its sentence.
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
            f"{path}, line {line + 1}: the link {links.source[bad]}-{links.target[bad]} points outside sentences of "
            f"{source[bad]} and {target[bad]} units: count from 0, source first, and set aligning.units to the counted "
            "units, tokens or words"
        )
    return Links.from_points(links.points())


def parse_links(path: Path, *, expected: int | None = None) -> Links:
    """Return the links of a file, without validating them against a text.

    Raises:
        InputError: A line is not a list of links, or the number of lines is not as expected.
    """
    numbers, lengths = array("i"), array("i")
    for block in read_blocks(path):
        for line in block:
            if not _LINE.fullmatch(line):
                wrong = next(word for word in line.split() if not re.fullmatch(_LINK, word))
                number = len(lengths) + 1
                raise InputError(
                    f"{path}, line {number}: {wrong[:40]!r} is not a link: write 0-0 1-2, one line per pair"
                )
            found = line.replace("-", " ").split()
            numbers.extend(map(int, found))
            lengths.append(len(found) // 2)
    if expected is not None and len(lengths) != expected:
        raise InputError(
            f"{path} has {len(lengths)} lines, but the parallel text has {expected}: line n must have the links of "
            "pair n, or be empty if it has no links"
        )
    positions = np.array(numbers, np.int32).reshape(-1, 2)
    lines = np.repeat(np.arange(len(lengths), dtype=np.int32), np.array(lengths, np.int64))
    return Links(lines, positions[:, 0], positions[:, 1])


def sorted_distinct(keys: np.ndarray) -> np.ndarray:
    """Return the distinct keys in order; for millions of keys, this is much faster than `np.unique`, which hashes."""
    ordered = np.sort(keys)
    distinct: np.ndarray = ordered[np.diff(ordered, prepend=-1) > 0]
    return distinct


def _keys(points: np.ndarray) -> np.ndarray:
    """Pack (line, source, target) into one int64 per link: 32, 16 and 16 bits."""
    if len(points) and points[:, 1:].max() > _LAST:
        raise InputError(f"a sentence of parallel text has more than {_LAST + 1} units: split it")
    line, source, target = points.astype(np.int64).T
    keys: np.ndarray = line << 2 * _BITS | source << _BITS | target
    return keys
