"""Options of the method `trelm` of a transfer: the joint vocabulary, and where its rows come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relexify.errors import check_choices, check_number

__all__ = ["Map", "RowSource", "TrelmInitialisation"]

RowSource = Literal["random", "random-align", "fasttext", "fasttext-align"]
"""The source of the rows, as in Table 5: random or skip-gram vectors, mapped into the model's space or not."""
Map = Literal["linear", "orthogonal"]
"""A linear map predicts the model's rows from the vectors, an orthogonal one rotates the vectors."""


@dataclass(frozen=True)
class TrelmInitialisation:
    """Options of the method `trelm`.

    Attributes:
        alphabet: Largest number of distinct characters in the joint vocabulary.
        lowercase: Convert text to lower case without accents; combining marks are kept if a text has many of them.
        initialisation: The source of the rows, as in the paper's Table 5.
        map: `linear` predicts the model's rows from the vectors, `orthogonal` rotates the vectors.
    """

    alphabet: int = 1_000
    lowercase: bool = False
    initialisation: RowSource = "fasttext-align"
    map: Map = "linear"

    def __post_init__(self) -> None:
        check_number("alphabet", self.alphabet)
        check_choices(self)
