"""The table `[compare]` of a recipe: the runs that are trained side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

from relexify.methods.parts.vector_alignment import AlignedBy
from relexify.methods.registry import METHODS
from relexify.recipes.file.mistakes import InvalidValue
from relexify.recipes.file.schema import Check, Convert, FolderName
from relexify.registry import choose
from relexify.training.plan import PLANS

__all__ = ["RUNS", "CompareOptions", "Run"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?b)", re.IGNORECASE)
_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@dataclass(frozen=True)
class Run:
    """One variant of the recipe inside a comparison.

    Attributes:
        name: Its name in tables, figures and folders.
        method: The initialisation; default: as in `[transfer]`.
        plan: The training plan; default: as in `[training]`.
        without: Evidence of the recipe that its method is not given, such as `bitext`.
        aligned_by: Vector alignment; default: as in `[transfer]`.
        changes: Further keys that differ from the recipe, by table: `{"compress": {"k": 2}}`.
    """

    name: FolderName
    method: Annotated[str | None, METHODS] = None
    plan: Annotated[str | None, PLANS] = None
    without: tuple[str, ...] = ()
    aligned_by: AlignedBy | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


RUNS: Mapping[str, Run] = MappingProxyType(
    {
        run.name: run
        for run in (
            *(Run(name, name) for name in METHODS),
            *(Run(f"{name}-direct", name, "direct") for name in METHODS),
            Run("transinner", "random", "embeddings-first"),
            Run("transinner-shuffle", "shuffle", "embeddings-first"),
            Run("wechsel-random-rotation", "wechsel", aligned_by="random"),
            Run("wechsel-frozen", "wechsel", "embeddings-first"),
            Run("blend-frozen", "blend", "embeddings-first"),
            Run("ramen-frozen", "ramen", "embeddings-first"),
        )
    }
)
"""Runs that a recipe can list by name."""


def _named_run(run: object) -> object:
    """Return a run that is given by name as a table."""
    if not isinstance(run, str):
        return run
    named = RUNS[choose(run, RUNS, "run")]
    return {name: value for name, value in asdict(named).items() if value}


def _parse_size(size: object) -> object:
    """Return a size such as `"16 MiB"` as a number of bytes."""
    if not isinstance(size, str):
        return size
    found = _SIZE.fullmatch(size.strip())
    if not found:
        raise InvalidValue(f"is {size[:80]!r}: give bytes as a number, or a size such as '16 MiB' or '1.5 GB'")
    return round(float(found[1]) * _UNITS[found[2].lower()])


def _check_distinct(
    items: tuple[Any, ...],
    *,
    least: int | None = None,
    most: int | None = None,
    may_be_empty: bool = False,
    name: Callable[[Any], Any] = lambda item: item,
) -> None:
    """Validate a list: not empty, nothing twice, no number below the least or above the most."""
    names: Sequence[Any] = [name(item) for item in items]
    if not names and not may_be_empty:
        raise InvalidValue("is an empty list: name at least one")
    twice = next((each for index, each in enumerate(names) if each in names[:index]), None)
    if twice is not None:
        raise InvalidValue(f"has {twice!r} twice: change one, or leave it out")
    if least is not None and names and min(names) < least:
        raise InvalidValue(f"has {min(names)}: give {least} or more")
    if most is not None and names and max(names) > most:
        raise InvalidValue(f"has {max(names)}: give {most} or less")


@dataclass(frozen=True)
class CompareOptions:
    """The runs of a comparison, and what they share.

    Attributes:
        runs: The runs to compare, with distinct names; a recipe may list those in `RUNS` by name.
        seeds: Every run is repeated with each of them.
        subsamples: Sizes in bytes: every run is repeated on a part of the corpus of about each size, with its own
            tokenizer and vectors. Default: the whole corpus.
        keep_models: Keep the trained models, not only their scores.
        tasks_at: Shares of the last training at which runs are evaluated on tasks: 0 is before any training, and if
            there are two, also between them; 1 is the end. Default: 0 and 1, or only 1 for models of several languages.
    """

    runs: Annotated[
        tuple[Annotated[Run, Convert(_named_run)], ...],
        Check(partial(_check_distinct, name=lambda run: run.name)),
    ]
    seeds: Annotated[tuple[int, ...], Check(partial(_check_distinct, least=0))] = (0,)
    subsamples: Annotated[
        tuple[Annotated[int, Convert(_parse_size)], ...],
        Check(partial(_check_distinct, least=1, may_be_empty=True)),
    ] = ()
    keep_models: bool = False
    tasks_at: Annotated[tuple[float, ...], Check(partial(_check_distinct, least=0, most=1))] | None = None
