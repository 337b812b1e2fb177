"""Outputs are whole or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from relexify.errors import InputError, OutputError
from relexify.storage.files import check_output, load_arrays, save_arrays, sha256_of, write_file, write_folder


def test_a_failed_folder_leaves_nothing_behind(tmp_path):
    def fill():
        with write_folder(tmp_path / "out") as folder:
            (folder / "half").write_text("x")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_overwrite_keeps_the_old_folder(tmp_path):
    with write_folder(tmp_path / "out") as folder:
        (folder / "old").write_text("old")

    def fill():
        with write_folder(tmp_path / "out", overwrite=True) as folder:
            (folder / "new").write_text("x")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        fill()
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {"old", "relexify.json"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_process_killed_while_writing_leaves_the_old_output_whole(tmp_path):
    write_file(tmp_path / "file", "old")
    code = f"""
        import os, signal
        from relexify.storage.files import _beside
        with _beside({str(tmp_path / "file")!r}) as beside:
            beside.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_text() == "old"


def test_the_next_run_takes_away_what_a_killed_one_left(tmp_path):
    code = f"""
        import os, signal
        from relexify.storage.files import write_folder
        with write_folder({str(tmp_path / "out")!r}) as folder:
            (folder / "half").write_text("x")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert not (tmp_path / "out").exists()
    assert len(list(tmp_path.iterdir())) == 1
    with write_folder(tmp_path / "out") as folder:
        (folder / "whole").write_text("x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_parked_output_comes_back(tmp_path):
    parked = tmp_path / ".out.999999999.abc"
    (parked / "out").mkdir(parents=True)
    (parked / "out" / "old").write_text("x")
    with pytest.raises(OutputError, match="exists already"), write_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "old").exists()


def test_written_files_can_be_read_by_others(tmp_path):
    with write_folder(tmp_path / "out") as folder:
        (folder / "file").write_text("x")
        (folder / "file").chmod(0o600)
    assert (tmp_path / "out" / "file").stat().st_mode & 0o777 == 0o644


def test_the_operating_systems_refusal_becomes_one_sentence(tmp_path):
    def fill():
        with write_folder(tmp_path / "out"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"could not be written \(No space left on device\)"):
        fill()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/proc"), reason="needs a place nobody can write to")
def test_a_place_that_cannot_be_written_is_refused_before_the_work():
    with pytest.raises(OutputError, match="cannot be written"):
        check_output("/proc/relexify/out")


def test_an_existing_output_is_refused_unless_asked_for(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(OutputError, match="--overwrite"):
        check_output(tmp_path / "out")
    assert check_output(tmp_path / "out", overwrite=True) == tmp_path / "out"
    (tmp_path / "empty").mkdir()
    assert check_output(tmp_path / "empty")


def test_a_folder_of_the_users_own_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("precious")
    with pytest.raises(OutputError, match="not written by relexify"):
        check_output(tmp_path / "thesis", overwrite=True)


def test_a_folder_where_a_file_is_wanted_is_refused_before_the_work(tmp_path):
    with pytest.raises(OutputError, match="is a folder"):
        check_output(tmp_path, file=True, overwrite=True)


def test_arrays_survive_a_round_trip_empty_ones_included(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 4), np.int64)}
    save_arrays(tmp_path / "x.safetensors", arrays, {"kind": "test", "words": ["ü"]})
    loaded, metadata = load_arrays(tmp_path / "x.safetensors", "test")
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())
    assert metadata["words"] == ["ü"]


def test_a_foreign_safetensors_file_is_named_as_such(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="foreign"):
        load_arrays(tmp_path / "x.safetensors", "test")


def test_the_hash_of_a_folder_depends_on_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    first = sha256_of(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert sha256_of(tmp_path) != first
