"""Atomic output: files and folders are complete or absent; existing ones are replaced only if relexify wrote them.

Every output is written next to its final path, flushed to disk and renamed, so a killed run leaves the previous output
or the new one, never a part of one. Temporary names begin with a dot and identify the machine and the process that own
them; the next run removes temporary files of processes that no longer run.
"""

from __future__ import annotations

import ctypes
import difflib
import errno
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from relexify.errors import InputError, OutputError, first_line
from relexify.storage.inputs import check_inputs
from relexify.storage.json import read_json
from relexify.storage.locks import locked_beside

__all__ = [
    "MARKER",
    "Provenance",
    "atomic_file",
    "check_output",
    "check_space",
    "check_written",
    "ensure_written",
    "format_size",
    "is_temporary",
    "is_written",
    "missing_file",
    "record_file",
    "recorded_sha256",
    "sha256_of",
    "sync_to_disk",
    "temporary_prefix",
    "write_file",
    "write_folder",
    "writing_failed",
]

MARKER = "relexify.json"
"""The file that marks a folder as written by relexify, with notes about its content.

The entry `files` lists everything that relexify wrote there; `documents` has the sha256 of each document, by name.
Checkpoints have no marker, but a seal.
"""
_FILES, _DOCUMENTS = "files", "documents"
_SPACE_ADVICE = "free some space, or choose another output"
_FOREIGN_AGE = 7 * 24 * 3600.0
"""Seconds after which a temporary file of another machine, whose processes cannot be checked, counts as abandoned."""
_TEMPORARY = re.compile(r"(?P<machine>[0-9a-f]{12})\.(?P<process>\d+)\.\w{8}")
"""The rest of a temporary name after `.NAME.`; it is specific, because `.model.1.0` may be a file of the user."""


@dataclass(frozen=True)
class Provenance:
    """Where an artifact comes from.

    Attributes:
        version: The version of relexify that wrote it.
        command: The options of the command.
        inputs: The sha256 of every input file, by name.
        seed: The random seed, if one was used.
        source: The provenance of the model that it was made from, as plain data, if relexify made that model too.
        revisions: Revisions of the code that made it, see `relexify.storage.revisions`; empty if they do not matter.
    """

    version: str
    command: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    source: Mapping[str, Any] | None = None
    revisions: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for json."""
        return {name: value for name, value in asdict(self).items() if name not in ("source", "revisions") or value}


def sha256_of(path: str | Path) -> str:
    """Return the sha256 of a file, or of the files of a folder with their names, in hex.

    Raises:
        InputError: The path is a device, which has no end, or a pipe, which can be read only once.
    """
    digest = hashlib.sha256()
    root = Path(path)
    files = sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]
    for file in files:
        if not file.is_file() and file.exists():
            raise InputError(f"{file} is not a regular file: write its content to one, because it is read repeatedly")
        if root.is_dir():
            digest.update(str(file.relative_to(root)).encode())
        with open(file, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def write_file(path: str | Path, content: bytes | str) -> Path:
    """Write a file atomically, creating its folder.

    Text is written in UTF-8. File names in it with bytes that are not UTF-8 are escaped as in JSON.
    """
    with atomic_file(path) as beside:
        beside.write_bytes(_encode(content) if isinstance(content, str) else content)
    return Path(path)


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file in the same folder; on success it becomes `path`, on failure it is removed."""
    path = Path(path)
    with _reported(path):
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        beside = _name_beside(path)
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL, 0o666))
        mode = stat.S_IMODE(beside.stat().st_mode)  # by the umask
        try:
            yield beside
            sync_to_disk(beside)
            os.chmod(beside, mode)  # safetensors replaces the file by one that only its owner can read
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_to_disk(path.absolute().parent)


