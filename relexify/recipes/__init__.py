"""Whole runs, each one value that says everything it needs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relexify.recipes.evidence import trained_vectors
    from relexify.recipes.measuring import output_scores
    from relexify.recipes.recipe import DEFAULT_VOCABULARY, METHODS, Method, Transfer
    from relexify.recipes.recipe_file import RecipeFile, read_recipe, recipe_text
    from relexify.recipes.running import run_comparison, run_recipe
    from relexify.recipes.task_entries import TaskEntry
    from relexify.recipes.transfer import TransferResult, run_transfer
    from relexify.recipes.trelm_options import Trelm
    from relexify.recipes.trelm_run import TrelmResult, run_trelm

__all__ = [
    "DEFAULT_VOCABULARY",
    "METHODS",
    "Method",
    "RecipeFile",
    "TaskEntry",
    "Transfer",
    "TransferResult",
    "Trelm",
    "TrelmResult",
    "output_scores",
    "read_recipe",
    "recipe_text",
    "run_comparison",
    "run_recipe",
    "run_transfer",
    "run_trelm",
    "trained_vectors",
]


def __getattr__(name: str) -> Any:
    """Import a public name at first use, so that looking up a method does not cost the import of torch."""
    if name in __all__:
        for module in (
            "recipe",
            "recipe_file",
            "evidence",
            "transfer",
            "measuring",
            "running",
            "trelm_options",
            "trelm_run",
        ):
            found = vars(import_module(f"relexify.recipes.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module 'relexify.recipes' has no attribute {name!r}")
