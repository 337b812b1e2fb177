"""Which units of two sentences correspond."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relexify.errors import InputError
from relexify.storage.files import load_arrays, save_arrays

__all__ = ["DirectedLinks", "Links", "sorted_distinct"]

KIND = "token alignment"

_BITS = 16
_LAST = (1 << _BITS) - 1


@dataclass(frozen=True, eq=False)
class Links:
    """Links between units (tokens or words) of a bitext, sorted by line.

    Attributes:
        line: The line of the bitext, from 0, int32 [n].
        source: The place of the unit in the source sentence, from 0, int32 [n].
        target: The place in the target sentence, int32 [n].
    """

    line: np.ndarray
    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.line)

    def points(self) -> np.ndarray:
        """One row (line, source, target) a link, int32 [n × 3]."""
        return np.stack([self.line, self.source, self.target], axis=1)

    @classmethod
    def from_points(cls, points: np.ndarray) -> Links:
        """The opposite of `points`; what occurs twice is kept once, and everything is sorted."""
        return cls.from_keys(sorted_distinct(_keys(np.asarray(points).reshape(-1, 3))))

    def keys(self) -> np.ndarray:
        """One number a link, by which they sort and compare, sorted and each once, int64 [n]."""
        return sorted_distinct(_keys(self.points()))

    @classmethod
    def from_keys(cls, keys: np.ndarray) -> Links:
        """The opposite of `keys`."""
        line, source, target = keys >> 2 * _BITS, keys >> _BITS & _LAST, keys & _LAST
        return cls(line.astype(np.int32), source.astype(np.int32), target.astype(np.int32))


@dataclass(frozen=True, eq=False)
class DirectedLinks:
    """What an aligner found in each direction.

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
        return save_arrays(path, arrays, {"kind": KIND})

    @classmethod
    def load(cls, path: str | Path) -> DirectedLinks:
        """Read what `save` wrote.

        Raises:
            InputError: It is missing, damaged, or something else.
        """
        arrays, _ = load_arrays(path, KIND)
        names = ("line", "source", "target")
        forward, reverse = (
            Links(*(arrays[f"{direction}.{name}"] for name in names)) for direction in ("forward", "reverse")
        )
        return cls(forward, reverse)


def sorted_distinct(keys: np.ndarray) -> np.ndarray:
    """The distinct keys in order; for millions of them many times faster than `np.unique`, which hashes."""
    ordered = np.sort(keys)
    distinct: np.ndarray = ordered[np.diff(ordered, prepend=-1) > 0]
    return distinct


def _keys(points: np.ndarray) -> np.ndarray:
    if len(points) and points[:, 1:].max() > _LAST:
        raise InputError(f"a sentence of parallel text has more than {_LAST + 1} units: split it")
    line, source, target = points.astype(np.int64).T
    keys: np.ndarray = line << 2 * _BITS | source << _BITS | target
    return keys
