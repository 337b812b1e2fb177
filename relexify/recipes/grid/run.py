"""Which k and τ suit a language: every cell of a grid grafted and scored before training (WECHSEL, Appendix A).

Evidence is gathered once and searched once. What a cell scored is kept in the output folder as soon as it is known, so
that a killed grid goes on where it was.
"""

from __future__ import annotations

from pathlib import Path

from relexify.progress import track
from relexify.recipes.grid.kept_cells import cell_name, keep_cell, kept_cell
from relexify.recipes.grid.plan import GridCell, GridSearch, label_of, planned_cells
from relexify.recipes.grid.scores import gather, scored_cells
from relexify.recipes.grid.table import GridResult, best_cell, grid_rows
from relexify.reports import markdown
from relexify.storage.files import write_file

__all__ = ["GridCell", "GridResult", "GridSearch", "best_cell", "grid_rows", "run_grid"]


def run_grid(search: GridSearch) -> GridResult:
    """Graft and score every cell of a grid, and the baselines.

    Args:
        search: What to try and what to score it on.

    Raises:
        InputError: The grid is impossible, or the output folder holds cells of another one.
    """
    planned = planned_cells(search)
    recipe = search.transfer
    material = gather(search, recipe)
    names = {label_of(cell): cell_name(search, recipe, material, cell) for cell in planned}
    cells = {label_of(cell): kept_cell(recipe, cell, names[label_of(cell)]) for cell in planned}
    with track("trying initialisations", len(cells)) as advance:
        pending = [cell for cell in cells.values() if not cell.scores]
        advance(len(cells) - len(pending))
        for cell in scored_cells(search, recipe, material, pending):
            keep_cell(recipe, cell, names[label_of(cell)])
            cells[label_of(cell)] = cell
            advance(1)
    result = GridResult(tuple(cells.values()), best_cell(list(cells.values())), Path(recipe.output))
    header, *rows = grid_rows(result)
    write_file(result.output / "grid.md", markdown(header, rows))
    return result