@contextmanager
def write_folder(path: str | Path, *, overwrite: bool = False, internal: bool = False) -> Iterator[Path]:
    """Yield an empty folder to fill; on success it becomes `path`, on failure it is removed.

    Args:
        path: The folder to write. If it is a link to a folder, that folder is written, possibly on another disk.
        overwrite: Whether an existing output may be replaced; it stays until the new one is complete.
        internal: Whether the folder belongs to the cache or to unfinished work of a run; it is then always replaced.

    Raises:
        OutputError: The folder exists and may not be replaced, or it cannot be written.
    """
    path = _follow(path)
    _remove_leftovers(path)
    if internal:
        _check_writable(path)
    else:
        check_output(path, overwrite=overwrite)
    with _reported(path):
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        beside = _name_beside(path)
        beside.mkdir()
        mode = stat.S_IMODE(beside.stat().st_mode)  # by the umask
        try:
            yield beside
            # List all files of the folder in its marker; keep the notes if the caller has already written a marker.
            marker = beside / MARKER
            notes = json.loads(marker.read_text(encoding="utf-8")) if marker.exists() else {}
            marker.write_bytes(_encode(_marker_text(notes, [*_entries(beside), MARKER])))
            for entry in (beside, *beside.rglob("*")):
                if entry.is_dir() or entry.stat().st_nlink == 1:  # changing the mode of a hard link changes its source
                    os.chmod(entry, mode if entry.is_dir() else mode & 0o666)
                sync_to_disk(entry)
            _swap(beside, path)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_to_disk(path.absolute().parent)


def record_file(path: str | Path, *, sha256: str | None = None) -> Path:
    """Add a file that is about to be written into a finished output folder to the list of files in its marker.

    If the folder is part of another output, such as the model of the demonstration, it is added to that list too.

    Args:
        path: The file.
        sha256: The hash of its content, for `recorded_sha256`; None to record none.
    """
    path = Path(path)
    for folder in (path.parent, path.parent.parent):
        with locked_beside(folder):
            listed, name = _listed(folder), path.relative_to(folder).as_posix()
            is_part = folder == path.parent or path.parent.name in (listed or ())
            is_known = folder != path.parent or sha256 in (None, recorded_sha256(path))
            if listed is not None and is_part and not (name in listed and is_known):
                notes = json.loads((folder / MARKER).read_text(encoding="utf-8"))
                if not is_known:
                    notes[_DOCUMENTS] = {**notes.get(_DOCUMENTS, {}), name: sha256}
                write_file(folder / MARKER, _marker_text(notes, [*listed, name]))
    return path


def recorded_sha256(path: Path) -> str | None:
    """Return the hash of a file as `record_file` recorded it last; None if it did not."""
    notes = read_json(path.parent / MARKER)
    recorded = notes.get(_DOCUMENTS) if isinstance(notes, dict) else None
    found = recorded.get(path.name) if isinstance(recorded, dict) else None
    return found if isinstance(found, str) else None


def check_output(
    path: str | Path, *inputs: object, texts: Sequence[object] = (), overwrite: bool = False, file: bool = False
) -> Path:
    """Validate, before any work is done, that `path` can be written later.

    Args:
        path: The output.
        inputs: Inputs of the command, which the output must not replace, as for `check_inputs`.
        texts: As for `check_inputs`.
        overwrite: Whether an existing output may be replaced; a folder only if relexify wrote everything in it.
        file: Whether the output is a file rather than a folder.

    Raises:
        OutputError: The output exists and may not be replaced, or its parent folder cannot be written.
    """
    path = Path(path)
    if path.parts[:1] == ("~",):  # a shell expands ~, but Python, recipes and quoted words do not
        raise OutputError(f"{path} would be a folder named ~ in the current one: write {path.expanduser()}")
    check_inputs(path, *inputs, texts=texts)
    if path.is_dir() and file:
        raise OutputError(f"{path} is a folder: give the name of a file to write")
    if path.is_symlink() and not path.exists():
        raise OutputError(f"{path} is a link to nothing: remove it, or choose another output")
    # A check is needed, because root could replace even /dev/null.
    if path.exists() and not path.is_dir() and not (file and path.is_file()):
        kind = "file" if path.is_file() else "device or a pipe"
        raise OutputError(
            f"{path} is a {kind}, which is not replaced by a {'file' if file else 'folder'}: choose another output"
        )
    if path.is_dir() and any(path.iterdir()):
        check_written(path, _listed(path))  # checked first, because `overwrite` would not help
    if path.exists() and not overwrite and not (path.is_dir() and not any(path.iterdir())):
        raise OutputError(f"{path} exists already: choose another name, or replace it with `overwrite`")
    if path.name in ("", ".."):  # the system does not rename anything to these
        raise OutputError(f"{path} is not a name that can be replaced: give the name of a new folder")
    if os.path.ismount(_follow(path)):
        raise OutputError(f"{path} is a mount point, which cannot be replaced: choose a new folder inside it")
    _check_writable(_follow(path))
    return path


