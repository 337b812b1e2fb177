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
from relexify.storage.documents import write_documents
from relexify.storage.files import ensure_written, record_file, write_file
from relexify.storage.notes import read_notes

__all__ = ["push"]

logger = logging.getLogger(__name__)


def push(folder: str | Path, repository: str, *, private: bool = False) -> str:
    """Upload a model with its card and its report to the Hub, as one commit.

    The token is that of `hf auth login`, or `HF_TOKEN`. A graft is checked first.

    Args:
        folder: A folder that `transfer`, `train` or another verb wrote.
        repository: Its name on the Hub, `USER/NAME`; it is created if it does not exist.
        private: Whether a new repository is private.

    Returns:
        The address of the commit.

    Raises:
        InputError: The folder is another one, or holds a broken graft, or `repository` is not the name of one.
        OutputError: The Hub rejects the upload, or cannot be reached.
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
    write_documents(folder)
    # Others load it by this name, not by that of the folder.
    card = render_card(folder, repository)
    write_file(record_file(folder / CARD), card)
    if "graft" in notes and not re.search(r"^language:", card, re.MULTILINE):
        logger.warning("the model card names no language: transfer with `language=CODE`, or edit it on the Hub")
    api = HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository, folder_path=folder, commit_message="Upload a model written by relexify"
        )
    except Exception as error:  # of huggingface_hub, or of the HTTP library that its version uses
        raise OutputError(
            f"{folder} could not be uploaded to {repository} ({first_line(error)}): check the name, log in with "
            "`hf auth login`, and try again"
        ) from error
    return str(commit.commit_url)
