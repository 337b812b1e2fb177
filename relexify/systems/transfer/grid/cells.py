"""The cells of a grid: every pair of k and τ, baselines beside them, their table, and the best one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from relexify.errors import InputError
from relexify.evaluation.probing.probes import PairExample, TaggedWords
from relexify.methods.registry import METHODS
from relexify.scoring import Score
from relexify.systems.transfer.checks import validate_transfer
from relexify.systems.transfer.options import Transfer, given_translations

__all__ = [
    "BITS",
    "NLI",
    "PERPLEXITY",
    "POS",
    "GridCell",
    "GridResult",
    "GridSearch",
    "Pairs",
    "Tagged",
    "best_cell",
    "grid_rows",
    "plan_cells",
]

NLI, POS, BITS, PERPLEXITY = "NLI", "POS", "bits per byte", "perplexity"
_DECIDING = (NLI, POS, BITS)  # perplexity ranks the cells of one tokenizer as bits per byte do
_NOTHING = "–"

Pairs = str | Path | Sequence[PairExample]
Tagged = str | Path | Sequence[TaggedWords]


@dataclass(frozen=True)
class GridSearch:
    """The values that a grid search tries, and the scores that it compares.

    Attributes:
        transfer: The model, the text and the evidence; its method is one that uses vectors, its `neighbours` and
            `temperature` do not matter. Its `held_out` and `held_out_bytes` are what language modelling is scored on,
            unless its `score` is off, and its `output` is the folder of the grid.
        neighbours: Values of k.
        temperatures: Values of τ. A single neighbour has all the weight whatever τ is, so k = 1 is tried only with the
            last one.
        nli: Training and test data of a probe: files of premise, hypothesis and label, or the examples.
        pos: Training and test data of a probe for tags: `.conllu`, or a word and its tag on each line.
        baselines: Methods without vectors to compare with.
        training_examples: Train the probes on this many examples or sentences, evenly spaced; default: all.
        penalty: Strength of the probes' L2 penalty.
        length: Tokens that the model reads at a time for a probe.
        batch: Texts per forward pass for a probe.
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
    """One initialisation and its scores before training.

    Attributes:
        initialisation: The method.
        neighbours: k; None for a baseline.
        temperature: τ; None for a baseline.
        scores: By name: `"NLI"`, `"POS"`, `"bits per byte"` and `"perplexity"`.
    """

    initialisation: str
    neighbours: int | None
    temperature: float | None
    scores: Mapping[str, Score] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name in messages and files."""
        if self.neighbours is None:
            return self.initialisation
        return f"k{self.neighbours}-tau{self.temperature:.12g}"


@dataclass(frozen=True)
class GridResult:
    """The result of a grid.

    Attributes:
        cells: In the order of the grid, then the baselines.
        best: The best one, by `best_cell`.
        output: The folder with the results.
    """

    cells: tuple[GridCell, ...]
    best: GridCell
    output: Path


def plan_cells(search: GridSearch) -> list[GridCell]:
    """Return the cells to score, baselines last.

    Raises:
        InputError: The grid is impossible.
    """
    options = search.transfer
    with_neighbours = sorted(name for name, method in METHODS.items() if method.takes("neighbours"))
    plain = sorted(name for name, method in METHODS.items() if not (method.needs or method.takes("vectors")))
    if options.method not in with_neighbours:
        choices = ", ".join(with_neighbours)
        raise InputError(f"the method {options.method} has neither neighbours nor temperature: choose one of {choices}")
    if not METHODS[options.method].takes("neighbours", beside=given_translations(options)):
        others = sorted(name for name in with_neighbours if not METHODS[name].replaced_by)
        raise InputError(
            f"with a dictionary or parallel text, the method {options.method} does not depend on neighbours and "
            f"temperature: choose transfer.method={' or '.join(others)}"
        )
    for name in search.baselines:
        if name not in plain:
            choices = ", ".join(plain)
            raise InputError(f"{name!r} is not a baseline: choose from {choices}")
    if not search.neighbours or not search.temperatures:
        raise InputError("a grid needs at least one number of neighbours and one temperature")
    if not (options.score or search.nli or search.pos):
        raise InputError("there is nothing to score a grid on: give NLI or POS files, or score language modelling")
    if search.training_examples is not None and search.training_examples < 1:
        raise InputError(f"training_examples = {search.training_examples} is not possible: give 1 or more")
    for count, temperature in product(search.neighbours, search.temperatures):
        validate_transfer(replace(options, neighbours=count, temperature=temperature))
    cells = [
        GridCell(options.method, count, temperature)
        for count in dict.fromkeys(search.neighbours)
        for temperature in dict.fromkeys(search.temperatures[-1:] if count == 1 else search.temperatures)
    ]
    return [*cells, *(GridCell(name, None, None) for name in dict.fromkeys(search.baselines))]


def best_cell(cells: Sequence[GridCell]) -> GridCell:
    """Return the cell with the best mean rank over NLI, POS and bits per byte, the first of equals; never a baseline.

    Raises:
        InputError: The cells have no scores.
    """
    grid = [cell for cell in cells if cell.neighbours is not None]
    names = [name for name in _DECIDING if all(name in cell.scores for cell in grid)]
    if not grid or not names:
        raise InputError("no cell of the grid has a score, so none is the best: give something to score on")

    def ranks(cell: GridCell) -> int:
        return sum(_goodness(other, name) > _goodness(cell, name) for name in names for other in grid)

    return min(grid, key=ranks)


def grid_rows(result: GridResult) -> list[list[str]]:
    """Return the rows of a table like the paper's Table 8, the header first: accuracies in percent, LM is perplexity.

    Bits per byte come last, because perplexities of different tokenizers cannot be compared.
    """
    columns = {NLI: "NLI", POS: "POS", PERPLEXITY: "LM", BITS: BITS}
    measured = [name for name in columns if any(name in cell.scores for cell in result.cells)]
    header = ["model", "k", "τ", *(columns[name] for name in measured)]
    rows = [
        [
            f"{cell.initialisation}@0",
            _NOTHING if cell.neighbours is None else str(cell.neighbours),
            _NOTHING if cell.temperature is None else f"{cell.temperature:g}",
            *(_score_text(name, cell.scores.get(name)) for name in measured),
        ]
        for cell in result.cells
    ]
    return [header, *rows]


def _goodness(cell: GridCell, name: str) -> float:
    """Return the value of a score, negated if lower is better, so that the largest is best; NaN is worst."""
    score = cell.scores[name]
    if math.isnan(score.value):
        return -math.inf
    return score.value if score.higher_is_better else -score.value


def _score_text(name: str, score: Score | None) -> str:
    if score is None:
        return _NOTHING
    if name in (NLI, POS):
        return f"{100 * score.value:.1f}"
    if name == BITS:
        return f"{score.value:.3f}"
    if not 10_000 <= score.value < math.inf:
        return f"{score.value:.1f}"
    mantissa, _, exponent = f"{score.value:.1e}".partition("e+")
    return f"{mantissa}e+{int(exponent)}"
