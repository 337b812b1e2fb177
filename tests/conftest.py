"""Settings of every test run, in one process or in several."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# On a busy machine, any example may take long: a slow one is no failure.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A worker of pytest-xdist is given the width of a terminal, which would be kept when the console is made.
os.environ.pop("COLUMNS", None)


LONGEST = ("training", "systems", "cli", "evaluation", "recipes")
"""Folders whose files take longest. They come first, so that two workers, which take whole files, end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.relative_to(Path(__file__).parent).parts[0] not in LONGEST)


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    """Tests need not survive a power failure, and a training of a few steps would wait for the disk 80 times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def imports_are_no_garbage() -> None:
    """Hide everything that was imported so far, half a million objects, from the garbage collector.

    It runs after every training (accelerate calls it), and would look through all of them each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def the_same_weights_in_every_run() -> None:
    """Let models with random weights be the same ones whichever tests ran before."""
    torch.manual_seed(0)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
