"""`relexify compress` and `relexify expand`: an embedding as a few small tables or as two factors, and back."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relexify.cli.console import emit
from relexify.cli.options import (
    Model,
    OutputFolder,
    Overwrite,
    Seed,
    Settings,
    apply_settings,
    check_model,
    option,
    say_loading,
)
from relexify.cli.progress import bars
from relexify.cli.summary import print_commands, print_model_folder, print_rows

if TYPE_CHECKING:
    from relexify.systems.compression.compress import CompressionReport

__all__ = ["compress", "expand"]


def compress(
    model: Model,
    output: OutputFolder,
    k: Annotated[int, typer.Option(help="Number of tables, and digits of a code.")] = 3,
    clusters: Annotated[
        int | None, option("Rows per table, M (default: the k-th root of the vocabulary size).")
    ] = None,
    equal_size: Annotated[
        bool, typer.Option("--equal-size", help="Bound the cluster size, so that no table needs more than M rows.")
    ] = False,
    codes: Annotated[
        Literal["clustered", "digits", "random"],
        typer.Option(help="How tokens get their codes: k-means on the embedding, digits of the token id, or random."),
    ] = "clustered",
    init: Annotated[
        Literal["least-squares", "random"],
        typer.Option(help="Initial tables: the best approximation of the embedding, or random."),
    ] = "least-squares",
    rank: Annotated[
        int | None,
        option("Instead of tables, write two factors of this rank: coordinates of every token and a common basis."),
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    settings: Settings = None,
) -> None:
    """Replace the embedding of MODEL, and its tied head, by K small tables, and write that to OUTPUT.

    Every token gets a code of K digits, and each digit selects a row of its table: 50,000 tokens need 3 tables of 37
    rows. The inner parameters are unchanged. Continue with relexify train to recover quality.

    Example: relexify compress gpt2-swahili gpt2-swahili-small --k 3 --clusters 100 --equal-size

    Example: relexify compress gpt2-swahili gpt2-swahili-small --rank 200
    """
    from relexify.storage.files import check_output
    from relexify.systems.compression.options import Compression, check_values

    options = Compression(k=k, clusters=clusters, codes=codes, equal_size=equal_size, init=init, rank=rank, seed=seed)
    options = apply_settings("compress", options, settings)
    check_values(options)
    check_model(options.codes_from)
    check_output(output, model, overwrite=overwrite)
    say_loading()
    from relexify.systems.compression.folder import compress_folder

    with bars():
        report = compress_folder(model, output, options, overwrite=overwrite)
    _print_report(report)
    print_model_folder(output)
    command = f"relexify train {shlex.quote(str(output))} OUTPUT --corpus TEXT"
    print_commands("Next, train it to recover quality:", [command])
    emit(output=output, compression=report)


def expand(model: Model, output: OutputFolder, overwrite: Overwrite = False) -> None:
    """Write a compressed MODEL as an ordinary one with a row per token; its logits stay the same.

    Example: relexify expand gpt2-swahili-small gpt2-swahili-plain
    """
    from relexify.storage.files import check_output

    check_output(output, model, overwrite=overwrite)
    say_loading()
    from relexify.systems.compression.folder import expand_folder

    expand_folder(model, output, overwrite=overwrite)
    print_model_folder(output)
    emit(output=output)


def _print_report(report: CompressionReport) -> None:
    lexical = "embedding" if report.head == "plain" else "embedding and head"
    sizes = [["parameters", "before", "after", "saved"]]
    for name, before, after in (
        (lexical, report.embedding_before, report.embedding_after),
        ("whole model", report.model_before, report.model_after),
    ):
        sizes.append([name, f"{before:,}", f"{after:,}", f"{1 - after / before:.2%}"])
    print_rows(f"{report.tokens:,} tokens", sizes)
    has_tables = report.shared_nearest is not None
    shapes = ", ".join(f"{rows} × {width}" for rows, width in report.shapes)
    error = "random tables" if report.error is None else f"{report.error:.4f}"
    quality = [
        ["measure", "value"],
        ["tables" if has_tables else "factors", shapes],
        ["relative error of the rows (0: exact, 1: as far off as zeros)", error],
    ]
    if has_tables:
        quality.append(["digits shared with the nearest token", f"{report.shared_nearest:.3f}"])
        quality.append(["digits shared with a random token", f"{report.shared_random:.3f}"])
    print_rows("Quality of the approximation", quality)
