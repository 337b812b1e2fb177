"""safetensors files that are rewritten or linked without being loaded."""

from __future__ import annotations

import os

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from relexify.storage.files import write_folder
from relexify.storage.tensor_files import TensorBytes, link_or_copy, read_header, rewrite_tensors


@pytest.fixture
def arrays():
    draw = np.random.default_rng(0)
    return {
        "b": draw.standard_normal((5, 3)).astype(np.float32),
        "a": draw.standard_normal((7,)).astype(np.float16),
        "empty": np.zeros((0, 4), np.float32),
        "z": draw.integers(0, 9, (2, 2)),
    }


def test_a_rewritten_file_has_the_new_values_and_keeps_all_others(arrays, tmp_path):
    save_file(arrays, tmp_path / "old.safetensors", metadata={"format": "pt"})
    rows = np.arange(24, dtype=np.float64).reshape(8, 3)
    new = {"b": TensorBytes("F64", (8, 3), memoryview(rows).cast("B")), "foreign": TensorBytes("F32", (1,), b"1234")}
    rewrite_tensors(tmp_path / "old.safetensors", tmp_path / "new.safetensors", new, dropped={"z"})
    found = load_file(tmp_path / "new.safetensors")
    assert set(found) == {"a", "b", "empty"}
    assert np.array_equal(found["b"], rows)
    assert np.array_equal(found["a"], arrays["a"])
    assert found["empty"].shape == (0, 4)
    with safe_open(tmp_path / "new.safetensors", "numpy") as stream:
        assert stream.metadata() == {"format": "pt"}
    _, begin = read_header(tmp_path / "new.safetensors")
    assert begin % 8 == 0


def test_without_changes_the_data_is_copied_byte_for_byte(arrays, tmp_path):
    save_file(arrays, tmp_path / "old.safetensors", metadata={"format": "pt"})
    rewrite_tensors(tmp_path / "old.safetensors", tmp_path / "new.safetensors", {})
    old, new = ((tmp_path / f"{name}.safetensors").read_bytes() for name in ("old", "new"))
    assert old[read_header(tmp_path / "old.safetensors")[1] :] == new[read_header(tmp_path / "new.safetensors")[1] :]


def test_a_file_is_copied_where_it_cannot_be_linked(tmp_path, monkeypatch):
    (tmp_path / "old").write_bytes(b"content")
    (tmp_path / "symbolic").symlink_to(tmp_path / "old")
    link_or_copy(tmp_path / "symbolic", tmp_path / "linked")
    assert (tmp_path / "linked").samefile(tmp_path / "old")
    assert not (tmp_path / "linked").is_symlink()

    def refuse(*names):
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", refuse)
    link_or_copy(tmp_path / "old", tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == b"content"
    assert not (tmp_path / "copied").samefile(tmp_path / "old")


def test_the_source_of_a_link_keeps_its_permissions(tmp_path):
    (tmp_path / "old").write_bytes(b"content")
    os.chmod(tmp_path / "old", 0o440)
    with write_folder(tmp_path / "output") as folder:
        link_or_copy(tmp_path / "old", folder / "linked")
    assert (tmp_path / "output" / "linked").samefile(tmp_path / "old")
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o440
