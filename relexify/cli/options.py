"""Options that several verbs share, each defined once, and what their values mean."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from relexify.cli.console import console
from relexify.device import resolve_device, validate_device
from relexify.errors import InputError

if TYPE_CHECKING:
    from relexify.text import TextOption

__all__ = [
    "METHOD",
    "PLAN",
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
    "apply_settings",
    "check_model",
    "check_texts",
    "chosen_device",
    "existing",
    "named_model",
    "option",
    "say_loading",
    "split_languages",
    "written",
]

AnyOptions = TypeVar("AnyOptions")

logger = logging.getLogger(__name__)

TEXT, METHOD, PLAN, RUN = "Text and evidence", "Method", "Training", "Run"
"""Panels of the help."""


def option(
    help: str, panel: str | None = None, *names: str, callback: Callable[[str | None], str | None] | None = None
) -> Any:
    """Return an option whose default is not shown: none is needed, or its help describes it.

    Args:
        help: What it does.
        panel: The panel of the help that lists it.
        names: Its names, if they do not follow from that of the parameter.
        callback: Validates its value, before anything is imported.
    """
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, callback=callback)


def _check_existing(path: Path) -> Path:
    if not path.exists():
        from relexify.storage.files import missing_file

        raise missing_file(path)
    return path


def _check_output_folder(path: Path) -> Path:
    from relexify.pretrained.files.packaged import PACKAGED
    from relexify.storage.files import ensure_written

    ensure_written(path if str(path) in PACKAGED else _check_existing(path))
    return path


def check_model(name: str | None) -> str | None:
    """Validate, without slow imports, that a model exists if one is named, and return its name."""
    from relexify.pretrained.names import check_name

    return None if name is None else check_name(name)


def _check_device(name: str) -> str:
    validate_device(name)
    return name


def existing(help: str) -> Any:
    """Return an argument that names a folder or a file, rejected before slow imports if it does not exist."""
    return typer.Argument(help=help, show_default=False, callback=_check_existing)


def written(help: str) -> Any:
    """Return an argument that names an output folder, rejected before slow imports if relexify did not write it."""
    return typer.Argument(help=help, show_default=False, callback=_check_output_folder)


def named_model(help: str) -> Any:
    """Return an argument that names a model, rejected before slow imports if there is no such model."""
    return typer.Argument(help=help, show_default=False, callback=check_model)


Model = Annotated[
    str,
    named_model("A model folder, a Hub name, or smollm2-135m (SmolLM2-135M-Instruct, dequantised from 4 bits)."),
]
OutputFolder = Annotated[Path, typer.Argument(help="The folder to write.", show_default=False)]
OutputFile = Annotated[Path, typer.Option("--output", "-o", help="The file to write.", show_default=False)]
Recipe = Annotated[
    Path, typer.Argument(help="A recipe: a TOML file, or a name that `relexify recipes` lists.", show_default=False)
]

Corpus = Annotated[
    list[str],
    option(
        "Text in the target language: .txt, .gz, .xz, .bz2, .zst, .jsonl, .parquet, a folder, a URL, or hf:NAME; "
        "FILE#FIELD names another field than text. Repeatable.",
        TEXT,
    ),
]
SourceCorpus = Annotated[list[str] | None, option("Text in the model's own language. Repeatable.", TEXT)]
HeldOut = Annotated[
    list[str] | None,
    option("Held-out text to score on, 1,000 bytes or more (default: one line in 100 of --corpus). Repeatable.", TEXT),
]
SourceHeldOut = Annotated[
    list[str] | None,
    option("Held-out text in the model's own language (default: one line in 100 of --source-corpus).", TEXT),
]
Bitext = Annotated[
    list[str] | None,
    option(
        "Parallel text, the model's language first: two columns separated by a tab, or two files of equal "
        "length as 'news.{en,sw}'. Repeatable.",
        TEXT,
    ),
]
Dictionary = Annotated[
    Path | None,
    option(
        "Bilingual dictionary: word and translation separated by a tab or space (MUSE, Wiktionary), FreeDict "
        "dictd or TEI. Without one, words spelled identically in both languages are used. Concatenate several into one "
        "file.",
        TEXT,
    ),
]
SourceVectors = Annotated[
    Path | None,
    option(
        "Word vectors of the model's language (.bin, .vec, .safetensors); default: trained on "
        "--source-corpus, or derived from the model's embedding.",
        TEXT,
    ),
]
TargetVectors = Annotated[
    Path | None, option("Word vectors of the target language; default: trained on --corpus.", TEXT)
]
TargetTokenizer = Annotated[str | None, option("Tokenizer of the target language; default: trained on --corpus.", TEXT)]
Donor = Annotated[
    str | None, option("A model of the target language, for the methods clp and omp; its tokenizer is used.", TEXT)
]
VocabularySize = Annotated[int, typer.Option(help="Size of the target vocabulary.", rich_help_panel=METHOD)]
Languages = Annotated[
    str, typer.Option(metavar="SOURCE,TARGET", help="Names of the two languages.", rich_help_panel=TEXT)
]

Steps = Annotated[int, typer.Option(help="Optimiser steps.", rich_help_panel=PLAN)]
Batch = Annotated[
    int,
    typer.Option(
        help="Sequences per step, over all devices; with the default plan, fewer if there is little text.",
        rich_help_panel=PLAN,
    ),
]
Length = Annotated[int, typer.Option(help="Tokens per sequence.", rich_help_panel=PLAN)]
LearningRate = Annotated[float | None, typer.Option(help="Peak learning rate.", rich_help_panel=PLAN)]
Patience = Annotated[
    int | None, option("Stop after this many evaluations without improvement, and keep the best model.", PLAN)
]

Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.", rich_help_panel=RUN, callback=_check_device)]
Seed = Annotated[int, typer.Option(help="Random seed.", rich_help_panel=RUN)]
Overwrite = Annotated[bool, option("Replace the output.", RUN, "--overwrite")]
DryRun = Annotated[bool, option("Validate everything, show what would be done, and exit.", RUN, "--dry-run")]
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


def apply_settings(table: str, options: AnyOptions, settings: Sequence[str] | None) -> AnyOptions:
    """Return options changed by `--set`, and let messages spell the keys that it takes.

    Args:
        table: The recipe table that the options belong to, such as `training`; keys may begin with it.
        options: A dataclass.
        settings: The values of `--set`.

    Raises:
        InputError: A setting is malformed, a key is unknown, or a value is invalid.
    """
    from relexify.recipes.file.settings import apply_settings as apply

    console.option_names = replace(console.option_names, table=table)
    return apply(table, options, settings)


def chosen_device(name: str) -> str:
    """Return the device to use, as `resolve_device`, and log that its import of torch takes a while."""
    say_loading()
    return resolve_device(name)


def say_loading() -> None:
    """Log that torch and transformers are about to be imported, which takes seconds; nothing if they are already."""
    if "torch" not in sys.modules:
        logger.info("loading torch and transformers")


_MOST_COMPARED = 50_000_000
"""Bytes of held-out text from which on it is read once the work has begun only, because that takes seconds."""


def check_texts(*languages: tuple[TextOption | None, TextOption | None]) -> None:
    """Validate texts before slow imports; each pair is text to train on, and held-out text.

    Raises:
        InputError: A text cannot be read or is empty, or is both, also as a copy if the held-out text is small enough.
    """
    from relexify.text import Corpus

    for text, held_out in languages:
        opened, measured = (Corpus.open(each).ensure_text() if each else None for each in (text, held_out))
        if opened is not None and measured is not None:
            opened = opened.ensure_not_held_out(measured)
            if (measured.size() or _MOST_COMPARED) < _MOST_COMPARED:
                opened.without(measured).ensure_text()


def split_languages(names: str) -> tuple[str, str]:
    """Return the two names of `--languages`.

    Raises:
        InputError: There are not two of them.
    """
    source, _, target = names.partition(",")
    if not source or not target or "," in target:
        raise InputError(f"--languages {names!r} does not name two languages: write them as en,sw")
    return source, target
