"""Models of our own around those of transformers."""

from relexify.models.biaffine import BiaffineConfig, BiaffineOutput, BiaffineParser

__all__ = ["BiaffineConfig", "BiaffineOutput", "BiaffineParser"]
