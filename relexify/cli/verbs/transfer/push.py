"""`relexify push`: upload a model to the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from relexify.cli.console import emit, results
from relexify.cli.options import written

__all__ = ["push"]


def push(
    model: Annotated[Path, written("A folder written by relexify transfer, or train.")],
    repository: Annotated[str, typer.Argument(help="Its name on the Hub: USER/NAME.", show_default=False)],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    rewrite_card: Annotated[
        bool,
        typer.Option("--rewrite-card", help="Write README.md again, without your edits."),
    ] = False,
) -> None:
    """Upload MODEL with its model card and its report to the Hub; a broken graft is rejected.

    Log in with `hf auth login` first, or set HF_TOKEN. README.md becomes public; read it first. Your edits are kept.

    Example: relexify push gpt2-swahili-trained jane/gpt2-swahili
    """
    from relexify.reports.push import push as upload

    commit = upload(model, repository, private=private, rewrite_card=rewrite_card)
    results.print(f"Uploaded: [bold]{escape(commit)}[/]", soft_wrap=True)
    emit(commit=commit)
