"""`relexify demo`: move a real model to an invented language in a few minutes."""

from __future__ import annotations

import logging
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from relexify.cli.console import console, emit, results
from relexify.cli.options import Overwrite, check_model
from relexify.cli.progress import bars
from relexify.cli.summary import print_commands, print_rows
from relexify.progress import format_duration

if TYPE_CHECKING:
    from relexify.recipes.demo import DemonstrationResult

__all__ = ["demo"]

MODEL, STEPS = "smollm2-135m", 6


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for text, dictionary, model and report.")
    ] = Path("demo"),
    model: Annotated[str, typer.Option(help="The model to transfer.", callback=check_model)] = MODEL,
    steps: Annotated[int, typer.Option(help="Training steps per initialisation.")] = STEPS,
    seed: Annotated[int, typer.Option(help="Random seed; another seed invents another language.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Move a real model to an invented language, offline, and compare initialisations.

    Every word of English text that ships with Python is replaced by an invented word. So the true dictionary is known:
    the default, which sees a part of it, is compared with random embeddings and with an oracle that sees all of it.
    """
    from dataclasses import replace

    from relexify.storage.files import check_output
    from relexify.training.options import Training
    from relexify.training.plan import plan_stages

    check_output(output, model, overwrite=overwrite)
    plan_stages(Training(steps=steps, seed=seed))
    start = time.monotonic()
    takes = " On two free cores, this takes about four minutes." if (model, steps) == (MODEL, STEPS) else ""
    console.print(
        "A real model learns an invented language twice, from random embeddings and from those of the default method, "
        f"with {steps} training steps each.{takes}",
        highlight=False,
    )
    from relexify.recipes.demo import Demonstration, run_demonstration

    options = Demonstration(output=output, model=model, seed=seed, overwrite=overwrite)
    options = replace(options, training=replace(options.training, steps=steps))
    with bars():
        logger = logging.getLogger("relexify")
        if logger.level == logging.INFO:
            logger.setLevel(logging.ERROR)  # bars and reported lines suffice; the same warnings come for every run
        result = run_demonstration(options, report=lambda text: console.print(f"· {escape(text)}"))
    _print_result(result)
    console.print(f"The demo took {format_duration(time.monotonic() - start)}.", highlight=False)
    emit(
        output=result.output,
        original=result.original,
        oracle=result.oracle,
        curves=result.comparison.curves,
        prompt=result.prompt,
        before=result.before,
        after=result.after,
    )


def _print_result(result: DemonstrationResult) -> None:
    samples = {"Prompt": result.prompt, "Before training": result.before, "After training": result.after}
    results.print("\n[bold]What the model writes[/], and below it the same word by word in English")
    for name, sample in samples.items():
        results.print(f"[bold]{name}[/]\n  {escape(sample.text)}\n  {escape(sample.gloss)}", highlight=False)
    rows = [["embeddings", "before training", "after"], ["original model and tokenizer", f"{result.original:.3f}", ""]]
    for name, (curve,) in result.comparison.curves.items():
        rows.append([name, f"{curve.first.bits_per_byte:.3f}", f"{curve.last.bits_per_byte:.3f}"])
    rows.append(["oracle: blend, with the whole dictionary", f"{result.oracle:.3f}", ""])
    steps = max(curve.last.step for (curve,) in result.comparison.curves.values())
    print_rows(
        f"Bits per byte of held-out text, {steps} steps of {result.comparison.step_size} tokens (lower is better)", rows
    )
    (random,), (blend,) = result.comparison.curves.values()
    if blend.first.bits_per_byte < random.last.bits_per_byte:
        results.print(f"Random embeddings need more than {steps} steps to be as good as blend is before training.")
    folder = escape(str(result.output))
    results.print(f"Curves and scores: [bold]{folder}/report.html[/] (curves.svg, comparison.md)", soft_wrap=True)
    results.print(f"The model and where its tokens come from: [bold]{folder}/model/report.html[/]", soft_wrap=True)
    inspect = shlex.join(["relexify", "inspect", str(result.output / "model")])
    print_commands("Next:", [inspect, "relexify transfer --help"])
