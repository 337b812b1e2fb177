"""Which units of two sentences correspond."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relexify.artifacts import load_arrays, save_arrays

__all__ = ["DirectedLinks", "Links"]

KIND = "token alignment"


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
    def of_points(cls, points: np.ndarray) -> Links:
        """The opposite of `points`; what occurs twice is kept once, and everything is sorted."""
        rows = np.unique(np.asarray(points, dtype=np.int32).reshape(-1, 3), axis=0)
        return cls(rows[:, 0], rows[:, 1], rows[:, 2])


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
