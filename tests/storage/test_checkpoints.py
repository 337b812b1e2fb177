"""Rotation of checkpoints."""

from __future__ import annotations

from relexify.storage.checkpoints import rotate_checkpoints, seal, sealed_checkpoints


def test_the_newest_and_the_best_checkpoint_are_kept(tmp_path):
    for step in (2, 4, 10, 12):
        checkpoint = tmp_path / f"checkpoint-{step}"
        checkpoint.mkdir()
        (checkpoint / "model").write_text("x")
        seal(checkpoint)
    rotate_checkpoints(tmp_path, keep=2, best=4)
    assert [path.name for path in sealed_checkpoints(tmp_path)] == ["checkpoint-4", "checkpoint-10", "checkpoint-12"]
    rotate_checkpoints(tmp_path, keep=1, best=None)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-12"]
