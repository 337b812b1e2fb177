"""Options that every verb which trains has in common."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "MEASURING",
    "PLAN",
    "RUN",
    "TEXT",
    "EvaluateEvery",
    "HeldOutBytes",
    "Length",
    "MicroBatch",
    "Overwrite",
    "Peak",
    "SaveEvery",
    "Seed",
    "Steps",
]

TEXT, PLAN, MEASURING, RUN = "Text", "Plan", "Measuring and keeping", "Run"

Steps = Annotated[int, typer.Option(help="Optimiser steps.", rich_help_panel=PLAN)]
Length = Annotated[int, typer.Option(help="Tokens a sequence.", rich_help_panel=PLAN)]
Peak = Annotated[float, typer.Option(help="The peak.", rich_help_panel=PLAN)]
EvaluateEvery = Annotated[
    int | None,
    typer.Option(help="Steps between two measurements; a twentieth of all by default.", rich_help_panel=MEASURING),
]
HeldOutBytes = Annotated[
    int | None,
    typer.Option(help="How much text to measure on; 400,000 on a GPU, else 40,000.", rich_help_panel=MEASURING),
]
SaveEvery = Annotated[
    int | None,
    typer.Option(help="Steps between two checkpoints; by default 3 % of the time.", rich_help_panel=MEASURING),
]
MicroBatch = Annotated[
    int | None, typer.Option(help="Sequences a device takes at once, where memory is short.", rich_help_panel=RUN)
]
Seed = Annotated[int, typer.Option(help="Of the order, masks and dropout.", rich_help_panel=RUN)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output folder.", rich_help_panel=RUN)]
