"""Ready rows: embeddings of new tokens that are no mixture of old ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relexify.errors import VocabularyError

__all__ = ["PrecomputedRows"]


@dataclass(frozen=True, eq=False)
class PrecomputedRows:
    """What some tokens' rows of the input embedding shall be, whatever a mixture says of them.

    Attributes:
        ids: The tokens, int64 [k], each once.
        vectors: Their rows, float32 [k × d], in the space of the model's own.
    """

    ids: np.ndarray
    vectors: np.ndarray

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or self.ids.shape != self.vectors.shape[:1]:
            raise VocabularyError(
                f"ready rows {list(self.vectors.shape)} do not fit {list(self.ids.shape)} ids: give a row for each id"
            )
        if len(np.unique(self.ids)) != len(self.ids) or (len(self.ids) and int(self.ids.min()) < 0):
            raise VocabularyError("a token has several ready rows, or a negative id: give each token once")
        if not np.isfinite(self.vectors).all():
            raise VocabularyError("the ready rows hold NaN or infinity: make them anew")

    def __len__(self) -> int:
        return len(self.ids)
