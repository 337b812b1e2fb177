"""The token atlas: every target token with its source tokens, its neighbours and its position on a map, compressed.

The browser decompresses and reads it (script.js). The format is gzip of: the length of the header (uint32), the header
in json, padding to a multiple of 4, the arrays one after the other, each padded to a multiple of 4 (little-endian), and
two texts of tokens separated by NUL.
"""

from __future__ import annotations

import gzip
import json
import struct
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relexify.mixture import Mixture, Origin
from relexify.reports.html.map import are_distinguishable, comparable_rows, map_positions, neighbours_of_rows
from relexify.tokens import Spelling

__all__ = ["Atlas", "build_atlas", "readable_token", "script_of"]

SOURCES = 5
"""Source tokens shown for each token."""
NEIGHBOURS = 8
WEIGHT_UNIT = 0.001
"""Weights are stored as multiples of this."""
_FIRST_SHOWN = 0x20
_CONTROL_PICTURES = 0x2400
"""Unicode's pictures of control characters, such as ␊."""


@dataclass(frozen=True)
class Atlas:
    """Every target token, as arrays for the browser.

    Attributes:
        tokens: Their readable form, by id.
        sources: The readable form of the source tokens that occur in the mixture.
        origins: `Origin` of each token, uint8 [n].
        source_counts: Source tokens shown for each token, uint8 [n].
        source_ids: Indices into `sources`, those of one token after the other, by falling weight.
        source_weights: Their weights, in `WEIGHT_UNIT`, int16.
        other_counts: Source tokens of each token that are not shown, uint16 [n].
        other_weights: The sum of their weights, in `WEIGHT_UNIT`, int16 [n].
        neighbours: Ids of the nearest tokens [n × k]; empty if the embedding is unknown, or has equal rows only.
        cosines: Their cosines in 1/255, uint8 [n × k].
        positions: On the map, in 1/65535, uint16 [n × 2]; empty if `neighbours` are.
    """

    tokens: Sequence[str]
    sources: Sequence[str]
    origins: np.ndarray
    source_counts: np.ndarray
    source_ids: np.ndarray
    source_weights: np.ndarray
    other_counts: np.ndarray
    other_weights: np.ndarray
    neighbours: np.ndarray
    cosines: np.ndarray
    positions: np.ndarray

    def pack(self) -> bytes:
        """Return everything as compressed bytes; equal content gives equal bytes."""
        arrays = {
            "origins": self.origins.astype("u1"),
            "sourceCounts": self.source_counts.astype("u1"),
            "sourceIds": self.source_ids.astype(_smallest(len(self.sources))),
            "sourceWeights": self.source_weights.astype("<i2"),
            "otherCounts": self.other_counts.astype("<u2"),
            "otherWeights": self.other_weights.astype("<i2"),
            "neighbours": self.neighbours.astype(_smallest(len(self.tokens))),
            "cosines": self.cosines.astype("u1"),
            "positions": self.positions.astype("<u2"),
        }
        texts = ["\0".join(self.tokens).encode(), "\0".join(self.sources).encode()]
        header = {
            "neighboursPerToken": self.neighbours.shape[1],
            "weightUnit": WEIGHT_UNIT,
            "originNames": [origin.name.lower() for origin in Origin],
            "arrays": [[name, array.dtype.str[1:], array.size] for name, array in arrays.items()],
            "texts": [len(text) for text in texts],
        }
        written = json.dumps(header).encode()
        parts = [struct.pack("<I", len(written)), _padded(written)]
        parts += [_padded(array.tobytes()) for array in arrays.values()]
        return gzip.compress(b"".join([*parts, *texts]), 6, mtime=0)


def build_atlas(mixture: Mixture, embedding: np.ndarray | None) -> Atlas:
    """Return the atlas of a mixture.

    Args:
        mixture: The mixture of a grafted model.
        embedding: The input embedding of the model [at least n × d], trained or not; None if it is not one matrix.
    """
    matrix = mixture.weights
    entries = np.diff(matrix.indptr)
    rows_of_entries = np.repeat(np.arange(len(mixture)), entries)
    order = np.lexsort((matrix.indices, -np.abs(matrix.data), rows_of_entries))
    # The rank of an entry within its row, since rows stay together.
    rank = np.arange(len(order)) - np.repeat(matrix.indptr[:-1], entries)
    shown, others = order[rank < SOURCES], order[rank >= SOURCES]  # the heaviest of each row first
    used, source_ids = np.unique(matrix.indices[shown], return_inverse=True)
    count = len(mixture)
    neighbours, cosines = np.zeros((count, 0), np.int64), np.zeros((count, 0))
    positions = np.zeros((0, 2))
    if embedding is not None and count > 2 * NEIGHBOURS:
        rows = comparable_rows(embedding[:count])
        if are_distinguishable(rows):
            neighbours, cosines = neighbours_of_rows(rows, NEIGHBOURS)
            positions = map_positions(rows, neighbours)
    return Atlas(
        tokens=[readable_token(token, mixture.target_spelling) for token in mixture.target_tokens],
        sources=[readable_token(mixture.source_tokens[id], mixture.source_spelling) for id in used],
        origins=mixture.origin,
        source_counts=np.minimum(entries, SOURCES),
        source_ids=source_ids,
        source_weights=_in_units(matrix.data[shown]),
        other_counts=np.clip(entries - SOURCES, 0, 2**16 - 1),
        other_weights=_in_units(np.bincount(rows_of_entries[others], matrix.data[others], count)),
        neighbours=neighbours,
        cosines=np.round(np.clip(cosines, 0, 1) * 255),
        positions=np.round(positions * 65535),
    )


def readable_token(token: str, spelling: Spelling) -> str:
    """Return a readable form of a token: with the space before a word, bytes as \\xC3, line ends etc. as ␊."""
    return "".join(
        chr(_CONTROL_PICTURES + ord(character)) if ord(character) < _FIRST_SHOWN else character
        for character in spelling.read(token).readable
    )


def script_of(text: str) -> str:
    """Return the script of the first letter of a text, such as `Latin`; `no letters` if there is none."""
    for character in text:
        if character.isalpha():
            name = unicodedata.name(character, "other").split(" ")[0].split("-")[0]
            return {"CJK": "Chinese characters"}.get(name, name.capitalize())
    return "no letters"


def _in_units(weights: np.ndarray) -> np.ndarray:
    return np.clip(np.round(weights / WEIGHT_UNIT), -(2**15), 2**15 - 1)


def _smallest(count: int) -> str:
    return "<u2" if count <= 1 << 16 else "<u4"


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 4)
