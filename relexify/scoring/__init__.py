"""Score a language model on text: bits per byte and perplexity.

score.py          one measured number, and its format
sample.py         how much of a held-out text to score, and whether it is enough
bits.py           score a model of any architecture
windows.py        split held-out text into windows in which every token is predicted once
masked_words.py   predict whole words, to compare masked language models with different vocabularies

All files except score.py and sample.py need torch. They are imported at first use, so that a report can read scores
without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from relexify.scoring.sample import advise_longer_sample, report_sample_size, sample_size, warn_about_short_sample
from relexify.scoring.score import (
    FEWEST_BYTES,
    RELIABLE_BYTES,
    WINDOW,
    Score,
    format_perplexity,
    format_score,
)

if TYPE_CHECKING:
    from relexify.scoring.bits import bits_per_byte, bits_per_word, bits_per_word_of, language_model_scores, scores_of
    from relexify.scoring.masked_words import bits_per_byte_of_words
    from relexify.scoring.windows import MASK_STRIDE, HeldOut, held_out_windows

__all__ = [
    "FEWEST_BYTES",
    "MASK_STRIDE",
    "RELIABLE_BYTES",
    "WINDOW",
    "HeldOut",
    "Score",
    "advise_longer_sample",
    "bits_per_byte",
    "bits_per_byte_of_words",
    "bits_per_word",
    "bits_per_word_of",
    "format_perplexity",
    "format_score",
    "held_out_windows",
    "language_model_scores",
    "report_sample_size",
    "sample_size",
    "scores_of",
    "warn_about_short_sample",
]

_MODULES = {
    "MASK_STRIDE": "windows",
    "HeldOut": "windows",
    "bits_per_byte": "bits",
    "bits_per_byte_of_words": "masked_words",
    "bits_per_word": "bits",
    "bits_per_word_of": "bits",
    "held_out_windows": "windows",
    "language_model_scores": "bits",
    "scores_of": "bits",
}


def __getattr__(name: str) -> Any:
    """Import a name that needs torch when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"relexify.scoring.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'relexify.scoring' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
