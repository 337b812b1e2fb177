"""Score a language model on text: bits per byte and perplexity."""

from relexify.scoring.bits import bits_per_byte, check_fit, language_model_scores, scores_of, usable_length
from relexify.scoring.bits_per_word import bits_per_word, bits_per_word_of
from relexify.scoring.masked_words import bits_per_byte_of_words
from relexify.scoring.score import Score
from relexify.scoring.windows import IGNORED, MASK_STRIDE, HeldOut, Kind, frame_of, held_out_windows, model_kind

__all__ = [
    "IGNORED",
    "MASK_STRIDE",
    "HeldOut",
    "Kind",
    "Score",
    "bits_per_byte",
    "bits_per_byte_of_words",
    "bits_per_word",
    "bits_per_word_of",
    "check_fit",
    "frame_of",
    "held_out_windows",
    "language_model_scores",
    "model_kind",
    "scores_of",
    "usable_length",
]
