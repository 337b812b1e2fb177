"""Outputs are whole or not there."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from relexify.errors import InputError, OutputError
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.files import (
    MARKER,
    _machine,
    check_output,
    check_space,
    record_file,
    sha256_of,
    temporary_prefix,
    write_file,
    write_folder,
)
from relexify.storage.inputs import check_inputs
from relexify.storage.runs.work import WorkFolder
from relexify.text import Corpus


def test_a_failed_folder_leaves_nothing_behind(tmp_path):
    def fill():
        with write_folder(tmp_path / "out") as folder:
            (folder / "half").write_text("x")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_link_to_a_folder_is_written_there(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "real").mkdir()
    link = tmp_path / "out"
    link.symlink_to(tmp_path / "disk" / "real")
    for overwrite in (False, True):
        with write_folder(link, overwrite=overwrite) as folder:
            assert folder.parent == tmp_path / "disk"
            (folder / "x").write_text(str(overwrite))
        assert link.is_symlink()
        assert (tmp_path / "disk" / "real" / "x").read_text() == str(overwrite)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["disk", "out", "real", "relexify.json", "x"]


def test_where_a_link_leads_is_checked_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "disk" / "real").mkdir(parents=True)
    link = tmp_path / "out"
    link.symlink_to(tmp_path / "disk" / "real")
    checked: list[Path] = []
    with monkeypatch.context() as patch:
        patch.setattr("relexify.storage.files._check_writable", checked.append)
        check_output(link)
    assert checked == [tmp_path / "disk" / "real"], "the result is written beside the target, not beside the link"
    # No mount point that is a writable and empty folder can be relied on.
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path / "disk" / "real")
    with pytest.raises(OutputError, match="out is a mount point"):
        check_output(link)


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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux names open files there")
def test_everything_is_on_the_disk_before_it_gets_its_name_and_then_the_name_is(tmp_path, monkeypatch):
    done = []

    def fsync(handle: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{handle}")))

    def replace(source: Path, target: Path) -> None:
        done.append(f"{Path(target).name} appears")
        rename(source, target)

    rename = os.replace
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_file(tmp_path / "file", "text")
    temporary, *rest = done
    assert temporary.name.startswith(".file.")
    assert rest == ["file appears", tmp_path]
    done.clear()
    with write_folder(tmp_path / "out") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "part").write_text("text")
    *flushed, appears, parent = done
    assert set(flushed) == {folder, folder / "inner", folder / "inner" / "part", folder / MARKER}
    assert (appears, parent) == ("out appears", tmp_path)


def test_a_process_killed_while_writing_leaves_the_old_output_whole(tmp_path):
    write_file(tmp_path / "file", "old")
    code = f"""
        import os, signal
        from relexify.storage.files import atomic_file
        with atomic_file({str(tmp_path / "file")!r}) as beside:
            beside.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_text() == "old"


def test_the_next_run_removes_what_a_killed_one_left(tmp_path):
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


def test_an_output_that_was_moved_away_is_restored(tmp_path):
    parked = tmp_path / f".out.{_machine()}.999999999.abcdefgh"
    (parked / "out").mkdir(parents=True)
    (parked / "out" / "old").write_text("x")
    with pytest.raises(OutputError, match="was not written by relexify"), write_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "old").exists()


def test_the_temporary_of_a_run_on_another_machine_is_left_alone(tmp_path, monkeypatch):
    """Two machines share a folder; the process of the first is unknown to the second."""
    monkeypatch.setattr("relexify.storage.files._is_running", lambda process: process == os.getpid())
    monkeypatch.setattr("relexify.storage.files._machine", lambda: "a" * 12)
    with write_folder(tmp_path / "out") as first:
        (first / "first").write_text("x")
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr("relexify.storage.files._machine", lambda: "b" * 12)
            elsewhere.setattr("os.getpid", lambda: 2)
            elsewhere.setattr("relexify.storage.files._is_running", lambda process: process == 2)
            write_file(tmp_path / "out.json", "{}")
            with write_folder(tmp_path / "out") as second:
                (second / "second").write_text("x")
            assert first.exists()
        shutil.rmtree(tmp_path / "out")
    assert (tmp_path / "out" / "first").exists()


