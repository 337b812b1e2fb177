"""The steps of a run: each table of a recipe, such as `[transfer]` or `[training]`, is one step.

A system registers its step in its own package, and the runner (`relexify.recipes`) runs those that a recipe has, in
their order: each takes the model that the step before it wrote and writes a folder with the next one; the last one
writes the output. Steps are resumable: called again with the same arguments, a step continues or returns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.registry import Registry

if TYPE_CHECKING:
    from relexify.text import Corpus

__all__ = ["STEPS", "RunContext", "Step"]


@dataclass(frozen=True)
class RunContext:
    """What every step of a run may use.

    Attributes:
        source_model: The pretrained model that the run starts from: a folder, a Hub name or a packaged model.
        corpus: Text in the target language.
        held_out: Text to score on; if None, a part of the corpus is held out.
        tables: The options of all tables of the recipe, by name.
        device: Where to search and score; training uses what there is.
        overwrite: Whether an older output may be replaced.
    """

    source_model: str
    corpus: Corpus
    held_out: Corpus | None
    tables: Mapping[str, Any]
    device: str = "cpu"
    overwrite: bool = False


@dataclass(frozen=True)
class Step:
    """One step of a run.

    Attributes:
        table: The name of the recipe table.
        options: The dataclass of its options; the keys of the table are its fields.
        order: Steps run in ascending order.
        summary: What it does, in one line, for help and documentation.
        check: Validates the options before any work; raises `InputError`.
        run: Takes the options, the context, the model to start from and the folder to write; returns the result.
        inputs: Returns the files and folders that the options name, which an output must not replace.
    """

    table: str
    options: type[Any]
    order: int
    summary: str
    check: Callable[[Any, RunContext], None]
    run: Callable[[Any, RunContext, str, Path], Any]
    inputs: Callable[[Any], Sequence[Any]] = lambda options: ()


STEPS: Registry[Step] = Registry("recipe table")
"""The steps that a recipe may have, by table."""
