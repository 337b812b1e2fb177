"""Upload an output folder to the Hub."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from huggingface_hub import HfApi

from relexify.errors import InputError, OutputError, first_line
from relexify.grafting import check
from relexify.pretrained.kinds import kind_of_folder
from relexify.reports.model_card import CARD, render_card
from relexify.storage.documents import is_edited, write_document, write_documents
from relexify.storage.files import MARKER, ensure_written
from relexify.storage.notes import Notes, read_notes

__all__ = ["push"]

_HIDDEN = (".*", "*/.*")
"""Patterns of hidden files, such as `.env` with a token, or a temporary file that a killed command left."""
_ABSOLUTE = re.compile(r"(?:/|[A-Za-z]:[\\/]).+")
"""An absolute path on Linux, macOS or Windows."""

logger = logging.getLogger(__name__)


def push(folder: str | Path, repository: str, *, private: bool = False, rewrite_card: bool = False) -> str:
    """Upload a model with its card and its report to the Hub, as one commit.

    The token comes from `hf auth login` or `HF_TOKEN`. A graft is checked first. A card that was edited since relexify
    wrote it is uploaded unchanged. Files that were added to the folder are uploaded too, except hidden ones.

    Args:
        folder: A folder that `transfer`, `train` or another verb wrote.
        repository: Its name on the Hub, `USER/NAME`; it is created if it does not exist.
        private: Whether a new repository is private.
        rewrite_card: Whether an edited card is replaced by the one that relexify writes.

    Returns:
        The address of the commit.

    Raises:
        InputError: The folder is another one, or holds a broken graft, or `repository` is not the name of one.
        OutputError: The card cannot be written, or the Hub rejects the upload or cannot be reached.
    """
    folder = Path(folder)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise InputError(f"{repository!r} is not the name of a repository: write it as USER/NAME")
    ensure_written(folder)
    notes = read_notes(folder)
    if "graft" in notes and kind_of_folder(folder) is None:
        for result in check(folder):
            if result.problems:
                raise InputError(f"{folder} is broken ({result.name}: {result.problems[0]}): see relexify check")
    if paths := _local_paths(notes):
        listed = ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")
        logger.warning(
            "%s and the report name files with their paths on this machine (%s): everybody who can see the repository "
            "can read them; to avoid this, run the transfer with relative paths",
            MARKER,
            listed,
        )
    card = _write_card(folder, repository, rewrite=rewrite_card)
    if "graft" in notes and not re.search(r"^language:", card, re.MULTILINE):
        logger.warning("the model card names no language: transfer with `language=CODE`, or edit %s", folder / CARD)
    api = HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            commit_message="Upload a model written by relexify",
            ignore_patterns=list(_HIDDEN),
        )
    except Exception as error:  # of huggingface_hub, or of the HTTP library that its version uses
        raise OutputError(
            f"{folder} could not be uploaded to {repository} ({first_line(error)}): check the name, log in with "
            "`hf auth login`, and try again"
        ) from error
    return str(commit.commit_url)


def _local_paths(notes: Notes) -> list[str]:
    """Return the absolute paths in the notes on how a folder was made, in alphabetical order."""
    found: set[str] = set()
    unread: list[object] = [notes.get("provenance"), notes.get("trained_from")]
    while unread:
        match unread.pop():
            case dict() as entries:
                unread += [*entries, *entries.values()]
            case list() as entries:
                unread += entries
            case str() as text if _ABSOLUTE.fullmatch(text):
                found.add(text)
    return sorted(found)


def _write_card(folder: Path, repository: str, *, rewrite: bool) -> str:
    """Write the documents of a model that is uploaded, and return its card; one that was edited is kept.

    Raises:
        OutputError: The card cannot be written.
        InputError: The card that was edited is not text in UTF-8.
    """
    path = folder / CARD
    write_documents(folder, leave_out=[CARD])
    if rewrite or not is_edited(path):
        # Others load it by this name, not by the name of the folder.
        card = render_card(folder, repository)
        try:
            write_document(path, card)
        except OutputError as error:
            raise OutputError(
                f"the model card, which names the repository, has to be written first, but {error}; make {folder} "
                "writable, or upload a copy of it"
            ) from error
        return card
    try:
        card = path.read_text(encoding="utf-8")
    except ValueError as error:
        raise InputError(f"{path} is not text in UTF-8: save it as UTF-8, or pass `rewrite_card`") from error
    logger.warning(
        "%s was edited since relexify wrote it, and is uploaded unchanged; to replace it by a new one, pass "
        "`rewrite_card`",
        path,
    )
    if repository not in card:
        logger.warning("%s does not contain %s, the name by which others load the model", path, repository)
    return card
