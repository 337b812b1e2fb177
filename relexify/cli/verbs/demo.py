"""`relexify demo`: move a real model to an invented language in a few minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from relexify.cli.console import console, emit, print_table, results, table
from relexify.cli.options import Overwrite
from relexify.cli.progress import bars

__all__ = ["demo"]


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for text, dictionary and model.")] = Path(
        "demo"
    ),
    model: Annotated[str, typer.Option(help="The model to transfer.")] = "smollm2-135m",
    steps: Annotated[int, typer.Option(help="Training steps per initialisation.")] = 10,
    seed: Annotated[int, typer.Option(help="Random seed; another seed invents another language.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Move a real model to an invented language, offline, and compare initialisations.

    Every word of English text that ships with Python is replaced by an invented word. So the true dictionary is known,
    and the best possible initialisation (the oracle) can be scored too.
    """
    from dataclasses import replace

    from relexify.recipes.demo import Demonstration, run_demonstration

    start = time.monotonic()
    options = Demonstration(output=output, model=model, seed=seed, overwrite=overwrite)
    options = replace(options, training=replace(options.training, steps=steps, evaluate_every=steps))
    with bars():
        result = run_demonstration(options, report=lambda text: console.print(f"· {escape(text)}"))
    results.print(f"\n[bold]English[/]   {escape(result.sample[0])}\n[bold]invented[/]  {escape(result.sample[1])}\n")
    shown = table(
        "Bits per byte of held-out text (lower is better)",
        "initialisation",
        "before training",
        f"after {result.steps} steps",
    )
    for name, value in result.before.items():
        after = result.after.get(name)
        shown.add_row(name, f"{value:.3f}", f"{after:.3f}" if after is not None else "")
    print_table(shown)
    results.print(f"Text, dictionary and the trained model are in [bold]{escape(str(result.output))}[/]")
    results.print(f"  relexify inspect {escape(str(result.output / 'model'))}", highlight=False)
    console.print(f"{time.monotonic() - start:.0f} seconds")
    emit(output=result.output, steps=result.steps, before=result.before, after=result.after)
