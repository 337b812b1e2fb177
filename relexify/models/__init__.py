"""Models of our own around those of transformers."""

from relexify.models.biaffine import BiaffineConfig, BiaffineOutput, BiaffineParser
from relexify.models.bilingual import BilingualConfig, BilingualModel
from relexify.models.bilingual_folder import Bilingual, exported, load_bilingual_model, load_speaker

__all__ = [
    "BiaffineConfig",
    "BiaffineOutput",
    "BiaffineParser",
    "Bilingual",
    "BilingualConfig",
    "BilingualModel",
    "exported",
    "load_bilingual_model",
    "load_speaker",
]
