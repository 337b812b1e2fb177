"""What a grid tries: every pair of k and τ, and baselines beside them; impossible grids are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from relexify.errors import InputError
from relexify.evaluation.probing.probes import PairExample, TaggedWords
from relexify.methods.registry import METHODS
from relexify.scoring import Score
from relexify.systems.transfer.checks import validate_transfer
from relexify.systems.transfer.options import Transfer

__all__ = ["GridCell", "GridSearch", "Pairs", "Tagged", "cells_folder", "label_of", "planned_cells"]

Pairs = str | Path | Sequence[PairExample]
Tagged = str | Path | Sequence[TaggedWords]


@dataclass(frozen=True)
class GridSearch:
    """Everything that a grid needs.

    Attributes:
        transfer: The model, the text and the evidence; its method is one that uses vectors, its `neighbours` and
            `temperature` do not matter. Its `held_out` and `score_bytes` are what language modelling is scored on,
            unless its `score` is off, and its `output` is the folder of the grid.
        neighbours: Values of k.
        temperatures: Values of τ. A single neighbour has all the weight at each of them, so k = 1 is tried at the last.
        nli: Files of premise, hypothesis and label to learn a probe from and to test it on, or the examples.
        pos: The same for words and tags: `.conllu`, or a word and its tag a line.
        baselines: Methods without vectors that are scored beside the cells.
        training_examples: Learn the probes from the first so many examples or sentences; from all where not given.
        penalty: Of the probes' large weights.
        length: Pieces that the model reads at once for a probe.
        batch: Texts at a time for a probe.
    """

    transfer: Transfer
    neighbours: Sequence[int] = (1, 10, 50)
    temperatures: Sequence[float] = (0.1, 1.0)
    nli: tuple[Pairs, Pairs] | None = None
    pos: tuple[Tagged, Tagged] | None = None
    baselines: Sequence[str] = ("random", "fullrand")
    training_examples: int | None = None
    penalty: float = 1.0
    length: int = 512
    batch: int = 32


@dataclass(frozen=True)
class GridCell:
    """One initialisation and what it is worth before training.

    Attributes:
        initialisation: The method.
        neighbours: k; None for a baseline.
        temperature: τ; None for a baseline.
        scores: What was measured, by `"NLI"`, `"POS"`, `"bits per byte"` and `"perplexity"`.
    """

    initialisation: str
    neighbours: int | None
    temperature: float | None
    scores: Mapping[str, Score] = field(default_factory=dict)


def planned_cells(search: GridSearch) -> list[GridCell]:
    """The cells to score, baselines last.

    Raises:
        InputError: The grid is impossible.
    """
    recipe = search.transfer
    with_neighbours = sorted(name for name, method in METHODS.items() if method.takes("neighbours"))
    plain = sorted(name for name, method in METHODS.items() if not (method.needs or method.takes("vectors")))
    if recipe.method not in with_neighbours:
        choices = ", ".join(with_neighbours)
        raise InputError(f"the method {recipe.method} has neither neighbours nor temperature: choose one of {choices}")
    for name in search.baselines:
        if name not in plain:
            choices = ", ".join(plain)
            raise InputError(f"{name!r} is no baseline: choose from {choices}")
    if not search.neighbours or not search.temperatures:
        raise InputError("a grid needs at least one number of neighbours and one temperature")
    if not (recipe.score or search.nli or search.pos):
        raise InputError("there is nothing to score a grid on: give NLI or POS files, or score language modelling")
    if search.training_examples is not None and search.training_examples < 1:
        raise InputError(f"training_examples = {search.training_examples} is not possible: give 1 or more")
    for count, temperature in product(search.neighbours, search.temperatures):
        validate_transfer(replace(recipe, neighbours=count, temperature=temperature))
    cells = [
        GridCell(recipe.method, count, temperature)
        for count in dict.fromkeys(search.neighbours)
        for temperature in dict.fromkeys(search.temperatures[-1:] if count == 1 else search.temperatures)
    ]
    return [*cells, *(GridCell(name, None, None) for name in dict.fromkeys(search.baselines))]


def cells_folder(recipe: Transfer) -> Path:
    """Where the cells of a grid are kept."""
    return Path(recipe.output) / "cells"


def label_of(cell: GridCell) -> str:
    """What messages and files call a cell."""
    return cell.initialisation if cell.neighbours is None else f"k{cell.neighbours}-tau{cell.temperature:.12g}"
