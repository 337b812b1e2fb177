"""Fixtures shared with the tests of the training engine."""

from tests.training.conftest import one_thread, onednn, run_of, shared_run

__all__ = ["one_thread", "onednn", "run_of", "shared_run"]
