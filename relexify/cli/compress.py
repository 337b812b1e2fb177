"""`relexify compress` and `relexify expand`: an embedding in a few small tables, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from relexify.cli.console import results, table
from relexify.cli.progress import bars

if TYPE_CHECKING:
    from relexify.systems.compression.compress import CompressionReport

__all__ = ["compress", "expand"]


def compress(
    model: Annotated[str, typer.Argument(help="A model folder, such as relexify transfer wrote; or a Hub name.")],
    output: Annotated[Path, typer.Argument(help="The folder to write; relexify loads it, and relexify expand.")],
    k: Annotated[int, typer.Option(help="Tables that a row of the embedding is put together from.")] = 3,
    clusters: Annotated[
        int | None, typer.Option(help="Rows of a table, M; by default the k-th root of the number of tokens.")
    ] = None,
    equal_size: Annotated[
        bool,
        typer.Option(
            "--equal-size",
            help="Bound the clusters, so that no table needs more than M rows; otherwise the last one may.",
        ),
    ] = False,
    codes: Annotated[
        Literal["clustered", "digits", "random"],
        typer.Option(help="Which tokens share rows: those that k-means finds alike, by counting, or by chance."),
    ] = "clustered",
    codes_from: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Cluster the embedding of this model, which has the same vocabulary."),
    ] = None,
    init: Annotated[
        Literal["least-squares", "random"],
        typer.Option(help="Tables that keep most of the embedding, or tables to be trained from the start."),
    ] = "least-squares",
    head: Annotated[
        Literal["keep", "compress"], typer.Option(help="What to do with a head that is not tied to the embedding.")
    ] = "keep",
    seed: Annotated[int, typer.Option(help="Of the clusters, and of random codes and tables.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output folder.")] = False,
) -> None:
    """Put the embedding of MODEL, and its tied head, together from K small tables, and write that to OUTPUT.

    Every token gets a code of K digits, and each digit picks a row of its own table: 50,000 tokens need 3 tables of 37
    rows. The inner parameters stay as they are. What is lost can be learnt again: relexify train goes on with it.

    Example: relexify compress gpt2-swahili gpt2-swahili-small --k 3 --clusters 100 --equal-size
    """
    from relexify.systems.compression.compress import compress_folder
    from relexify.systems.compression.options import Compression

    options = Compression(k, clusters, codes, codes_from, equal_size, init, head, seed)
    with bars():
        report = compress_folder(model, output, options, overwrite=overwrite)
    _print_report(report)
    results.print(f"\nThe model is in [bold]{escape(str(output))}[/]; train it on with:", soft_wrap=True)
    results.print(f"  relexify train {escape(str(output))} OUTPUT --corpus TEXT", highlight=False, soft_wrap=True)


def expand(
    model: Annotated[str, typer.Argument(help="A folder that relexify compress or relexify train wrote.")],
    output: Annotated[Path, typer.Argument(help="The folder to write; AutoModel and AutoTokenizer load it.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output folder.")] = False,
) -> None:
    """Give a compressed MODEL a row for every token again, and write it to OUTPUT; its logits stay the same.

    Example: relexify expand gpt2-swahili-small gpt2-swahili-plain
    """
    from relexify.systems.compression.compress import expand_folder

    expand_folder(model, output, overwrite=overwrite)
    results.print(f"The model is in [bold]{escape(str(output))}[/]", soft_wrap=True)


def _print_report(report: CompressionReport) -> None:
    shown = table(f"{report.tokens:,} tokens in {len(report.shapes)} tables", "parameters", "before", "after", "saved")
    counts = {
        "embedding and head" if report.head != "plain" else "embedding": (
            report.embedding_before,
            report.embedding_after,
        ),
        "whole model": (report.model_before, report.model_after),
    }
    for name, (before, after) in counts.items():
        shown.add_row(name, f"{before:,}", f"{after:,}", f"{1 - after / before:.2%}")
    results.print(shown)
    kept = table("What is kept", "measure", "value")
    kept.add_row("tables", ", ".join(f"{rows} × {width}" for rows, width in report.shapes))
    kept.add_row("relative error of the rows", "random tables" if report.error is None else f"{report.error:.4f}")
    kept.add_row("digits shared with the nearest token", f"{report.shared_nearest:.3f}")
    kept.add_row("digits shared with a token at random", f"{report.shared_random:.3f}")
    results.print(kept)
