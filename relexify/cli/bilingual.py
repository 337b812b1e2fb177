"""`relexify bilingual` and `relexify export`: two languages in one model, and one of them out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from relexify.cli.console import results
from relexify.cli.progress import bars
from relexify.cli.summary import print_curve, print_effort
from relexify.cli.training_options import (
    MEASURING,
    PLAN,
    TEXT,
    EvaluateEvery,
    HeldOutBytes,
    Length,
    MicroBatch,
    Overwrite,
    Peak,
    SaveEvery,
    Seed,
    Steps,
)
from relexify.systems.bilingual.options import RAMEN

__all__ = ["bilingual", "export"]


def bilingual(
    source: Annotated[str, typer.Argument(help="The model of the first language: a folder, a Hub name, smollm2-135m.")],
    target: Annotated[str, typer.Argument(help="The same with a new language, such as relexify transfer wrote.")],
    output: Annotated[Path, typer.Argument(help="The folder to write; checkpoints lie in OUTPUT.training until then.")],
    corpus: Annotated[list[str], typer.Option(help="Text in TARGET's language. Repeatable.", rich_help_panel=TEXT)],
    source_corpus: Annotated[
        list[str], typer.Option(help="Text in SOURCE's language. Repeatable.", rich_help_panel=TEXT)
    ],
    held_out: Annotated[
        list[str] | None, typer.Option(help="To measure on; else one line in 100 of --corpus.", rich_help_panel=TEXT)
    ] = None,
    source_held_out: Annotated[
        list[str] | None, typer.Option(help="Likewise for SOURCE's language.", rich_help_panel=TEXT)
    ] = None,
    source_language: Annotated[str, typer.Option(help="What to call it.", rich_help_panel=TEXT)] = "source",
    target_language: Annotated[str, typer.Option(help="What to call it.", rich_help_panel=TEXT)] = "target",
    steps: Steps = RAMEN.steps,
    batch: Annotated[
        int, typer.Option(help="Sequences a step, half of each language.", rich_help_panel=PLAN)
    ] = RAMEN.batch,
    length: Length = RAMEN.length,
    learning_rate: Peak = RAMEN.learning_rate,
    warmup: Annotated[
        float, typer.Option(help="Share of the steps with a rising rate.", rich_help_panel=PLAN)
    ] = RAMEN.warmup,
    optimiser: Annotated[
        str, typer.Option(help="lookahead (around Adam), or adamw, which takes less memory.", rich_help_panel=PLAN)
    ] = RAMEN.optimiser,
    evaluate_every: EvaluateEvery = None,
    held_out_bytes: HeldOutBytes = None,
    patience: Annotated[
        int | None,
        typer.Option(help="Stop after so many measurements without a better mean.", rich_help_panel=MEASURING),
    ] = None,
    save_every: SaveEvery = None,
    micro_batch: MicroBatch = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Join SOURCE and TARGET into one model of two languages with one encoder, and train both languages together.

    Half of every batch is of each language, so that the first is not forgotten. Stopped, the same command goes on.

    Example: relexify bilingual bert-base-cased bert-swahili bert-en-sw --corpus swahili.txt --source-corpus english.txt
    """
    from relexify.systems.bilingual.training import train_bilingual

    options = replace(
        RAMEN,
        steps=steps,
        batch=batch,
        length=length,
        learning_rate=learning_rate,
        warmup=warmup,
        optimiser=optimiser,
        evaluate_every=evaluate_every,
        held_out_bytes=held_out_bytes,
        patience=patience,
        save_every=save_every,
        micro_batch=micro_batch,
        seed=seed,
    )
    with bars():
        result = train_bilingual(
            source,
            target,
            output,
            corpus,
            source_corpus,
            options,
            languages=(source_language, target_language),
            held_out=held_out or None,
            source_held_out=source_held_out or None,
            overwrite=overwrite,
        )
    print_curve(result.curve, result.selected)
    print_effort(result)
    results.print(f"\nThe model is in [bold]{escape(str(result.output))}[/]")


def export(
    model: Annotated[
        Path, typer.Argument(help="A folder that relexify bilingual wrote, or trelm with separate vocabularies.")
    ],
    language: Annotated[str, typer.Argument(help="One of its languages.")],
    output: Annotated[Path, typer.Argument(help="The folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output folder.")] = False,
) -> None:
    """Write one language of a bilingual MODEL as an ordinary model with its tokenizer, which needs no relexify.

    A model of relexify trelm keeps its TRILayer, and loses the vocabulary of the other language.

    Example: relexify export bert-en-sw sw bert-sw
    """
    from relexify.pretrained.languages import export_language
    from relexify.storage.files import check_inputs, check_output

    check_inputs(output, model)
    check_output(output, overwrite=overwrite)
    export_language(model, language, output, overwrite=overwrite)
    results.print(f"The model is in [bold]{escape(str(output))}[/]")
