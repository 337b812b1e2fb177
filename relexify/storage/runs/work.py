"""Work folders: where a run keeps unfinished work, and how it finds finished work again.

    work = WorkFolder(output, "training", identity, overwrite=overwrite)
    if work.is_finished():                       # the output is already the result of this run
        work.clear()
        return load(output)
    with work.claim():                           # OUTPUT.training is ours: same identity, no other process
        grafted = work.step("grafted", lambda folder: save_graft(folder))   # once, complete or absent
        ...                                      # checkpoints and anything else below work.path
        with work.finish() as folder:            # OUTPUT appears complete, or not at all
            save(folder)

If the process is killed, the same command resumes from whatever is already there. `identity` is everything that the
result depends on; a folder that belongs to another run is rejected (`claims.py`).
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.storage.files import MARKER, check_output, is_temporary, is_written, write_file, write_folder
from relexify.storage.fingerprint import describe, fingerprint
from relexify.storage.locks import LOCK_FILE, only_one
from relexify.storage.notes import FINISHED, REVISIONS, finished_run, output_notes, read_notes
from relexify.storage.revisions import changed_revisions, check_revisions
from relexify.storage.runs.claims import RUN_FILE, check_claim, claim_folder, write_identity

__all__ = ["WorkFolder", "is_intermediate"]

_ATTEMPTS = 10
"""How often to try to create a folder that other processes keep removing."""

logger = logging.getLogger(__name__)


class WorkFolder:
    """The unfinished work of one run, beside its output.

    Attributes:
        output: The folder that the run writes in the end.
        path: `OUTPUT.NAME`, which exists until the output is complete.
        identity: Everything that the result depends on, as plain data.
        revisions: Those of the code that makes the result, see `relexify.storage.revisions`.
        overwrite: Whether an older output, and unfinished work of another run, may be replaced.
    """

    def __init__(
        self,
        output: str | Path,
        name: str,
        identity: Mapping[str, object] | None = None,
        *,
        revisions: Mapping[str, int] | None = None,
        overwrite: bool = False,
    ) -> None:
        self.output = Path(output)
        named = self.output.resolve() if self.output.name in ("", "..") else self.output
        self.path = named.with_name(f"{named.name}.{name}")
        self.identity: dict[str, Any] = describe(identity or {})
        self.revisions = dict(revisions or {})
        self.overwrite = overwrite
        self._name = name

    def identify(self, identity: Mapping[str, object]) -> None:
        """Set the identity, for a run that validates its output before it reads its inputs."""
        self.identity = describe(identity)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the identity."""
        return fingerprint(self.identity)

    @property
    def finished_notes(self) -> dict[str, Any]:
        """The notes by which `is_finished` recognises the output, for a run whose output another function writes."""
        return self._notes({})

    def is_finished(self) -> bool:
        """Whether the output is already the result of this run."""
        return self._is_result() and not self.made_by_others()

    def made_by_others(self) -> str:
        """Say which other version made the output, as the end of a sentence; empty if this one would make the same."""
        return changed_revisions(self._revisions_before(), self.revisions) if self._is_result() else ""

    def check(self) -> None:
        """Validate, before any work, that the output can be written later.

        Raises:
            OutputError: It exists and may not be replaced, or cannot be written.
        """
        if not self.overwrite and self._is_result():
            check_revisions(self.output, self._revisions_before(), self.revisions)
        check_output(self.output, overwrite=self.overwrite or self.is_finished())

    def check_claim(self) -> None:
        """Validate, before any work, that `claim` will not be rejected.

        Raises:
            InputError: The work folder belongs to another run and may not be replaced.
        """
        if not self.overwrite:
            check_claim(self.path, self._claimed)

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Create the folder, or resume the work in it, and keep other processes out of it.

        Raises:
            InputError: It belongs to another run and may not be replaced, or another process is using it.
        """
        try:
            check_claim(self.path, self._claimed)
        except InputError:
            if not self.overwrite or not (self.path / RUN_FILE).exists():
                raise
        _make_folder(self.path)
        with only_one(self.path):
            # The identity is written under the lock, and checked again: another process may have come in between.
            try:
                claim_folder(self.path, self._claimed)
            except InputError as error:
                if not self.overwrite:
                    raise
                logger.warning("%s; removing it", str(error).partition(";")[0])
                write_file(self.path / RUN_FILE, "{}\n")  # if killed now, no run takes what is left for its own
                self._remove_work()
                write_identity(self.path, self._claimed)
            yield

    def step(self, name: str, make: Callable[[Path], Any]) -> Path:
        """Return the folder of an intermediate result; fill it unless an earlier run did.

        Args:
            name: The name of the folder inside the work folder.
            make: Fills an empty folder, which then appears under its name at once.
        """
        folder = self.path / name
        if not is_written(folder):
            with write_folder(folder, internal=True) as beside:
                make(beside)
        return folder

    @contextmanager
    def finish(self, notes: Mapping[str, Any] | None = None) -> Iterator[Path]:
        """Yield an empty folder to fill; on success it becomes the output, and the work folder is removed.

        Args:
            notes: What `relexify.json` says about the result, besides which run it is the result of.
        """
        # An older result of the same run may always be replaced.
        with write_folder(self.output, overwrite=self.overwrite or self.is_finished()) as folder:
            yield folder
            _write_notes(folder, self._notes({**read_notes(folder), **(notes or {})}))
        self.clear()

    def mark_finished(self) -> None:
        """Record in an output that another run wrote that this run is finished too, and remove the work folder."""
        if not self.is_finished():
            _write_notes(self.output, self._notes(read_notes(self.output)))
        self.clear()

    def clear(self) -> None:
        """Remove the work folder, if it is one."""
        if (self.path / RUN_FILE).exists():
            # The identity is removed late: if the process is killed, or something cannot be removed, the folder must
            # still be recognised as ours. The lock is removed last: it keeps other processes out until then.
            with suppress(OSError):  # another process may have claimed the folder once the lock was gone
                self._remove_work()
                for name in (RUN_FILE, LOCK_FILE):
                    (self.path / name).unlink(missing_ok=True)
                self.path.rmdir()

    def _remove_work(self) -> None:
        """Remove everything from the folder but its identity and its lock.

        Raises:
            OSError: Something cannot be removed.
        """
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name not in (RUN_FILE, LOCK_FILE):
                entry.unlink(missing_ok=True)

    @property
    def _claimed(self) -> dict[str, Any]:
        return {**self.identity, REVISIONS: self.revisions} if self.revisions else self.identity

    def _is_result(self) -> bool:
        return finished_run(self.output, self._name) == self.fingerprint

    def _revisions_before(self) -> object:
        """Return the revisions that the output was made with, as they were read."""
        before = output_notes(self.output).get(REVISIONS)
        return before.get(self._name) if isinstance(before, dict) else None

    def _notes(self, notes: Mapping[str, Any]) -> dict[str, Any]:
        """Return notes together with the run that they belong to."""
        marked = {**notes, FINISHED: {**notes.get(FINISHED, {}), self._name: self.fingerprint}}
        if self.revisions:
            marked[REVISIONS] = {**notes.get(REVISIONS, {}), self._name: self.revisions}
        return marked


def is_intermediate(folder: str | Path) -> bool:
    """Whether a folder is inside the unfinished work of a run, where it does not stay."""
    path = Path(folder).absolute()
    # `WorkFolder.claim` makes folders with a lock; those of `claimed` stay, and have none.
    return any(
        is_temporary(each) or all((each / name).is_file() for name in (RUN_FILE, LOCK_FILE))
        for each in (path, *path.parents)
    )


def _make_folder(path: Path) -> None:
    """Create a folder unless it exists, also while other processes remove it or the one that contains it.

    `mkdir` raises an error if the folder existed when it was to be created, but no longer when that was checked.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(FileExistsError, FileNotFoundError):
            path.mkdir(parents=True, exist_ok=True)
            return
    path.mkdir(parents=True, exist_ok=True)


def _write_notes(folder: Path, notes: dict[str, Any]) -> None:
    write_file(folder / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
