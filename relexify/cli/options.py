"""Options that several verbs share, each defined once, and what their values mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relexify.errors import InputError

__all__ = [
    "RUN",
    "TEXT",
    "Batch",
    "Bitext",
    "Corpus",
    "Device",
    "Dictionary",
    "Donor",
    "DryRun",
    "HeldOut",
    "Languages",
    "LearningRate",
    "Length",
    "Model",
    "OutputFile",
    "OutputFolder",
    "Overwrite",
    "Patience",
    "Recipe",
    "Seed",
    "Settings",
    "SourceCorpus",
    "SourceHeldOut",
    "SourceVectors",
    "Steps",
    "TargetTokenizer",
    "TargetVectors",
    "VocabularySize",
    "chosen_device",
    "split_languages",
]

TEXT, PLAN, RUN = "Text and evidence", "Training", "Run"
"""Panels of the help."""

Model = Annotated[
    str,
    typer.Argument(
        help="A model folder, a Hub name, or smollm2-135m (SmolLM2-135M-Instruct, dequantised from 4 bits).",
        show_default=False,
    ),
]
OutputFolder = Annotated[Path, typer.Argument(help="The folder to write.", show_default=False)]
OutputFile = Annotated[Path, typer.Option("--output", "-o", help="The file to write.", show_default=False)]
Recipe = Annotated[
    Path,
    typer.Argument(help="A recipe: a TOML file, or a name that `relexify recipes` lists.", show_default=False),
]

Corpus = Annotated[
    list[str],
    typer.Option(
        help="Text in the target language: .txt, .gz, .xz, .bz2, .zst, .jsonl, .parquet, a folder, a URL, or hf:NAME; "
        "FILE#FIELD names another field than text. Repeatable.",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
SourceCorpus = Annotated[
    list[str] | None,
    typer.Option(help="Text in the model's own language. Repeatable.", rich_help_panel=TEXT, show_default=False),
]
HeldOut = Annotated[
    list[str] | None,
    typer.Option(
        help="Held-out text to score on (default: one line in 100 of --corpus). Repeatable.",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
SourceHeldOut = Annotated[
    list[str] | None,
    typer.Option(
        help="Held-out text in the model's own language (default: one line in 100 of --source-corpus).",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
Bitext = Annotated[
    list[str] | None,
    typer.Option(
        help="Parallel text, the model's language first: two columns separated by a tab, or two files of equal "
        "length as 'news.{en,sw}'. Repeatable.",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
Dictionary = Annotated[
    Path | None,
    typer.Option(
        help="Bilingual dictionary: word and translation separated by a tab or space (MUSE, Wiktionary), FreeDict "
        "dictd or TEI. Without one, words spelled identically in both languages are used.",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
SourceVectors = Annotated[
    Path | None,
    typer.Option(
        help="Word vectors of the model's language (.bin, .vec, .safetensors); default: trained on "
        "--source-corpus, or derived from the model's embedding.",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
TargetVectors = Annotated[
    Path | None,
    typer.Option(
        help="Word vectors of the target language; default: trained on --corpus.",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
TargetTokenizer = Annotated[
    str | None,
    typer.Option(
        help="Tokenizer of the target language; default: trained on --corpus.",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
Donor = Annotated[
    str | None,
    typer.Option(
        help="A model of the target language, for the methods clp and omp; its tokenizer is used.",
        rich_help_panel=TEXT,
        show_default=False,
    ),
]
VocabularySize = Annotated[int, typer.Option(help="Size of the target vocabulary.", rich_help_panel="Method")]
Languages = Annotated[
    str, typer.Option(metavar="SOURCE,TARGET", help="Names of the two languages.", rich_help_panel=TEXT)
]

Steps = Annotated[int, typer.Option(help="Optimiser steps.", rich_help_panel=PLAN)]
Batch = Annotated[int, typer.Option(help="Sequences per step, over all devices.", rich_help_panel=PLAN)]
Length = Annotated[int, typer.Option(help="Tokens per sequence.", rich_help_panel=PLAN)]
LearningRate = Annotated[float | None, typer.Option(help="Peak learning rate.", rich_help_panel=PLAN)]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Stop after this many evaluations without improvement, and keep the best model.",
        rich_help_panel=PLAN,
        show_default=False,
    ),
]

Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.", rich_help_panel=RUN)]
Seed = Annotated[int, typer.Option(help="Random seed.", rich_help_panel=RUN)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output.", rich_help_panel=RUN)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Validate everything, show what would be done, and exit.", rich_help_panel=RUN)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any other option by its key in a recipe; `relexify options` lists them. Repeatable.",
        rich_help_panel=RUN,
        show_default=False,
    ),
]


def chosen_device(name: str) -> str:
    """Return the device to use; `auto` is a GPU if there is one.

    Raises:
        InputError: torch does not know the device, or it is not available.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda", "mps"):
            raise InputError(f"--device {name!r} cannot compute: use cpu, cuda or auto")
    except RuntimeError as error:
        raise InputError(f"--device {name!r} is not a device: use cpu, cuda or auto") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"--device {name} is not available: torch finds no GPU; use --device cpu")
    return name


def split_languages(names: str) -> tuple[str, str]:
    """Return the two names of `--languages`.

    Raises:
        InputError: There are not two of them.
    """
    source, _, target = names.partition(",")
    if not source or not target or "," in target:
        raise InputError(f"--languages {names!r} does not name two languages: write them as en,sw")
    return source, target
