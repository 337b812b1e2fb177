"""Vectors of the tokens of both vocabularies in one space, and the nearest source tokens of every target token."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from relexify.errors import EvidenceError, InputError, check_number
from relexify.evidence.alignment import Rotation
from relexify.evidence.vectors import SubwordVectors
from relexify.neighbours import nearest
from relexify.storage.fingerprint import BY_CONTENT

__all__ = ["Neighbours", "TokenSpace", "WordComposition", "check_subwords", "search_neighbours"]


@dataclass(frozen=True)
class WordComposition:
    """How vectors of tokens are composed from the words that they occur in.

    Attributes:
        top_words: Use only this many of the most frequent words; all if None.
        source_frequencies: A file of words of the source language and their counts; if None, those of its vectors.
        target_frequencies: A file of words of the target language and their counts; if None, those of its vectors.
    """

    top_words: int | None = None
    source_frequencies: Path | None = field(default=None, metadata=BY_CONTENT)
    target_frequencies: Path | None = field(default=None, metadata=BY_CONTENT)

    def __post_init__(self) -> None:
        check_number("top_words", self.top_words)


@dataclass(frozen=True)
class Neighbours:
    """The source tokens that are nearest to each covered target token.

    Attributes:
        rows: Ids of the covered target tokens [n].
        columns: Ids of their neighbours, nearest first [n × k].
        similarities: Cosines [n × k].
    """

    rows: np.ndarray
    columns: np.ndarray
    similarities: np.ndarray

    def first(self, neighbours: int) -> Neighbours:
        """Return only the first neighbours; a search for fewer neighbours has the same result."""
        return Neighbours(self.rows, self.columns[:, :neighbours], self.similarities[:, :neighbours])


@dataclass
class TokenSpace:
    """Vectors of the tokens of both vocabularies in one space.

    Attributes:
        source: Vectors of the source tokens.
        target: Vectors of the target tokens.
        rotation: The vector alignment that mapped them into one space.
    """

    source: SubwordVectors
    target: SubwordVectors
    rotation: Rotation
    _found: Neighbours | None = None

    def nearest(self, neighbours: int, *, device: str = "cpu") -> Neighbours:
        """Return the nearest source tokens of every covered target token.

        A search for fewer neighbours than before takes no time, because it returns the first of the earlier results.

        Raises:
            InputError: The two sides have different widths.
            EvidenceError: One side has no vector at all.
        """
        if self._found is None or self._found.columns.shape[1] < neighbours:
            self._found = search_neighbours(self.source, self.target, neighbours=neighbours, device=device)
        return self._found.first(neighbours)


def search_neighbours(
    source: SubwordVectors, target: SubwordVectors, *, neighbours: int = 10, device: str = "cpu"
) -> Neighbours:
    """Find the nearest source tokens of every covered target token.

    Raises:
        InputError: The two sides have different widths.
        EvidenceError: One side has no vector at all.
    """
    check_subwords(source, target)
    rows = np.flatnonzero(target.covered)
    columns, similarities = nearest(target.matrix[rows], source.matrix, neighbours, device=device)
    return Neighbours(rows, columns, similarities)


def check_subwords(source: SubwordVectors, target: SubwordVectors) -> None:
    """Validate that vectors of tokens can be compared.

    Raises:
        InputError: The two sides have different widths.
        EvidenceError: One side has no vector at all.
    """
    if source.matrix.shape[1] != target.matrix.shape[1]:
        raise InputError(
            f"source vectors are {source.matrix.shape[1]} wide and target vectors {target.matrix.shape[1]}: "
            "align them with reduce on, or use vectors of the same width"
        )
    for side, vectors in (("source", source), ("target", target)):
        if not vectors.covered.any():
            raise EvidenceError(
                f"no token of the {side} vocabulary has a vector: check that these are word vectors of its language"
            )
