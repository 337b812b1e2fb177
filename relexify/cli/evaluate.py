"""`relexify evaluate`: what a model is worth on held-out text."""

from __future__ import annotations

from typing import Annotated

import typer

from relexify.cli.console import results, table
from relexify.cli.device import chosen_device
from relexify.cli.progress import bars

__all__ = ["evaluate"]


def evaluate(
    model: Annotated[str, typer.Argument(help="A model folder, a Hub name, or smollm2-135m.")],
    held_out: Annotated[
        list[str], typer.Option(help="Text to measure on: .txt, .gz, .xz, .jsonl, …, or hf:NAME. Repeatable.")
    ],
    limit: Annotated[int, typer.Option(help="Measure on so many bytes of it.")] = 400_000,
    length: Annotated[int, typer.Option(help="Tokens the model sees at once.")] = 512,
    batch: Annotated[int, typer.Option(help="Windows at a time.")] = 8,
    one_at_a_time: Annotated[
        bool,
        typer.Option(
            "--one-at-a-time",
            help="Of a masked language model, mask one token alone: the exact pseudo-perplexity, many times slower.",
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
) -> None:
    """Measure bits per byte and perplexity of MODEL on held-out text.

    Bits per byte can be compared across tokenizers, perplexity cannot. Of a masked language model every token is
    predicted once, a seventh of them masked at a time, and the perplexity is a pseudo-perplexity.

    Example: relexify evaluate smollm2-swahili --held-out held.txt
    """
    from relexify.grafting import load_model, load_tokenizer
    from relexify.scoring import language_model_scores
    from relexify.scoring.windows import MASK_STRIDE
    from relexify.text import Corpus

    text = Corpus.open(held_out).sample_bytes(limit)
    place = chosen_device(device)
    with bars() as progress:
        scores = language_model_scores(
            load_model(model).to(place),
            load_tokenizer(model),
            text.splitlines(),
            window=length,
            batch=batch,
            mask_stride=None if one_at_a_time else MASK_STRIDE,
            progress=progress,
        )
    shown = table("Language modelling (lower is better)", "measure", "value", "measured on")
    for score, unit in zip(scores, ("bytes", "tokens"), strict=True):
        shown.add_row(score.metric, f"{score.value:.4f}", f"{score.examples:,} {unit}")
    results.print(shown)
