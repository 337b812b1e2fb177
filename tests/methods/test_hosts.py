"""Vectors counted on several hosts, against those of a single process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relexify.evidence.vectors import VectorTraining, counting, sentences, shares, training
from relexify.methods.parts.vectors import token_vectors, trained_vectors
from relexify.processes import PROCESSES
from relexify.storage.shards import Shards
from relexify.text import Corpus
from tests import pico
from tests.processes import in_processes, start_process

LINES = pico.sentences(300)
OPTIONS = VectorTraining(width=8, minimum_count=1, contexts=50)
FILE = "vectors/*/vectors.safetensors"


def use_small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "BATCH", 1_000)
    monkeypatch.setattr(training, "_SHARD", 2)
    monkeypatch.setattr(counting, "BLOCK", 500)
    monkeypatch.setenv(PROCESSES, "1")


def host(number: int, hosts: int) -> dict[str, str]:
    """What torchrun sets with one process on each host."""
    return {"RANK": str(number), "WORLD_SIZE": str(hosts), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """Return a function for the vectors that a host has when it is done, in a cache that others have used or not."""
    use_small_shards(monkeypatch)

    def train(cache: str, number: int = 0, hosts: int = 1) -> bytes:
        monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / cache))
        for name, value in host(number, hosts).items():
            monkeypatch.setenv(name, value)
        trained_vectors(Corpus.from_lines(LINES), OPTIONS)
        assert not list((tmp_path / cache).glob("vectors-shards/*")), "the shards are left"
        (entry,) = (tmp_path / cache).glob(FILE)
        return entry.read_bytes()

    return train


def stop_before_adding_up(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let a host die when it has counted its share of words (1) or of pairs (2)."""
    shared: list[str] = []
    original = shares.SharedCount.count_share

    def count_share(self: shares.SharedCount[Any]) -> None:
        original(self)
        shared.append(self.name)
        if len(shared) == step:
            raise KeyboardInterrupt

    monkeypatch.setattr(shares.SharedCount, "count_share", count_share)


def shards_in(cache: Path) -> list[str]:
    return sorted(path.stem for path in cache.glob("vectors-shards/*/*.bin"))


def test_every_host_has_the_vectors_of_a_single_process(on: Callable[..., bytes]) -> None:
    alone = on("alone")
    assert on("two", 1, 2) == alone, "the second host does not wait for the first"
    assert on("two", 0, 2) == alone
    assert on("three", 2, 3) == alone


@pytest.mark.parametrize("step", [1, 2])
def test_the_counts_of_a_host_that_died_are_used_and_the_others_are_counted(
    on: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    alone = on("alone")
    with monkeypatch.context() as patched:
        stop_before_adding_up(patched, step)
        with pytest.raises(KeyboardInterrupt):
            on("shared", 1, 2)
    found = shards_in(tmp_path / "shared")
    assert "words-000001" in found
    assert "words-000000" not in found, "the share of another host was counted"
    assert ("pairs-000001" in found) == (step == 2)
    counted: list[str] = []
    monkeypatch.setattr(Shards, "write", lambda self, name, content: counted.append(name))
    assert on("shared") == alone, "one process after two"
    assert "words-000000" in counted
    assert "words-000001" not in counted, "what the other host had counted was counted again"


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("name", ["words-000001", "pairs-000003"])
def test_counts_that_are_lost_or_damaged_are_counted_again(
    on: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], Any], name: str
) -> None:
    alone = on("alone")
    with monkeypatch.context() as patched:
        stop_before_adding_up(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            on("shared", 1, 2)
    (shard,) = (tmp_path / "shared").glob(f"vectors-shards/*/{name}.bin")
    damage(shard)
    assert on("shared", 0, 2) == alone


def test_counts_are_used_instead_of_the_text(
    on: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        stop_before_adding_up(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            on("shared", 1, 2)
    (folder,) = (tmp_path / "shared").glob("vectors-shards/*")
    shards = Shards(folder)
    shards.write("pairs-000001", shards.read("pairs-000003") or b"")
    assert on("shared", 0, 2) != on("alone")


def test_shards_that_another_host_removes_cost_time_and_not_the_run(
    on: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = on("alone")
    # As if all shards had been there, and were gone when they are read.
    monkeypatch.setattr(shares.SharedCount, "_is_missing", lambda self, number: False)
    assert on("removed", 0, 2) == alone


def test_small_text_and_a_cache_that_cannot_be_written_need_no_shards(
    on: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    original = Shards.write
    monkeypatch.setattr(Shards, "write", lambda self, *part: (written.append(part[0]), original(self, *part)))
    for name, value in (("BATCH", 1_000_000), ("BLOCK", 4_000_000)):
        monkeypatch.setattr(sentences if name == "BATCH" else counting, name, value)
    on("small", 0, 2)
    assert not written
    use_small_shards(monkeypatch)
    (tmp_path / "file").touch()
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "file"))
    assert len(trained_vectors(Corpus.from_lines(LINES), OPTIONS))
    assert written


def test_vectors_of_tokens_are_those_of_a_single_process_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_shards(monkeypatch)
    tokenizer = pico.roberta_tokenizer()

    def train(cache: str) -> np.ndarray:
        monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / cache))
        return token_vectors(Corpus.from_lines(LINES), tokenizer, OPTIONS).matrix

    alone = train("alone")
    for name, value in host(1, 2).items():
        monkeypatch.setenv(name, value)
    assert train("shared").tobytes() == alone.tobytes()


def test_two_hosts_one_of_which_is_killed_and_started_again_write_what_one_process_writes(
    on: Callable[..., bytes], tmp_path: Path
) -> None:
    alone = on("alone")
    cache = tmp_path / "shared"
    second = start_process(host(1, 2), _train_slowly, str(cache))
    deadline = time.monotonic() + 60
    while len(shards_in(cache)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert second.pid is not None
    os.kill(second.pid, signal.SIGKILL)
    second.join()
    assert second.exitcode == -signal.SIGKILL, "it was done before it was killed"
    assert len(shards_in(cache)) >= 3
    assert in_processes([host(0, 2), host(1, 2)], _train, str(cache)) == 0
    assert not list(cache.glob("vectors-shards/*"))
    (entry,) = cache.glob(FILE)
    assert entry.read_bytes() == alone


def _train(cache: str) -> None:
    os.environ["RELEXIFY_CACHE"] = cache
    use_small_shards(pytest.MonkeyPatch())
    trained_vectors(Corpus.from_lines(LINES), OPTIONS)


def _train_slowly(cache: str) -> None:
    write = Shards.write

    def write_slowly(self: Shards, name: str, content: bytes) -> None:
        write(self, name, content)
        time.sleep(0.5)

    pytest.MonkeyPatch().setattr(Shards, "write", write_slowly)
    _train(cache)
