"""Which checkpoints are kept, and when they are complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relexify.storage.runs.checkpoints import rotate_checkpoints, seal, sealed_checkpoints


def write(folder: Path, *steps: int) -> None:
    for step in steps:
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir()
        (checkpoint / "model").write_text("x")
        seal(checkpoint)


def steps_in(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("checkpoint-")) for path in sealed_checkpoints(folder)]


def test_the_newest_and_the_best_checkpoint_are_kept(tmp_path):
    write(tmp_path, 2, 4, 10, 12)
    rotate_checkpoints(tmp_path, current=12, keep=2, best=4)
    assert steps_in(tmp_path) == [4, 10, 12]
    rotate_checkpoints(tmp_path, current=12, keep=1, best=None)
    assert steps_in(tmp_path) == [12]


def test_checkpoints_that_were_skipped_when_a_run_resumed_are_not_counted_as_kept(tmp_path):
    write(tmp_path, 50, 60, 100)  # 100 was damaged, and the run resumed from 50
    rotate_checkpoints(tmp_path, current=60, keep=2, best=None)
    assert steps_in(tmp_path) == [50, 60]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux names open files there")
def test_a_checkpoint_is_on_the_disk_before_it_is_sealed(tmp_path, monkeypatch):
    sealed = []

    def fsync(handle: int) -> None:
        sealed.append((Path(os.readlink(f"/proc/self/fd/{handle}")).name, steps_in(tmp_path) != []))

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path, 1)
    assert sealed[0] == ("model", False)
    assert sealed[-1] == ("checkpoint-1", True)
