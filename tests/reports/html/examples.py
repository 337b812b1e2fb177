"""An atlas of any size, whose numbers are drawn at random."""

from __future__ import annotations

import numpy as np

from relexify.reports.html.atlas import Atlas

LETTERS = str.maketrans("0123456789", "ghijklmnop")


def big_atlas(count: int) -> Atlas:
    """Numbers that compress as badly as any."""
    rng = np.random.default_rng(0)
    words = [f" {rng.bytes(4).hex().translate(LETTERS)}" for _ in range(count)]
    return Atlas(
        tokens=words,
        sources=words,
        origins=rng.integers(0, 5, count),
        source_counts=np.full(count, 5),
        source_ids=rng.integers(0, count, 5 * count),
        source_weights=rng.integers(0, 1000, 5 * count),
        other_counts=rng.integers(0, 20, count),
        other_weights=rng.integers(0, 1000, count),
        neighbours=rng.integers(0, count, (count, 8)),
        cosines=rng.integers(50, 255, (count, 8)),
        positions=rng.integers(0, 65536, (count, 2)),
    )
