"""Claims: which run a folder with unfinished work belongs to.

`run.json` in such a folder is the identity of its run: everything that the result depends on. The same run resumes
there; another run is rejected, with a message that names the first value that differs. A `WorkFolder` (`work.py`) is
locked while it is claimed, and removed in the end. A folder whose results stay, such as the seeds of a task, is claimed
with `claimed`, and locked as long as a process works in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from relexify.errors import InputError
from relexify.storage.files import is_temporary, write_file, writing_failed
from relexify.storage.fingerprint import describe
from relexify.storage.json import read_json
from relexify.storage.locks import LASTING_LOCK_FILE, LOCK_FILE, only_one
from relexify.storage.notes import REVISIONS
from relexify.storage.revisions import changed_revisions

__all__ = ["RUN_FILE", "check_claim", "claim_folder", "claimed", "restart_advice", "write_identity"]

RUN_FILE = "run.json"
"""The file with the identity of the run that a folder belongs to."""
_CONTENTS = {
    "model": "model",
    "tokenizer": "tokenizer",
    "corpus": "text (`corpus`)",
    "text": "text (`corpus`)",
    "held_out": "held-out text (`held_out`, `held_out_bytes`)",
    "pairs": "parallel text (`bitext`)",
}
"""Inputs that are compared by content: their key in an identity, and their name in messages."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ONLY_STAGE = re.compile(r"(?P<table>(\w+\.)*)stages\[0\]\.(?P<key>steps|learning_rate)")


@contextmanager
def claimed(folder: Path, identity: Mapping[str, object], revisions: Mapping[str, int]) -> Iterator[None]:
    """Claim a folder whose results stay, for this process alone; after an error without results, release the claim.

    Args:
        folder: The folder with finished results and unfinished work.
        identity: Everything that the results depend on.
        revisions: Revisions of the code that makes the results, see `relexify.storage.revisions`.

    Raises:
        InputError: The folder belongs to another run or contains files that relexify did not write, or another process
            is working in it.
        OutputError: The folder cannot be written.
    """
    claim = {**identity, REVISIONS: dict(revisions)}
    check_claim(folder, claim)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise writing_failed(folder, error, "choose another output") from error
    is_readable_only = (folder / RUN_FILE).exists() and not os.access(folder, os.W_OK)  # finished results can be read
    # The lock keeps another process from removing checkpoints that this one needs, and from releasing its claim.
    with nullcontext() if is_readable_only else only_one(folder, file=LASTING_LOCK_FILE):
        try:
            claim_folder(folder, claim)
            yield
        except Exception:
            for entry in folder.iterdir():
                if entry.is_dir():
                    with suppress(OSError):
                        entry.rmdir()  # only if it is empty
            if {entry.name for entry in folder.iterdir()} == {RUN_FILE, LASTING_LOCK_FILE}:
                (folder / RUN_FILE).unlink()
            raise
        finally:
            if not is_readable_only:
                (folder / LASTING_LOCK_FILE).unlink(missing_ok=True)


def claim_folder(folder: Path, identity: Mapping[str, object]) -> None:
    """Mark a folder as belonging to a run, or validate that it does.

    Raises:
        InputError: The folder belongs to another run, or contains files that relexify did not write.
    """
    check_claim(folder, identity)
    if not (folder / RUN_FILE).exists():
        write_identity(folder, identity)


def check_claim(folder: Path, identity: Mapping[str, object]) -> None:
    """Validate that a folder belongs to a run, or is empty.

    Raises:
        InputError: The folder belongs to another run, or contains files that relexify did not write.
    """
    path = folder / RUN_FILE
    before, here = read_json(path), json.loads(json.dumps(describe(identity)))
    if before is None and not path.exists():
        if _is_unused(folder):
            return
        if not path.exists():  # check again: another process may just have begun, and it writes its identity first
            raise InputError(
                f"{folder}, where unfinished work would go, contains files that relexify did not write: "
                "move them, or choose another output"
            )
    if before is None and (before := read_json(path)) is None:  # read again: another process may just have written it
        raise InputError(f"{path} is corrupt; {restart_advice(folder)}")
    if before == {} and here:
        raise InputError(f"{folder} holds work that was only partly removed; {restart_advice(folder)}")
    revisions = [each.pop(REVISIONS, {}) if isinstance(each, dict) else {} for each in (before, here)]
    if difference := _describe_difference(before, here):
        raise InputError(f"{folder} holds the unfinished work of another run{difference}; {restart_advice(folder)}")
    if changed := changed_revisions(*revisions):
        raise InputError(f"{folder} holds work of {changed}; {restart_advice(folder)}")


def write_identity(folder: Path, identity: Mapping[str, object]) -> None:
    """Write the identity of the run that a folder belongs to from now on."""
    write_file(folder / RUN_FILE, json.dumps(describe(identity), indent=1, sort_keys=True) + "\n")


def restart_advice(folder: Path) -> str:
    """Return the end of a message about unfinished work that cannot be resumed."""
    return f"choose another output, or delete {folder} to start again (with `overwrite`, it is deleted)"


def _is_unused(folder: Path) -> bool:
    """Whether a folder does not exist, or has at most the files that a process killed during its claim leaves."""
    entries: list[Path] = []
    with suppress(FileNotFoundError):  # the folder does not exist, or has just been removed
        entries = list(folder.iterdir())
    return all(entry.name in (RUN_FILE, LOCK_FILE, LASTING_LOCK_FILE) or is_temporary(entry) for entry in entries)


def _describe_difference(before: object, here: object) -> str:
    """Return how two identities differ, as the end of a sentence about the first run; empty if they are equal."""
    then, now = _leaves(before), _leaves(here)
    differing = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    if not differing:
        return ""
    # Name an option rather than content, because options change content: a length changes the held-out windows.
    options = [name for name in differing if not _is_content(name, then.get(name), now.get(name))]
    name = (options or differing)[0]
    key = name.removeprefix("tables.")  # the form of keys in recipes and in --set
    if not options:
        content = next((_CONTENTS[part] for part in key.split(".") if part in _CONTENTS), key)
        return f", whose {content} differs"
    if (single := _ONLY_STAGE.fullmatch(key)) and not any("stages[1]" in other for other in (*then, *now)):
        key = f"`{single['table']}{single['key']}`"  # with a single stage, name the option that the stage is built from
    return f": its {key} was {_abbreviate(then.get(name))}, here it is {_abbreviate(now.get(name))}"


def _leaves(value: object, name: str = "") -> dict[str, object]:
    """Flatten nested mappings and lists into single values by path."""
    if isinstance(value, dict):
        parts = {f"{name}.{key}" if name else str(key): each for key, each in value.items()}
    elif isinstance(value, list):
        parts = {f"{name}[{index}]": each for index, each in enumerate(value)}
    else:
        return {name: value}
    return {key: leaf for part, each in parts.items() for key, leaf in _leaves(each, part).items()}


def _is_content(name: str, *values: object) -> bool:
    """Whether a value of an identity tells a reader nothing: a hash, or one of several numbers about an input."""
    *tables, _ = re.split(r"[.\[]", name)
    return not _CONTENTS.keys().isdisjoint(tables) or any(_DIGEST.fullmatch(str(value)) for value in values)


def _abbreviate(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
