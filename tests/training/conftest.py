"""Sources and runs that several tests of training share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.runs import Run, beside, make_run


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Threads cost more than they give where everything is tiny."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def onednn() -> Iterator[None]:
    """Where a product in bfloat16 fails, torch turns oneDNN off for good, and what follows gives other bits."""
    with torch.backends.mkldnn.flags(enabled=True):
        yield


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Sources, each made once; for runs whose outputs may lie together."""

    @cache
    def make(family: str = "gpt2", **options: Any) -> Run:
        return make_run(tmp_path_factory.mktemp(family.replace(" ", "-")), family, **options)

    return make


@pytest.fixture
def run_of(shared_run: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """A run of a family in a folder of the test's own."""
    return lambda family="gpt2", **options: beside(shared_run(family, **options), tmp_path)