@pytest.mark.parametrize("name", [".out.1.0", ".out.2024.yaml", ".out.31415926.backup", f".out.{'b' * 12}.1.old"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_hidden_files_of_the_user_beside_an_output_are_never_removed(tmp_path, name, is_folder):
    own = tmp_path / name / "notes" if is_folder else tmp_path / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("precious")
    for entry in {own, own.parent} - {tmp_path}:
        os.utime(entry, (0, 0))
    write_file(tmp_path / "out", "new")
    (tmp_path / "out").unlink()
    with write_folder(tmp_path / "out") as folder:
        (folder / "whole").write_text("x")
    assert own.read_text() == "precious"


def test_the_temporary_of_another_machine_is_removed_once_it_is_old(tmp_path):
    folder, days = tmp_path / f".out.{'b' * 12}.{os.getpid()}.abcdefgh", 24 * 3600
    folder.mkdir()
    (folder / "half").write_text("x")
    for age, left in ((6 * days, True), (8 * days, False)):
        for entry in (folder / "half", folder):
            os.utime(entry, (time.time() - age,) * 2)
        write_file(tmp_path / "out", "new")
        assert folder.exists() == left


def test_a_folder_that_another_machine_still_fills_is_not_old(tmp_path):
    folder = tmp_path / f".out.{'b' * 12}.1.abcdefgh"
    folder.mkdir()
    (folder / "half").write_text("x")
    os.utime(folder, (0, 0))
    write_file(tmp_path / "out", "new")
    assert folder.exists()


def test_temporaries_of_a_longer_name_are_not_swept(tmp_path):
    other = tmp_path / f".out.json.{_machine()}.999999999.abcdefgh"
    other.touch()
    write_file(tmp_path / "out", "new")
    assert other.exists()


def test_machines_differ_by_host_name(tmp_path, monkeypatch):
    here = temporary_prefix(tmp_path / "out")
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    assert temporary_prefix(tmp_path / "out") != here


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_written_files_can_be_read_by_those_whom_the_umask_allows_it(tmp_path, umask):
    before = os.umask(umask)
    try:
        with write_folder(tmp_path / "out") as folder:
            (folder / "inner").mkdir()
            (folder / "file").write_text("x")
            (folder / "file").chmod(0o600)
        write_file(tmp_path / "note", "x")
        save_arrays(tmp_path / "arrays", {"a": np.zeros(2)}, {})  # safetensors chooses a mode of its own
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path, *tmp_path.rglob("*"))}
    assert {modes[name] for name in ("out", "inner")} == {0o777 & ~umask}
    assert {modes[name] for name in ("file", "relexify.json", "note", "arrays")} == {0o666 & ~umask}


def test_file_names_that_are_not_utf_8_can_be_recorded(tmp_path):
    name = os.fsdecode(b"sw\xff.txt")
    with write_folder(tmp_path / "out") as folder:
        (folder / name).touch()
    assert name in json.loads((tmp_path / "out" / "relexify.json").read_text(encoding="utf-8"))["files"]
    save_arrays(tmp_path / "arrays", {"a": np.zeros(2)}, {"kind": "test", "corpus": name})
    assert load_arrays(tmp_path / "arrays", "test")[1]["corpus"] == name
    write_file(tmp_path / "note", f"from {name}")
    assert (tmp_path / "note").read_text(encoding="utf-8") == "from sw\\udcff.txt"


def test_errors_of_the_operating_system_become_output_errors(tmp_path):
    def fill():
        with write_folder(tmp_path / "out"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"could not be written \(No space left on device\): free some space, or ch"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_the_disk_has_no_room_for_is_rejected_unless_the_space_is_unknown(tmp_path, monkeypatch):
    output = tmp_path / "new" / "out"
    check_space(output, 1)
    with pytest.raises(OutputError, match=r"needs about 1,000,000,000 GB, but its disk has [\d.,]+ [GM]B free: free"):
        check_space(output, 1e18)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: os.stat(path / "absent"))
    check_space(output, 1e18)


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/proc"), reason="needs a place nobody can write to")
def test_a_folder_that_cannot_be_written_is_rejected_before_the_work():
    with pytest.raises(OutputError, match="cannot be written"):
        check_output("/proc/relexify/out")


