"""`relexify train`: continue the training of a model in its new language."""

from __future__ import annotations

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
    RUN,
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
from relexify.training.plan import PLANS, Training

__all__ = ["train"]


def train(
    model: Annotated[str, typer.Argument(help="A model folder, such as relexify transfer wrote; or a Hub name.")],
    output: Annotated[Path, typer.Argument(help="The folder to write; checkpoints lie in OUTPUT.training until then.")],
    corpus: Annotated[
        list[str],
        typer.Option(
            help="Text to learn from: .txt, .gz, .xz, .zst, .jsonl, .parquet, a folder, or hf:NAME; "
            "FILE#FIELD names another field than text. Repeatable.",
            rich_help_panel=TEXT,
        ),
    ],
    held_out: Annotated[
        list[str] | None,
        typer.Option(help="Text to measure on; else one line in 100 of --corpus.", rich_help_panel=TEXT),
    ] = None,
    steps: Steps = Training.steps,
    batch: Annotated[
        int, typer.Option(help="Sequences a step, over all devices.", rich_help_panel=PLAN)
    ] = Training.batch,
    length: Length = Training.length,
    learning_rate: Peak = Training.learning_rate,
    plan: Annotated[
        str,
        typer.Option(help="; ".join(f"{name}: {each.summary}" for name, each in PLANS.items()), rich_help_panel=PLAN),
    ] = Training.plan,
    evaluate_every: EvaluateEvery = None,
    held_out_bytes: HeldOutBytes = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many measurements without a better one, and keep the best model.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    save_every: SaveEvery = None,
    micro_batch: MicroBatch = None,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 where a GPU has it.", rich_help_panel=RUN)
    ] = Training.precision,
    compile: Annotated[
        bool | None,
        typer.Option(help="Compile the layers; if not said, on a GPU from 100 steps on.", rich_help_panel=RUN),
    ] = None,
    tensorboard: Annotated[
        bool | None, typer.Option(help="Log for TensorBoard; if it is installed, if not said.", rich_help_panel=RUN)
    ] = None,
    add_head: Annotated[
        bool,
        typer.Option(
            "--add-head", help="Put a new language-modelling head on a model without one.", rich_help_panel=RUN
        ),
    ] = False,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Train MODEL on and write it to OUTPUT, measured on held-out text along the way.

    Decoders learn to predict the next token, masked language models the masked ones. A run that was stopped, even with
    kill -9, goes on from its last checkpoint when the same command is given again, and ends with the same bits.
    Several GPUs: torchrun --nproc-per-node 4 -m relexify train …, or accelerate launch -m relexify train …

    Example: relexify train smollm2-swahili smollm2-swahili-trained --corpus swahili.txt --steps 5000
    """
    from relexify.errors import InputError
    from relexify.pretrained.heads import has_head
    from relexify.pretrained.loading import load_config, with_added_head
    from relexify.storage.files import check_inputs
    from relexify.training.plan import plan_stages
    from relexify.training.run import train as run_training

    options = Training(
        steps=steps,
        batch=batch,
        length=length,
        learning_rate=learning_rate,
        plan=plan,
        evaluate_every=evaluate_every,
        held_out_bytes=held_out_bytes,
        patience=patience,
        save_every=save_every,
        micro_batch=micro_batch,
        precision=precision,
        compile=compile,
        tensorboard=tensorboard,
        seed=seed,
    )
    plan_stages(options)
    check_inputs(output, model)  # with a new head, another folder is trained
    if not add_head and not has_head(config := load_config(model)):
        raise InputError(
            f"{model} is a {config.architectures[0]}, without a language-modelling head: "
            "pass --add-head to put a new one on it, which is trained from nothing"
        )
    with bars():
        result = run_training(
            with_added_head(model) if add_head else model,
            output,
            corpus,
            options,
            held_out=held_out or None,
            overwrite=overwrite,
        )
    print_curve(result.curve, result.selected)
    print_effort(result)
    results.print(f"\nThe model is in [bold]{escape(str(result.output))}[/]")
