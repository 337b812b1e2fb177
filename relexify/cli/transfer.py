"""`relexify transfer`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from relexify.cli.console import results
from relexify.cli.device import chosen_device
from relexify.cli.progress import bars
from relexify.cli.summary import print_alignment, print_scores, print_tokens
from relexify.errors import InputError
from relexify.methods.registry import METHODS
from relexify.systems.transfer.options import DEFAULT_VOCABULARY, Transfer

__all__ = ["transfer"]

EVIDENCE, METHOD, RUN = "Evidence", "Method", "Run"


def transfer(
    model: Annotated[str, typer.Argument(help="A model folder, a Hub name, or smollm2-135m.")],
    output: Annotated[Path, typer.Argument(help="The folder to write; AutoModel and AutoTokenizer load it.")],
    corpus: Annotated[
        list[str],
        typer.Option(
            help="Text in the new language: .txt, .gz, .xz, .zst, .jsonl, .parquet, a folder, or hf:NAME; "
            "FILE#FIELD names another field than text. Repeatable.",
            rich_help_panel=EVIDENCE,
        ),
    ],
    dictionary: Annotated[
        Path | None,
        typer.Option(
            help="Word and translation: tab or space separated (MUSE, Wiktionary), FreeDict dictd or TEI. "
            "Without one, words written alike in both languages take its place.",
            rich_help_panel=EVIDENCE,
        ),
    ] = None,
    bitext: Annotated[
        list[str] | None,
        typer.Option(
            help="Parallel text, the model's language first: sentence and translation with a tab between them, or two "
            "files of equal length as 'news.{en,de}'. Repeatable.",
            rich_help_panel=EVIDENCE,
        ),
    ] = None,
    alignment: Annotated[
        Path | None,
        typer.Option(
            help="A ready alignment of --bitext (0-0 1-2 …); else eflomal makes one.", rich_help_panel=EVIDENCE
        ),
    ] = None,
    source_corpus: Annotated[
        list[str] | None,
        typer.Option(help="Text in the model's language, to train its word vectors on.", rich_help_panel=EVIDENCE),
    ] = None,
    source_vectors: Annotated[
        Path | None,
        typer.Option(help="Word vectors of the model's language: .bin, .vec, .safetensors.", rich_help_panel=EVIDENCE),
    ] = None,
    target_vectors: Annotated[
        Path | None,
        typer.Option(help="Word vectors of the new language; else trained on --corpus.", rich_help_panel=EVIDENCE),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="A ready tokenizer of the new language; else trained on --corpus.", rich_help_panel=EVIDENCE),
    ] = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="Text to score on; else one line in 100 of --corpus.", rich_help_panel=EVIDENCE),
    ] = None,
    rotation: Annotated[
        Path | None,
        typer.Option(help="A ready alignment of the vectors, as relexify align wrote it.", rich_help_panel=EVIDENCE),
    ] = None,
    aligned_by: Annotated[
        Literal["dictionary", "identical", "unsupervised"],
        typer.Option(
            help="What aligns the vectors: the dictionary, words written alike, or the shapes of the spaces alone.",
            rich_help_panel=EVIDENCE,
        ),
    ] = "dictionary",
    swapped: Annotated[
        bool, typer.Option("--swapped", help="The dictionary has the new language first.", rich_help_panel=EVIDENCE)
    ] = False,
    method: Annotated[
        str, typer.Option(help=f"One of {', '.join(sorted(METHODS))}; see relexify methods.", rich_help_panel=METHOD)
    ] = "blend",
    vocab_size: Annotated[
        int, typer.Option(help="Tokens of the new vocabulary.", rich_help_panel=METHOD)
    ] = DEFAULT_VOCABULARY,
    neighbours: Annotated[int, typer.Option(help="k: old tokens in a new one.", rich_help_panel=METHOD)] = 10,
    temperature: Annotated[float, typer.Option(help="τ of the softmax.", rich_help_panel=METHOD)] = 0.1,
    override: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET=SOURCE",
            help="Copy a token from an old one of your choice. Repeatable.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.", rich_help_panel=RUN)] = "auto",
    pad_to_multiple_of: Annotated[
        int | None, typer.Option(help="Round the rows of the embedding up.", rich_help_panel=RUN)
    ] = None,
    score: Annotated[bool, typer.Option(help="Measure bits per byte before training.", rich_help_panel=RUN)] = True,
    seed: Annotated[int, typer.Option(help="Of all that is random.", rich_help_panel=RUN)] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output folder.", rich_help_panel=RUN)
    ] = False,
) -> None:
    """Give MODEL a new language and write it to OUTPUT, ready to load and to train on.

    A tokenizer is trained on the text, word vectors of both languages are brought into one space, every new token is
    mixed from old ones, and the mixed embeddings are grafted onto the untouched inner parameters. Finished steps are
    kept: a run that was stopped goes on where it was.

    Example: relexify transfer smollm2-135m smollm2-swahili --corpus swahili.txt --source-corpus english.txt
    --dictionary en-sw.tsv
    """
    from relexify.systems.transfer.run import run_transfer

    recipe = Transfer(
        model=model,
        output=output,
        corpus=corpus,
        dictionary=dictionary,
        dictionary_swapped=swapped,
        bitext=bitext or None,
        alignment=alignment,
        rotation=rotation,
        aligned_by=aligned_by,
        method=method,
        tokenizer=tokenizer,
        vocab_size=vocab_size,
        source_vectors=source_vectors,
        target_vectors=target_vectors,
        source_corpus=source_corpus or None,
        held_out=held_out,
        neighbours=neighbours,
        temperature=temperature,
        overrides=_overrides(override or []),
        score=score,
        device=chosen_device(device),
        pad_to_multiple_of=pad_to_multiple_of,
        seed=seed,
        overwrite=overwrite,
    )
    with bars():
        result = run_transfer(recipe)
    print_tokens(result.graft.report.origins)
    print_alignment(result.rotation)
    print_scores(result.scores)
    results.print(f"\nThe model is in [bold]{escape(str(result.output))}[/]; look into it with:")
    results.print(f"  relexify inspect {escape(str(result.output))}", highlight=False)


def _overrides(pairs: list[str]) -> dict[str, str]:
    overrides = {}
    for pair in pairs:
        target, separator, source = pair.partition("=")
        if not (target and separator and source):
            raise InputError(f"--override {pair!r} is not of the form TARGET=SOURCE")
        overrides[target] = source
    return overrides
