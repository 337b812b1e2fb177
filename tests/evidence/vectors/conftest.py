"""Fixtures for word vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.evidence.vectors.fasttext_file import FastTextFile


@pytest.fixture
def write_fasttext(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file with the given fields, and returns its path."""

    def write(matrix: np.ndarray | None = None, **fields: object) -> Path:
        path = tmp_path / "model.bin"
        path.write_bytes(FastTextFile(**fields).content(matrix))  # type: ignore[arg-type]
        return path

    return write