def check_space(path: str | Path, needed: float) -> None:
    """Validate, before any work is done, that the disk of an output has enough free space, if the system tells.

    Args:
        path: The output.
        needed: Bytes that the output takes at least.

    Raises:
        OutputError: The disk has less free space.
    """
    try:
        disk = shutil.disk_usage(next(folder for folder in _follow(path).absolute().parents if folder.exists()))
    except OSError:
        return
    if disk.free < needed and disk.total:  # some network file systems report 0 of 0
        sizes = format_size(needed), format_size(disk.free)
        raise OutputError(f"{path} needs about {sizes[0]}, but its disk has {sizes[1]} free: {_SPACE_ADVICE}")


def check_written(folder: Path, written: Iterable[str] | None) -> None:
    """Validate that everything in a folder was written by relexify, so that it may be removed.

    Args:
        folder: The folder.
        written: Names of files and folders, relative to it; None if unknown.

    Raises:
        OutputError: The folder contains other files, or it is unknown who wrote it.
    """
    if written is None:
        raise OutputError(
            f"{folder} was not written by relexify, so it is not replaced: choose another name, or remove it"
        )
    names = set(written)
    foreign = [name for name in _entries(folder) if name not in names and _final_name(name) not in names]
    if foreign:
        shown = ", ".join(foreign[:3]) + (", …" if len(foreign) > 3 else "")
        raise OutputError(
            f"{folder} contains files that relexify did not write ({shown}), so it is not replaced: "
            "move them elsewhere, or choose another name"
        )


def is_written(folder: Path) -> bool:
    """Whether relexify wrote a folder; such a folder is complete, because `write_folder` is atomic."""
    return (folder / MARKER).exists()


def ensure_written(folder: Path) -> None:
    """Validate that relexify wrote a folder that is to be read.

    Raises:
        InputError: relexify did not write the folder.
    """
    if not is_written(folder):
        raise InputError(f"{folder} was not written by relexify: give the output folder of transfer, train or compare")


def missing_file(path: Path) -> InputError:
    """Return the error that a file or folder does not exist; it suggests a similar name in the same folder."""
    if path.is_symlink():
        return InputError(f"{str(path)[:200]} is a link to nothing: name the file itself, or repair the link")
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        names = []
    # Prefer the same name with another ending: for en-sw.txt, suggest en-sw.tsv, not sw.txt, which is as similar.
    same = [name for name in names if _without_suffixes(name) == _without_suffixes(path.name)]
    close = difflib.get_close_matches(path.name, same, n=1, cutoff=0)
    # Compare names without endings, because equal endings alone make short names similar: nope.txt and copy.txt.
    similar = [name for name in names if _similarity(_without_suffixes(path.name), _without_suffixes(name)) >= 0.6]
    close = close or difflib.get_close_matches(path.name, similar, n=1, cutoff=0.75)
    hint = f"did you mean {str(path.with_name(close[0]))!r}?" if close else "check the name"
    return InputError(f"{str(path)[:200]} does not exist: {hint}")


def writing_failed(path: Path, error: Exception, advice: str) -> OutputError:
    """Return the error that a path could not be written; if the disk is full, it first advises to free space."""
    reason = getattr(error, "strerror", None) or first_line(error)
    if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in reason:  # safetensors gives no number
        advice = f"{_SPACE_ADVICE}; {advice}"
    return OutputError(f"{path} could not be written ({reason}): {advice}")


