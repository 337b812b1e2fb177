"""Score a language model on text: bits per byte and perplexity.

bits.py           score a model of any architecture
windows.py        held-out text as windows in which every token is predicted once
masked_words.py   whole words, to compare masked language models with different vocabularies
"""

from relexify.scoring.bits import (
    Score,
    bits_per_byte,
    bits_per_word,
    bits_per_word_of,
    format_perplexity,
    format_score,
    language_model_scores,
    scores_of,
)
from relexify.scoring.masked_words import bits_per_byte_of_words
from relexify.scoring.windows import MASK_STRIDE, WINDOW, HeldOut, held_out_windows, sample_size

__all__ = [
    "MASK_STRIDE",
    "WINDOW",
    "HeldOut",
    "Score",
    "bits_per_byte",
    "bits_per_byte_of_words",
    "bits_per_word",
    "bits_per_word_of",
    "format_perplexity",
    "format_score",
    "held_out_windows",
    "language_model_scores",
    "sample_size",
    "scores_of",
]
