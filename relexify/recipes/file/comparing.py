"""What a comparison trains side by side, and how a recipe file says it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from relexify.errors import InputError
from relexify.methods.registry import METHODS
from relexify.recipes.file.paths import Place
from relexify.recipes.file.values import choose, convert_fields
from relexify.training.plan import PLANS

__all__ = ["RUNS", "Comparing", "Run", "method_names", "read_comparing"]


@dataclass(frozen=True)
class Run:
    """One initialisation and how it is trained, inside a comparison.

    Attributes:
        name: What tables, figures and folders call it.
        method: One of `METHODS`.
        plan: One of `PLANS`.
    """

    name: str
    method: str
    plan: str = "direct"


RUNS: Mapping[str, Run] = MappingProxyType(
    {
        run.name: run
        for run in (
            *(Run(name, name) for name in METHODS),
            Run("transinner", "random", "embeddings-first"),
            Run("transinner-shuffle", "shuffle", "embeddings-first"),
            Run("wechsel-frozen", "wechsel", "embeddings-first"),
            Run("blend-frozen", "blend", "embeddings-first"),
            Run("ramen-frozen", "ramen", "embeddings-first"),
        )
    }
)
"""Runs that a comparison can call by name."""


@dataclass(frozen=True)
class Comparing:
    """What is trained side by side.

    Attributes:
        runs: What to compare; no two have the same name.
        seeds: Every run is repeated with each of them.
        subsamples: Bytes. Every run is repeated on a part of the corpus of about each of these sizes, with tokenizer
            and vectors trained on the same part; where there are none, all of the corpus is used.
        keep_models: Keep the trained models, not their scores alone.
    """

    runs: tuple[Run, ...]
    seeds: tuple[int, ...] = (0,)
    subsamples: tuple[int, ...] = ()
    keep_models: bool = False


_RUN_NAME = re.compile(r"\w[\w.+-]*")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?b)", re.IGNORECASE)
_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def read_comparing(table: object, place: Place) -> Comparing:
    """Read the table `[compare]`; runs may be called by name, and sizes have units.

    Raises:
        InputError: A key is unknown or missing, a value is of another type, or a run is unknown or named twice.
    """
    if isinstance(table, dict):
        names, sizes = table.get("runs"), table.get("subsamples")
        spelled = {}
        if isinstance(names, list):
            spelled["runs"] = [_spelled_run(run, place.below("runs").at(index)) for index, run in enumerate(names)]
        if isinstance(sizes, list):
            there = place.below("subsamples")
            spelled["subsamples"] = [_bytes(size, there.at(index)) for index, size in enumerate(sizes)]
        table = table | spelled
    comparing = Comparing(**convert_fields(table, Comparing, place))
    for index, run in enumerate(comparing.runs):
        _check_run(run, place.below("runs").at(index))
    _check_lists(comparing, place)
    return comparing


def method_names() -> tuple[str, ...]:
    """All that `Run.method` may be."""
    return tuple(METHODS)


def _check_lists(comparing: Comparing, place: Place) -> None:
    """Refuse lists that are empty, that repeat themselves, or that hold impossible numbers."""
    given: Mapping[str, Sequence[Any]] = {
        "runs": [run.name for run in comparing.runs],
        "seeds": comparing.seeds,
        "subsamples": comparing.subsamples,
    }
    for name, items in given.items():
        if not items and name != "subsamples":
            raise InputError(f"{place.below(name)} is an empty list: name at least one")
        twice = next((item for index, item in enumerate(items) if item in items[:index]), None)
        if twice is not None:
            raise InputError(f"{place.below(name)} has {twice!r} twice: change one, or leave it out")
    for name, least in (("seeds", 0), ("subsamples", 1)):
        if min(given[name], default=least) < least:
            raise InputError(f"{place.below(name)} has {min(given[name])}: give {least} or more")


def _spelled_run(run: object, place: Place) -> object:
    """A run that is called by name, as a table."""
    return asdict(RUNS[choose(run, RUNS, place, "run")]) if isinstance(run, str) else run


def _check_run(run: Run, place: Place) -> None:
    choose(run.method, method_names(), place.below("method"), "method")
    choose(run.plan, PLANS, place.below("plan"), "training plan")
    if not _RUN_NAME.fullmatch(run.name):
        raise InputError(f"{place.below('name')} is {run.name!r}, which names no folder: use letters, digits, '-', '.'")


def _bytes(size: object, place: Place) -> object:
    """A size such as `"16 MiB"`, as a number of bytes."""
    if not isinstance(size, str):
        return size
    found = _SIZE.fullmatch(size.strip())
    if not found:
        raise InputError(f"{place} is {size!r}: give bytes as a number, or a size such as '16 MiB' or '1.5 GB'")
    return round(float(found[1]) * _UNITS[found[2].lower()])
