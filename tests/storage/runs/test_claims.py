"""A folder whose results stay belongs to one run, and is free again if an error leaves nothing in it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from relexify.errors import InputError
from relexify.storage.runs.claims import RUN_FILE, claimed

IDENTITY = {"model": "abc", "epochs": 3}


def test_results_of_an_interrupted_run_are_found_again_by_the_same_run_alone(tmp_path: Path):
    with suppress(KeyboardInterrupt), claimed(tmp_path, IDENTITY, {"tasks": 1}):
        (tmp_path / "seed-0.json").write_text("{}")
        raise KeyboardInterrupt
    with claimed(tmp_path, IDENTITY, {"tasks": 1}):
        assert (tmp_path / "seed-0.json").exists()
    for identity, revision, found in (
        ({**IDENTITY, "epochs": 4}, 1, "its epochs was 3, here it is 4"),
        ({**IDENTITY, "model": "abd"}, 1, 'its model was "abc"'),
        (IDENTITY, 2, "(changed: tasks)"),
    ):
        with pytest.raises(InputError, match=re.escape(found)), claimed(tmp_path, identity, {"tasks": revision}):
            pass


@pytest.mark.parametrize("has_results", [False, True])
def test_an_error_frees_a_folder_unless_there_are_results_in_it(tmp_path: Path, has_results: bool):
    with suppress(InputError), claimed(tmp_path, IDENTITY, {"tasks": 1}):
        (tmp_path / "seed-0").mkdir()
        if has_results:
            (tmp_path / "seed-0" / "checkpoint").touch()
        raise InputError("a mistake")
    assert (tmp_path / RUN_FILE).exists() == has_results
    assert (tmp_path / "seed-0").exists() == has_results


def test_files_of_others_are_not_claimed(tmp_path: Path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(InputError, match="files that relexify did not write"), claimed(tmp_path, IDENTITY, {}):
        pass
    (tmp_path / RUN_FILE).write_text(json.dumps({"model": "of another program"}))
    with pytest.raises(InputError, match="another run"), claimed(tmp_path, IDENTITY, {}):
        pass


def test_two_processes_do_not_work_in_one_folder_and_the_second_does_not_give_up_the_claim_of_the_first(tmp_path: Path):
    with claimed(tmp_path / "out", IDENTITY, {}):
        with pytest.raises(InputError, match="another process is working"), claimed(tmp_path / "out", IDENTITY, {}):
            pass
        assert (tmp_path / "out" / RUN_FILE).exists()
        (tmp_path / "out" / "seed-0.json").write_text("{}")
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {RUN_FILE, "seed-0.json"}
    with claimed(tmp_path / "out", IDENTITY, {}):
        pass


def test_a_folder_with_the_lock_of_a_killed_process_is_claimed(tmp_path: Path):
    (tmp_path / ".lock").touch()
    with claimed(tmp_path, IDENTITY, {}):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == [RUN_FILE]


def test_finished_results_are_found_in_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with claimed(tmp_path, IDENTITY, {}):
        (tmp_path / "seed-0.json").write_text("{}")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    with claimed(tmp_path, IDENTITY, {}):
        assert {entry.name for entry in tmp_path.iterdir()} == {RUN_FILE, "seed-0.json"}
