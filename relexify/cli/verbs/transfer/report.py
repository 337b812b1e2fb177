"""`relexify report`: one HTML file that shows a model or a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.markup import escape

from relexify.cli.console import emit, results
from relexify.cli.options import written

__all__ = ["report"]


def report(
    folder: Annotated[Path, written("A folder written by relexify transfer, train, run or compare.")],
) -> None:
    """Write FOLDER/report.html: sentences under both tokenizers, scores, curves, evidence and an atlas of all tokens.

    Commands that write a model or a comparison write its report too. The file opens in a browser without a network.

    Example: relexify report gpt2-swahili
    """
    from relexify.reports.html import report as write_report

    path = write_report(folder)
    results.print(f"The report is in [bold]{escape(str(path))}[/]", soft_wrap=True)
    emit(report=path)
