"""Validate that a recipe can be compared, without torch."""

from __future__ import annotations

from relexify.errors import InputError
from relexify.recipes.file.comparison import CompareOptions
from relexify.recipes.file.recipe import Recipe, tables_beside
from relexify.steps import TrainingSettings

__all__ = ["check_comparable"]


def check_comparable(recipe: Recipe) -> tuple[CompareOptions, TrainingSettings]:
    """Return the table `[compare]`, and the settings of the training whose curves are compared.

    Raises:
        InputError: The recipe cannot be compared.
    """
    last = recipe.last_training
    has_method = any(step.method is not None for step in recipe.steps)
    needs_method = recipe.compare is not None and any(run.method is not None for run in recipe.compare.runs)
    if recipe.compare is None or last is None or last.training is None or (needs_method and not has_method):
        methods = tables_beside("compare", lambda step: step.method is not None)
        trainings = tables_beside("compare", lambda step: step.training is not None)
        raise InputError(f"{recipe.source} cannot be compared: it needs {methods}, {trainings}, and [compare]")
    for step in recipe.steps:
        if reason := step.comparison.incomparable(recipe.tables[step.table]):
            raise InputError(f"{recipe.source} cannot be compared: {reason}")
        seed = 0 if step.seed is None else step.seed(recipe.tables[step.table])
        seeds = recipe.compare.seeds
        if seed and seed not in seeds:
            raise InputError(
                f"{step.table}.seed is {seed}, but a comparison takes its seeds from compare.seeds, {list(seeds)}: set "
                f"compare.seeds=[{seed}] instead"
            )
    return recipe.compare, last.training.settings(recipe.tables[last.table])
