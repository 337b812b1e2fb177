"""The cache returns what was made, rebuilds what is corrupt, and never stops a run."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from relexify.errors import InputError
from relexify.storage.cache import cache_folder, cached, cached_folder, has_entries


class Maker:
    """Counts how often a result was made."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> list[int]:
        self.calls += 1
        return [1, 2]


def save(result: list[int], folder: Path) -> None:
    (folder / "list.json").write_text(json.dumps(result))


def load(folder: Path) -> list[int]:
    found = json.loads((folder / "list.json").read_text())
    if not isinstance(found, list):
        raise InputError("this is not a list")
    return found


def test_a_result_is_made_once_for_each_key(cache: Path):
    make = Maker()
    for key in ("a", "a", "b"):
        assert cached("numbers", key, make=make, save=save, load=load) == [1, 2]
    assert make.calls == 2
    assert has_entries("numbers")
    assert not has_entries("letters")


@pytest.mark.parametrize("content", [b"[1, 3]", b"", b"[1, 2] "])
def test_a_corrupt_entry_is_rebuilt(cache: Path, content: bytes, caplog: pytest.LogCaptureFixture):
    make = Maker()
    cached("numbers", "a", make=make, save=save, load=load)
    (file,) = cache.rglob("list.json")
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert cached("numbers", "a", make=make, save=save, load=load) == [1, 2]
    assert make.calls == 2
    assert "the cached numbers is corrupt; rebuilding it" in caplog.text
    assert cached("numbers", "a", make=make, save=save, load=load) == [1, 2]
    assert make.calls == 2


def test_an_entry_with_invalid_content_or_without_checksums_is_rebuilt(cache: Path):
    make = Maker()
    cached("numbers", "a", make=make, save=lambda _, folder: (folder / "list.json").write_text("{}"), load=lambda _: [])
    assert cached("numbers", "a", make=make, save=save, load=load) == [1, 2]
    next(cache.rglob("entry.json")).unlink()
    assert cached("numbers", "a", make=make, save=save, load=load) == [1, 2]
    assert make.calls == 3


def test_an_unwritable_cache_costs_a_warning_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "file" / "cache"))
    make = Maker()
    with caplog.at_level(logging.WARNING):
        assert cached("numbers", "a", make=make, save=save, load=load) == [1, 2]
        folder = cached_folder("numbers", "b", lambda folder: save([3], folder))
    assert load(folder) == [3]
    assert "RELEXIFY_CACHE" in caplog.text


@pytest.mark.parametrize("reason", ["unreadable", "no home"])
def test_a_cache_that_cannot_be_looked_into_costs_a_warning_and_not_the_run(
    reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")  # of a user whom the system does not list

    if reason == "no home":
        monkeypatch.setattr(Path, "home", home)
        for name in ("RELEXIFY_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("relexify.storage.cache.NO_CACHE", Path("/proc/nowhere"))  # root could write the real one
    else:
        monkeypatch.setenv("RELEXIFY_CACHE", "/x" * 3_000)  # an error of the system, as in a folder of another user
    make = Maker()
    with caplog.at_level(logging.WARNING):
        assert cached("numbers", "a", make=make, save=save, load=load) == [1, 2]
        folder = cached_folder("numbers", "b", lambda folder: save([3], folder))
    assert load(folder) == [3]
    assert "set RELEXIFY_CACHE" in caplog.text


def test_a_cache_in_the_home_folder_may_be_named_as_a_shell_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RELEXIFY_CACHE", "~/results")
    assert cache_folder() == Path.home() / "results"


def test_a_folder_is_written_once(cache: Path):
    calls = []
    for _ in range(2):
        folder = cached_folder("numbers", "a", lambda folder: calls.append(save([4], folder)))
        assert load(folder) == [4]
    assert len(calls) == 1
    assert folder.is_relative_to(cache_folder())


def test_an_error_while_making_leaves_no_entry(cache: Path):
    def fail() -> list[int]:
        raise InputError("no evidence")

    with pytest.raises(InputError, match="no evidence"):
        cached("numbers", "a", make=fail, save=save, load=load)
    assert not has_entries("numbers")


def test_an_entry_with_notes_of_its_own_is_intact(cache: Path, caplog: pytest.LogCaptureFixture):
    def write(folder: Path) -> None:
        save([4], folder)
        (folder / "relexify.json").write_text('{"note": 1}')

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            folder = cached_folder("models", "a", write)
    assert load(folder) == [4]
    assert "corrupt" not in caplog.text


def test_an_entry_that_nests_too_many_lists_is_rebuilt(cache: Path):
    make = Maker()
    for name in ("entry.json", "list.json"):
        cached("numbers", "a", make=make, save=save, load=load)
        (file,) = cache.rglob(name)
        file.write_text("[" * 100_000)
        assert cached("numbers", "a", make=make, save=save, load=load) == [1, 2]
    assert make.calls == 3
