"""Settings of every test run, in one process or in several."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

# On a busy machine, any example may take long: a slow one is no failure.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A worker of pytest-xdist is given the width of a terminal, which would be kept when the console is made.
os.environ.pop("COLUMNS", None)


@pytest.fixture(autouse=True, scope="module")
def imports_are_no_garbage() -> None:
    """Hide everything that was imported so far, half a million objects, from the garbage collector.

    It runs after every training (accelerate calls it), and would look through all of them each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