def format_size(bytes: float) -> str:
    """Return a number of bytes with a unit: `1.5 GB`, `20 kB`, `7 bytes`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if bytes >= size:
            return f"{bytes / size:,.{int(bytes < 10 * size)}f} {unit}"
    return f"{bytes:.0f} bytes"


def temporary_prefix(path: Path) -> str:
    """Return the prefix of temporary names next to `path`; it identifies the machine and process that own them."""
    return f".{path.name}.{_machine()}.{os.getpid()}."


def is_temporary(path: Path) -> bool:
    """Whether a name begins with a `temporary_prefix`."""
    return re.match(r"\..+\.[0-9a-f]{12}\.[0-9]+\.", path.name) is not None


def sync_to_disk(path: Path) -> None:
    """Flush a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _without_suffixes(name: str) -> str:
    """Return a file name without its endings, such as `.txt.xz`."""
    return name.removesuffix("".join(Path(name).suffixes))


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _follow(path: str | Path) -> Path:
    """Return the target of a link to a folder, possibly on another disk; any other path unchanged."""
    path = Path(path)
    return Path(os.path.realpath(path)) if path.is_symlink() and path.is_dir() else path


def _check_writable(path: Path) -> None:
    """Validate that a path can be created: its name, and the permissions of its parent folder."""
    try:
        os.fspath(path).encode()  # libraries that write into it accept only names in UTF-8
        existing = next(folder for folder in path.absolute().parents if folder.exists())
        with tempfile.TemporaryFile(dir=existing), suppress(FileNotFoundError):
            (existing / f"{temporary_prefix(path)}xxxxxxxx").lstat()  # fails if the name is too long
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{path} cannot be written ({reason}): choose another output") from error


def _name_beside(path: Path) -> Path:
    """Return a new temporary path. `tempfile` is not used, because it ignores the umask: only the owner could read."""
    return path.absolute().with_name(f"{temporary_prefix(path)}{secrets.token_hex(4)}")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _marker_text(notes: dict[str, Any], names: Iterable[str]) -> str:
    return json.dumps({**notes, _FILES: sorted(set(names))}, indent=2, ensure_ascii=False) + "\n"


def _listed(folder: Path) -> list[str] | None:
    """Return the names that a folder's marker lists; None if the folder has no valid marker."""
    notes = read_json(folder / MARKER)
    listed = notes.get(_FILES) if isinstance(notes, dict) else None
    valid = isinstance(listed, list) and MARKER in listed and all(isinstance(name, str) for name in listed)
    return listed if valid else None


def _entries(folder: Path) -> list[str]:
    """Return the names of all files and folders below a folder, relative to it."""
    return sorted(entry.relative_to(folder).as_posix() for entry in folder.rglob("*"))


def _final_name(name: str) -> str:
    """Return the final name of a temporary file of relexify; other names unchanged."""
    folder, _, last = name.rpartition("/")
    found = re.fullmatch(rf"\.(?P<name>.+?)\.{_TEMPORARY.pattern}", last)
    return name if found is None else f"{folder}/{found['name']}".lstrip("/")


def _swap(beside: Path, path: Path) -> None:
    """Move a finished folder to its final path, in one step if the operating system can replace a folder."""
    if not path.exists():
        os.replace(beside, path)
    elif _exchange(beside, path):
        _remove(beside)
    else:
        parked = Path(tempfile.mkdtemp(prefix=temporary_prefix(path), dir=path.absolute().parent))
        os.replace(path, parked / path.name)
        os.replace(beside, path)
        _remove(parked)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step (renameat2 of Linux); return False if that is not available."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(first), here, os.fsencode(second), swap) == 0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of killed runs next to an output; restore an output that such a run had moved away."""
    for leftover in path.absolute().parent.glob(f".{glob.escape(path.name)}.*.*"):
        owner = _TEMPORARY.fullmatch(leftover.name.removeprefix(f".{path.name}."))
        if owner is None or not _is_left_over(leftover, owner["machine"], int(owner["process"])):
            continue
        if (leftover / path.name).exists() and not path.exists():
            os.replace(leftover / path.name, path)
        _remove(leftover)


def _is_left_over(temporary: Path, machine: str, process: int) -> bool:
    if machine == _machine():
        return not _is_running(process)
    try:
        newest = max(entry.lstat().st_mtime for entry in (temporary, *temporary.rglob("*")))
    except OSError:  # another process is changing or removing it
        return False
    return time.time() - newest > _FOREIGN_AGE


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, for another user
        pass
    return True


def _machine() -> str:
    """Return 12 hex digits that identify host, boot and PID namespace, within which process ids are unique."""
    facts = [socket.gethostname()]
    with suppress(OSError):  # only Linux has these
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        facts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Raise errors of the operating system as `OutputError`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise writing_failed(path, error, "nothing was left behind") from error
