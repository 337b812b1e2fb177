"""A grid as a table, and its best cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relexify.errors import InputError
from relexify.recipes.grid.plan import GridCell
from relexify.recipes.grid.scores import BITS, NLI, PERPLEXITY, POS
from relexify.scoring import Score

__all__ = ["GridResult", "best_cell", "grid_rows"]

_DECIDING = (NLI, POS, BITS)  # perplexity says of one tokenizer what bits per byte say

_NOTHING = "–"


@dataclass(frozen=True)
class GridResult:
    """What a grid found.

    Attributes:
        cells: In the order of the grid, baselines last.
        best: The cell to take, as `best_cell` says.
        output: Where everything lies.
    """

    cells: tuple[GridCell, ...]
    best: GridCell
    output: Path


def best_cell(cells: Sequence[GridCell]) -> GridCell:
    """The cell with the best mean rank over NLI, POS and bits per byte; of equals the first. No baseline is best."""
    grid = [cell for cell in cells if cell.neighbours is not None]
    names = [name for name in _DECIDING if all(name in cell.scores for cell in grid)]
    if not grid or not names:
        raise InputError("no cell of the grid has a score, so none is the best: give something to score on")

    def ranks(cell: GridCell) -> int:
        return sum(_goodness(other, name) > _goodness(cell, name) for name in names for other in grid)

    return min(grid, key=ranks)


def grid_rows(result: GridResult) -> list[list[str]]:
    """The cells as rows in the shape of the paper's Table 8, the header first: accuracies in percent, LM a perplexity.

    Bits per byte come last, since perplexities of different tokenizers cannot be compared.
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
    """The value of a score, turned so that more is better; what is no number is worst."""
    score = cell.scores[name]
    return -math.inf if math.isnan(score.value) else score.value if score.higher_is_better else -score.value


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
