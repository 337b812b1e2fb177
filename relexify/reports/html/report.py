"""Write the HTML report of an output folder."""

from __future__ import annotations

from pathlib import Path

from relexify.reports.comparison import Comparison
from relexify.reports.html.comparison import render_comparison
from relexify.reports.html.model import render_model
from relexify.reports.html.page import REPORT
from relexify.storage.documents import DOCUMENTS, write_document
from relexify.storage.files import ensure_written, write_file

__all__ = ["report"]


def report(folder: str | Path) -> Path:
    """Write `report.html` into the folder of a model or of a comparison, and return its path.

    The file contains everything that it shows, and the same folder gives the same bytes.

    Args:
        folder: A folder that `transfer`, `train`, `run` or `compare` wrote.

    Raises:
        InputError: It is another folder.
        OutputError: The report cannot be written.
    """
    folder = Path(folder)
    compared = folder / "comparison.json"
    if compared.is_file():
        return write_file(folder / REPORT, render_comparison(Comparison.load(compared)))
    ensure_written(folder)
    return write_document(folder / REPORT, render_model(folder))


DOCUMENTS.add(REPORT, render_model)
