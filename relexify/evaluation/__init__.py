"""What a model is worth: bits per byte."""

from relexify.evaluation.bits import bits_per_byte, model_kind
from relexify.evaluation.score import Score

__all__ = ["Score", "bits_per_byte", "model_kind"]
