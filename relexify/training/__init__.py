"""Continued training of a grafted model."""

from relexify.training.continued import Continuation, continue_training

__all__ = ["Continuation", "continue_training"]