def test_a_device_is_not_replaced_even_with_overwrite(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for file in (True, False):
        with pytest.raises(OutputError, match="is a device or a pipe"):
            check_output(tmp_path / "pipe", overwrite=True, file=file)


def test_an_existing_output_is_rejected_without_overwrite(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(OutputError, match="`overwrite`"):
        check_output(tmp_path / "out", file=True)
    assert check_output(tmp_path / "out", overwrite=True, file=True) == tmp_path / "out"
    (tmp_path / "empty").mkdir()
    assert check_output(tmp_path / "empty")


def test_a_folder_of_the_users_own_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("precious")
    with pytest.raises(OutputError, match="not written by relexify"):
        check_output(tmp_path / "thesis", overwrite=True)


def written(folder):
    with write_folder(folder) as beside:
        (beside / "logs").mkdir()
        (beside / "logs" / "1.txt").write_text("x")
        (beside / MARKER).write_text('{"method": "fvt"}')
    return folder


def test_the_marker_keeps_its_notes_and_lists_everything_written(tmp_path):
    notes = json.loads((written(tmp_path / "out") / MARKER).read_text())
    assert notes == {"method": "fvt", "files": ["logs", "logs/1.txt", "relexify.json"]}


@pytest.mark.parametrize("name", ["my-notes.txt", "logs/my-notes.txt", "sub/", ".hidden", ".my.notes.12.txt"])
def test_overwriting_stops_at_what_relexify_did_not_write_and_names_it(tmp_path, name):
    folder = written(tmp_path / "out")
    assert check_output(folder, overwrite=True)
    (folder / name).mkdir() if name.endswith("/") else (folder / name).write_text("dear")
    with pytest.raises(OutputError, match=rf"did not write \({re.escape(name.rstrip('/'))}\).*move them elsewhere"):
        check_output(folder, overwrite=True)
    with pytest.raises(OutputError), write_folder(folder, overwrite=True):
        pass
    assert (folder / name).exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"scripts": 1}', '{"files": 3}', '{"files": ["precious"]}'])
def test_a_folder_with_a_marker_that_relexify_did_not_write_is_never_replaced(tmp_path, content):
    (tmp_path / MARKER).write_text(content)
    (tmp_path / "precious").touch()
    with pytest.raises(OutputError, match="not written by relexify"):
        check_output(tmp_path, overwrite=True)


def test_a_file_that_is_recorded_may_be_replaced_and_so_may_its_temporaries(tmp_path):
    folder = written(tmp_path / "out")
    write_file(record_file(folder / "tasks.json"), "{}")
    (folder / f".tasks.json.{_machine()}.999999999.abcdefgh").touch()  # left by a killed run
    assert json.loads((folder / MARKER).read_text())["method"] == "fvt"
    assert check_output(folder, overwrite=True)


def test_an_internal_folder_is_replaced_whatever_it_contains(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "damaged").touch()
    with write_folder(tmp_path / "out", internal=True) as folder:
        (folder / "whole").touch()
    assert not (tmp_path / "out" / "damaged").exists()


def test_an_output_in_the_home_folder_is_not_written_to_a_folder_named_like_its_abbreviation(monkeypatch):
    monkeypatch.setenv("HOME", "/home/jane")
    with pytest.raises(OutputError, match=r"would be a folder named ~ .*: write /home/jane/model$"):
        check_output("~/model")


def test_an_output_that_is_or_contains_an_input_is_rejected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "wrap" / "in" / "text.txt"
    text.parent.mkdir(parents=True)
    text.write_text("one\ntwo\n")
    (tmp_path / "link").symlink_to("wrap")
    for given in (
        text,
        "wrap/in",
        "wrap/in/text.txt#field",
        "wrap/in/*.txt",
        "wrap/in/text.{en,de}",
        "link/in/text.txt",
        ["hf:name", None, (str(text),)],
        Corpus.open(text),
        Corpus.open(text).split(2)[0],
    ):
        for output in ("wrap", tmp_path / "wrap" / "in", "link"):
            with pytest.raises(OutputError, match="choose another output"):
                check_inputs(output, None, given)
        check_inputs(tmp_path / "other", given)
    with pytest.raises(OutputError, match=r"text\.txt"):
        check_inputs("wrap/in/text.txt", "wrap/in/*.txt")
    check_inputs(text, Corpus.from_lines(["wrap/in/text.txt"]))  # that is the text, not its name
    check_inputs("wrap", "gpt2", "hf:wrap")


@pytest.mark.parametrize(
    "text", ["texts", "link", "texts/**/*.txt", "link/*/*.txt", "texts/o*/*", "**", "texts/**/*.jsonl#body", "t*/**/*"]
)
def test_an_output_that_the_next_run_would_read_as_text_is_rejected(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("text")
    (tmp_path / "link").symlink_to("texts")
    with pytest.raises(OutputError, match=rf"texts/out would be read as text of {re.escape(text.partition('#')[0])}"):
        check_inputs("texts/out", "gpt2", texts=(None, [text]))
    check_inputs("elsewhere" if "t" in text else "../elsewhere", texts=(text,))


def test_an_output_beside_texts_and_in_the_folder_of_a_model_is_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("texts/en/train.txt", "texts/out/vocab.txt", "texts/ax/b.txt", "[texts]/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("text")
    texts = ("texts/*.txt", "texts/*", "texts/en", "texts/*/train.txt", "texts/**/en/*.txt", "[texts]", "hf:texts", "")
    check_inputs("texts/out", "texts", texts=texts)
    check_inputs("texts/ax/out", "texts/a*.txt")  # no name but those that match is an input
    check_inputs("texts/ax", "texts/a*.txt", texts=("texts/a*.txt",))


def test_overwriting_is_proposed_only_for_what_may_be_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="so it is not replaced"):
        check_output(tmp_path / "mine")
    with write_folder(tmp_path / "out") as folder:
        (folder / "file").write_text("x")
    with pytest.raises(OutputError, match=r"exists already.*`overwrite`"):
        check_output(tmp_path / "out")


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "link to nothing", "file"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_only_folders_are_replaced_by_folders_and_devices_and_pipes_by_nothing(tmp_path, kind, overwrite):
    path = tmp_path / "out"
    if kind == "file":
        path.write_text("dear")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe" if kind == "link to a pipe" else "nowhere")
    before = path.lstat().st_ino
    with pytest.raises(OutputError), write_folder(path, overwrite=overwrite):
        pass
    if kind != "file":
        with pytest.raises(OutputError):
            check_output(path, overwrite=overwrite, file=True)
    assert path.lstat().st_ino == before
    assert not list(tmp_path.glob(".out*"))


def test_a_folder_where_a_file_is_wanted_is_rejected_before_the_work(tmp_path):
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
    with pytest.raises(InputError, match="holds an unknown kind of safetensors file, but test is expected"):
        load_arrays(tmp_path / "x.safetensors", "test")


def test_a_device_is_not_hashed():
    with pytest.raises(InputError, match="not a regular file"):
        sha256_of("/dev/zero")


def test_the_hash_of_a_folder_depends_on_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    first = sha256_of(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert sha256_of(tmp_path) != first


@pytest.mark.parametrize("name", ["x" * 240, "\udcff", "a\0b"], ids=["long", "not UTF-8", "NUL"])
def test_a_name_that_cannot_be_written_is_rejected_before_any_work(tmp_path, name):
    with pytest.raises(OutputError, match="cannot be written"):
        check_output(tmp_path / name)


def test_a_document_of_a_model_inside_an_output_does_not_keep_the_output_from_being_replaced(tmp_path):
    with write_folder(tmp_path / "demo") as folder:
        (folder / "model").mkdir()
        (folder / "model" / MARKER).write_text('{"files": ["relexify.json"]}')
    write_file(record_file(tmp_path / "demo" / "model" / "report.html"), "a report")
    check_output(tmp_path / "demo", overwrite=True)
    (tmp_path / "demo" / "model" / "mine.txt").write_text("not relexify's")
    with pytest.raises(OutputError, match=r"did not write \(model/mine\.txt\)"):
        check_output(tmp_path / "demo", overwrite=True)


def test_processes_that_describe_one_output_at_once_list_all_files(tmp_path):
    with write_folder(tmp_path / "out") as folder:
        (folder / "model").touch()
    names = [f"{number}.md" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:  # each thread opens the folder by itself, so locks count as between processes
        list(pool.map(lambda name: record_file(tmp_path / "out" / name), names))
    listed = json.loads((tmp_path / "out" / MARKER).read_text())["files"]
    assert set(names) <= set(listed)


@pytest.mark.parametrize("name", [".", "inside/.."])
def test_an_output_that_cannot_be_renamed_to_is_rejected_before_any_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "current" / "inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "current" / "inside" if name == "." else tmp_path / "current")
    for check in (check_output, lambda path: WorkFolder(path, "training").check()):
        with pytest.raises(OutputError):
            check(Path(name))
