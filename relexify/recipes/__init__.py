"""Whole runs, each one value that says everything it needs."""

from relexify.recipes.evidence import trained_vectors
from relexify.recipes.recipe import DEFAULT_VOCABULARY, METHODS, Transfer
from relexify.recipes.transfer import TransferResult, run_transfer

__all__ = ["DEFAULT_VOCABULARY", "METHODS", "Transfer", "TransferResult", "run_transfer", "trained_vectors"]
