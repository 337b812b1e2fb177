"""Commands that torchrun starts on several hosts, which count text together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relexify.evidence.vectors import counting, sentences, shares, training
from tests.cli.command import Outcome, relexify
from tests.cli.conftest import World
from tests.training.runs import assert_same_bits

Run = Callable[..., Outcome]


@pytest.fixture
def on_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command as a process of one of two hosts, with the cache that both share."""
    monkeypatch.setattr(sentences, "BATCH", 1_000)
    monkeypatch.setattr(training, "_SHARD", 2)
    monkeypatch.setattr(counting, "BLOCK", 500)

    def run(*arguments: object, rank: int, local_ranks: int = 1) -> Outcome:
        monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "shared"))
        launched = {"RANK": rank, "WORLD_SIZE": 2 * local_ranks}
        local = {"LOCAL_RANK": rank % local_ranks, "LOCAL_WORLD_SIZE": local_ranks}
        for name, value in {**launched, **local}.items():
            monkeypatch.setenv(name, str(value))
        return relexify("--processes", 1, *arguments)

    return run


def test_two_hosts_train_vectors_and_the_first_writes_them(world: World, tmp_path: Path, on_host: Run) -> None:
    alone, together = tmp_path / "alone.safetensors", tmp_path / "together.safetensors"
    assert relexify("vectors", "train", world.corpus, "-o", alone).status == 0
    command = "vectors", "train", world.corpus, "-o", together
    outcome = on_host(*command, rank=1)
    assert (outcome.status, outcome.out, together.exists()) == (0, "", False)
    assert f"the one with RANK=0 writes {together}" in " ".join(outcome.err.split())
    assert on_host(*command, rank=0).status == 0
    assert together.read_bytes() == alone.read_bytes()
    assert on_host(*command, rank=1).status == 0, "it came after the first had finished"


def test_the_other_processes_of_a_host_count_nothing(world: World, tmp_path: Path, on_host: Run) -> None:
    output = tmp_path / "vectors.safetensors"
    for command in (
        ("vectors", "train", world.corpus, "-o", output),
        ("transfer", world.gpt2, output, *world.text),
    ):
        assert on_host(*command, rank=1, local_ranks=2).status == 0
    assert not output.exists()
    assert not (tmp_path / "shared").exists()


def test_a_second_host_counts_for_a_transfer_and_the_first_writes_it(
    world: World, tmp_path: Path, on_host: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "transfer", world.gpt2
    text = (*world.text, "--dictionary", world.dictionary, "--set", "score=false")
    assert relexify(*command, tmp_path / "alone", *text).status == 0
    shared: list[str] = []
    original = shares.SharedCount.count_share

    def count_share(self: shares.SharedCount[Any]) -> None:
        shared.append(self.name)
        original(self)

    monkeypatch.setattr(shares.SharedCount, "count_share", count_share)
    outcome = on_host(*command, tmp_path / "together", *text, rank=1)
    assert (outcome.status, outcome.out) == (0, "")
    assert shared == ["words", "pairs"]
    assert not (tmp_path / "together").exists()
    assert on_host(*command, tmp_path / "together", *text, rank=0).status == 0
    assert_same_bits(tmp_path / "alone", tmp_path / "together")
    assert on_host(*command, tmp_path / "together", *text, rank=1).status == 0, "it came after the first had finished"
