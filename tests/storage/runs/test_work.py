"""A work folder belongs to one run, resumes, finishes at once, and disappears."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any

import pytest

from relexify.errors import InputError, OutputError
from relexify.storage.files import temporary_prefix
from relexify.storage.json import read_json
from relexify.storage.locks import only_one
from relexify.storage.notes import inherited_notes, read_notes
from relexify.storage.runs.claims import check_claim, claimed
from relexify.storage.runs.work import WorkFolder, is_intermediate

IDENTITY = {"model": "abc", "training": {"steps": 4, "rates": [0.1, 0.2]}}


def work(tmp_path: Path, identity: object = IDENTITY, *, overwrite: bool = False) -> WorkFolder:
    return WorkFolder(tmp_path / "out", "training", identity, overwrite=overwrite)  # type: ignore[arg-type]


def test_a_step_is_made_once_and_complete_or_absent(tmp_path: Path):
    calls = []

    def make(folder: Path) -> None:
        calls.append(folder)
        (folder / "x").write_text("1")

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise InputError("stopped")

    with work(tmp_path).claim():
        with pytest.raises(InputError, match="stopped"):
            work(tmp_path).step("grafted", fail)
        assert not (tmp_path / "out.training" / "grafted").exists()
        for _ in range(2):
            assert (work(tmp_path).step("grafted", make) / "x").read_text() == "1"
    assert len(calls) == 1


def test_another_run_is_rejected_with_the_value_that_differs(tmp_path: Path):
    with work(tmp_path).claim():
        pass
    other = {"model": "abc", "training": {"steps": 4, "rates": [0.1, 0.3]}}
    with (
        pytest.raises(InputError, match=r"its training.rates\[1\] was 0.2, here it is 0.3"),
        work(tmp_path, other).claim(),
    ):
        pass
    with work(tmp_path, other, overwrite=True).claim():
        pass
    with pytest.raises(InputError, match="another run"), work(tmp_path).claim():
        pass


@pytest.mark.parametrize(("stages", "key"), [(1, "`training.steps`"), (2, r"training\.stages\[0\]\.steps")])
def test_the_steps_of_an_only_stage_are_those_of_the_training(tmp_path: Path, stages: int, key: str):
    def planned(steps: int) -> WorkFolder:
        return work(tmp_path, {"training": {"stages": [{"steps": steps}] * stages}})

    with planned(20).claim():
        pass
    with pytest.raises(InputError, match=f"its {key} was 20, here it is 30"), planned(30).claim():
        pass


def test_another_run_is_rejected_in_the_words_of_a_recipe(tmp_path: Path):
    with work(tmp_path, {"tables": {"training": {"steps": 4}}}).claim():
        pass
    other = work(tmp_path, {"tables": {"training": {"steps": 5}}})
    with (
        pytest.raises(InputError, match=r"its training\.steps was 4.*\(with `overwrite`, it is deleted"),
        other.claim(),
    ):
        pass


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"held_out": {"bytes": 2_000, "inputs": {"sha256": "b" * 64}}}, ", whose held-out text (`held_out`, "),
        ({"held_out": {"bytes": 2_000, "inputs": {"sha256": "b" * 64}}, "length": 64}, "its length was 128, here "),
        ({"text": "c" * 64}, ", whose text (`corpus`) differs; choose"),
        ({"source": {"text": "c" * 64}}, ", whose text (`corpus`) differs; choose"),
        ({"model": "d" * 64}, ", whose model differs; choose"),
        ({"pairs": "e" * 64}, ", whose parallel text (`bitext`) differs; choose"),
    ],
)
def test_another_input_is_named_in_words_and_an_option_before_what_follows_from_it(
    tmp_path: Path, changes: dict[str, Any], found: str
):
    identity = {
        "held_out": {"bytes": 1_000, "inputs": {"sha256": "a" * 64}},
        "length": 128,
        "model": "a" * 64,
        "text": "a" * 64,
        "source": {"text": "a" * 64},
        "pairs": "a" * 64,
    }
    with work(tmp_path, identity).claim():
        pass
    with pytest.raises(InputError) as error, work(tmp_path, {**identity, **changes}).claim():
        pass
    assert found in str(error.value)
    assert "sha256" not in str(error.value)


def test_a_folder_of_somebody_else_is_never_claimed(tmp_path: Path):
    (tmp_path / "out.training").mkdir()
    (tmp_path / "out.training" / "notes.txt").touch()
    for overwrite in (False, True):
        with pytest.raises(InputError, match="did not write"), work(tmp_path, overwrite=overwrite).claim():
            pass
    work(tmp_path).clear()
    assert (tmp_path / "out.training" / "notes.txt").exists()


def test_two_processes_do_not_share_a_folder(tmp_path: Path):
    with work(tmp_path).claim(), pytest.raises(InputError, match="another process"), work(tmp_path).claim():
        pass


def test_overwriting_does_not_remove_the_work_of_a_process_that_is_running(tmp_path: Path):
    other = work(tmp_path, {"steps": 5}, overwrite=True)
    with work(tmp_path).claim():
        (tmp_path / "out.training" / "checkpoint").touch()
        with pytest.raises(InputError, match="another process is working"), other.claim():
            pass
        assert (tmp_path / "out.training" / "checkpoint").exists()
    with other.claim():
        assert not (tmp_path / "out.training" / "checkpoint").exists()


def test_nobody_claims_a_folder_while_overwriting_removes_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    remove, removed = shutil.rmtree, []

    def remove_while_others_start(path: Path, **options: Any) -> None:
        other = work(tmp_path, overwrite=True)
        with pytest.raises(InputError, match="another process is working"), other.claim():
            pass
        removed.append(path.name)
        remove(path, **options)

    with work(tmp_path).claim():
        work(tmp_path).step("grafted", lambda folder: (folder / "x").touch())
    monkeypatch.setattr("shutil.rmtree", remove_while_others_start)
    with work(tmp_path, {"steps": 5}, overwrite=True).claim():
        assert removed == ["grafted"]


def test_work_that_is_half_removed_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def kill(*_: object, **options: object) -> None:
        raise KeyboardInterrupt

    with work(tmp_path).claim():
        work(tmp_path).step("grafted", lambda folder: (folder / "x").touch())
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", kill)
        with pytest.raises(KeyboardInterrupt), work(tmp_path, {"steps": 5}, overwrite=True).claim():
            pass
    for identity in (IDENTITY, {"steps": 5}):
        with pytest.raises(InputError, match="partly removed"), work(tmp_path, identity).claim():
            pass
    with work(tmp_path, overwrite=True).claim():
        assert not (tmp_path / "out.training" / "grafted").exists()


def test_a_link_is_removed_with_the_work_and_what_it_leads_to_is_kept(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "checkpoint-2").mkdir(parents=True)
    first = work(tmp_path, {"steps": 4})
    with first.claim():
        (first.path / "checkpoints").symlink_to(elsewhere)
    other = work(tmp_path, {"steps": 5}, overwrite=True)
    with other.claim():
        assert not (other.path / "checkpoints").is_symlink(), "the work of another run would be resumed"
        (other.path / "checkpoints").symlink_to(elsewhere)
        other.clear()
    assert not other.path.exists()
    assert (elsewhere / "checkpoint-2").exists()


def test_work_that_cannot_be_removed_keeps_its_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*arguments: object) -> None:
        raise PermissionError

    first = work(tmp_path, {"steps": 4})
    with first.claim(), monkeypatch.context() as patch:
        (first.path / "checkpoints").mkdir()
        patch.setattr("relexify.storage.runs.work.shutil.rmtree", fail)
        first.clear()
        with pytest.raises(InputError, match="steps"):
            check_claim(first.path, {"steps": 5})
    with monkeypatch.context() as patch:
        patch.setattr("relexify.storage.runs.work.shutil.rmtree", fail)
        with pytest.raises(PermissionError), work(tmp_path, {"steps": 5}, overwrite=True).claim():
            pass
    with work(tmp_path, {"steps": 5}, overwrite=True).claim():
        assert not (first.path / "checkpoints").exists()


def test_of_two_runs_that_start_at_once_the_second_does_not_work_in_the_folder_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    started = []

    def lock_after_another(folder: Path) -> AbstractContextManager[None]:
        if not started:
            started.append(folder)
            with work(tmp_path, {"steps": 5}).claim():
                pass
        return only_one(folder)

    monkeypatch.setattr("relexify.storage.runs.work.only_one", lock_after_another)
    with pytest.raises(InputError, match="another run"), work(tmp_path).claim():
        pass


def test_a_run_that_is_rejected_leaves_the_identity_of_the_one_that_is_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    running = work(tmp_path)
    claims = []

    def lock_after_another(folder: Path) -> AbstractContextManager[None]:
        if not claims:
            claims.append(running.claim())
            claims[0].__enter__()
        return only_one(folder)

    monkeypatch.setattr("relexify.storage.runs.work.only_one", lock_after_another)
    with pytest.raises(InputError, match="another process is working"), work(tmp_path, {"steps": 5}).claim():
        pass
    check_claim(running.path, running.identity)
    claims[0].__exit__(None, None, None)


def test_a_folder_whose_identity_was_being_written_is_claimed(tmp_path: Path):
    folder = work(tmp_path).path
    folder.mkdir()
    (folder / f"{temporary_prefix(folder / 'run.json')}0123").touch()
    with work(tmp_path).claim():
        check_claim(folder, IDENTITY)


def test_a_run_that_begins_while_a_folder_is_checked_is_not_taken_for_foreign_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other, entries_of = work(tmp_path, {"steps": 5}), Path.iterdir

    def begin_and_list(folder: Path) -> Iterator[Path]:
        monkeypatch.undo()
        with other.claim():
            other.step("grafted", lambda each: (each / "x").touch())
        return entries_of(folder)

    for identity, belongs in ((IDENTITY, False), ({"steps": 5}, True)):
        monkeypatch.setattr(Path, "iterdir", begin_and_list)
        with nullcontext() if belongs else pytest.raises(InputError, match="unfinished work of another run"):
            check_claim(other.path, identity)
        other.clear()


def test_a_folder_that_another_process_has_just_removed_is_in_use(tmp_path: Path):
    with pytest.raises(InputError, match="another process is working"), only_one(tmp_path / "removed"):
        pass


def test_a_folder_that_another_process_removes_at_the_same_moment_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    finishing, is_dir = work(tmp_path), Path.is_dir
    with finishing.claim():
        pass

    def finish_first(path: Path, **options: Any) -> bool:  # `mkdir` has just found the folder
        monkeypatch.setattr(Path, "is_dir", is_dir)
        finishing.clear()
        return is_dir(path, **options)

    monkeypatch.setattr(Path, "is_dir", finish_first)
    with work(tmp_path).claim():
        check_claim(finishing.path, IDENTITY)


def test_a_folder_around_it_that_another_process_removes_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    around, mkdir, removed = tmp_path / "around", os.mkdir, []

    def remove_once(path: Path, mode: int = 0o777) -> None:
        mkdir(path, mode)
        if Path(path) == around and not removed:
            removed.append(around)
            around.rmdir()

    monkeypatch.setattr(os, "mkdir", remove_once)
    with work(around).claim():
        assert removed
        check_claim(around / "out.training", IDENTITY)


def test_a_file_in_place_of_a_folder_is_reported(tmp_path: Path):
    (tmp_path / "around").touch()
    with pytest.raises(OSError, match="around"), work(tmp_path / "around").claim():
        pass


def test_work_that_is_removed_or_begun_while_it_is_checked_is_not_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = work(tmp_path)

    def read_after(happens: Callable[[], object]) -> None:
        answers = [happens]

        def read(path: Path) -> Any:
            found = read_json(path)
            if answers:
                answers.pop()()
            return found

        monkeypatch.setattr("relexify.storage.runs.claims.read_json", read)

    def begin() -> None:
        with other.claim():
            pass

    for identity in (IDENTITY, {"steps": 5}):
        other.clear()
        read_after(begin)
        with nullcontext() if identity is IDENTITY else pytest.raises(InputError, match="another run"):
            check_claim(other.path, identity)
    read_after(other.clear)
    with pytest.raises(InputError, match="another run"):  # as it was when it was read
        check_claim(other.path, {"steps": 5})
    check_claim(other.path, {"steps": 5})


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_lock_that_its_owner_removed_protects_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_taken: bool
):
    flock = fcntl.flock

    def finish_first(stream: IO[str], operation: int) -> None:
        (tmp_path / "lock").unlink()
        if is_taken:  # by a third process, with a file of its own
            (tmp_path / "lock").touch()
        flock(stream, operation)

    monkeypatch.setattr("fcntl.flock", finish_first)
    with pytest.raises(InputError, match="another process is working"), only_one(tmp_path):
        pass


def test_a_folder_with_a_lock_alone_is_claimed(tmp_path: Path):
    (tmp_path / "out.training").mkdir()
    (tmp_path / "out.training" / "lock").touch()  # what a process leaves that is killed while it removes its work
    with work(tmp_path).claim():
        assert (tmp_path / "out.training" / "run.json").exists()


def test_a_file_system_without_locks_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")  # as NFS answers without its lock service

    monkeypatch.setattr("fcntl.flock", flock)
    with work(tmp_path).claim():
        pass
    assert "cannot be locked (No locks available)" in caplog.text


def test_a_finished_run_is_recognised_and_another_one_is_not(tmp_path: Path):
    run = work(tmp_path)
    assert not run.is_finished()
    with run.claim(), run.finish({"note": 1}) as folder:
        (folder / "model").touch()
    assert run.is_finished()
    assert not run.path.exists()
    assert read_notes(tmp_path / "out")["note"] == 1
    assert not work(tmp_path, {"model": "other"}).is_finished()
    with pytest.raises(OutputError, match="exists"):
        work(tmp_path, {"model": "other"}).check()


def test_an_outer_run_is_finished_beside_the_inner_one(tmp_path: Path):
    inner, outer = work(tmp_path), WorkFolder(tmp_path / "out", "recipe", {"recipe": 1})
    with outer.claim(), inner.claim(), inner.finish() as folder:
        (folder / "model").touch()
    assert inner.is_finished()
    assert not outer.is_finished()
    outer.mark_finished()
    assert inner.is_finished()
    assert outer.is_finished()
    assert not outer.path.exists()


def test_an_output_that_another_run_writes_can_carry_the_notes_of_an_outer_one(tmp_path: Path):
    outer, inner = WorkFolder(tmp_path / "out", "phases", {"x": 1}), work(tmp_path)
    with inner.finish(outer.finished_notes) as folder:
        (folder / "model").touch()
    assert inner.is_finished()
    assert outer.is_finished()


def test_a_result_of_other_code_is_not_finished(tmp_path: Path):
    run = WorkFolder(tmp_path / "out", "training", {"model": "abc"}, revisions={"scores": 1})
    with run.claim(), run.finish() as folder:
        (folder / "model").touch()
    assert run.is_finished()
    assert not run.made_by_others()
    for revisions in ({"scores": 2}, {"scores": 1, "trainings": 1}):
        later = WorkFolder(tmp_path / "out", "training", {"model": "abc"}, revisions=revisions)
        assert not later.is_finished()
        assert "another version of relexify" in later.made_by_others()
        with pytest.raises(OutputError, match="out was made by another version of relexify"):
            later.check()
    unrecorded = WorkFolder(tmp_path / "older", "training", {"model": "abc"})
    with unrecorded.claim(), unrecorded.finish() as folder:
        (folder / "model").touch()
    now = WorkFolder(tmp_path / "older", "training", {"model": "abc"}, revisions={"scores": 1})
    assert "an older version of relexify, whose results may differ" in now.made_by_others()
    assert not work(tmp_path, {"model": "other"}).made_by_others()
    assert "revisions" not in inherited_notes(tmp_path / "out")


def test_a_failure_while_finishing_leaves_no_output_and_keeps_the_work(tmp_path: Path):
    run = work(tmp_path)
    with run.claim():
        (run.path / "stage").mkdir()
        with pytest.raises(RuntimeError):
            _fail_while_finishing(run)
    assert not (tmp_path / "out").exists()
    assert (run.path / "stage").exists()


def _fail_while_finishing(run: WorkFolder) -> None:
    with run.finish() as folder:
        (folder / "half").touch()
        raise RuntimeError


def test_a_corrupt_identity_is_an_error_unless_overwritten(tmp_path: Path):
    with work(tmp_path).claim():
        pass
    (tmp_path / "out.training" / "run.json").write_text("{")
    with pytest.raises(InputError, match="corrupt"), work(tmp_path).claim():
        pass
    with work(tmp_path, overwrite=True).claim():
        assert json.loads((tmp_path / "out.training" / "run.json").read_text())["model"] == "abc"


def test_only_what_is_in_a_work_folder_is_intermediate(tmp_path: Path):
    run = work(tmp_path)
    with run.claim():
        model = run.step("grafted", lambda folder: (folder / "model").touch())
        assert is_intermediate(model)
        assert is_intermediate(run.path)
    kept, project = tmp_path / "model.ner", tmp_path / "project"
    with claimed(kept, IDENTITY, {"tasks": 1}):  # as of seeds and encoders, which stay
        pass
    project.mkdir()
    (project / "run.json").write_text("{}")  # of another program
    assert not any(map(is_intermediate, (tmp_path / "out", kept / "encoder-0", project / "model")))
