"""Bilingual dictionaries, word frequencies, and how well vectors translate a dictionary."""

from relexify.lexicon.correspondences import Correspondences, find_correspondences
from relexify.lexicon.frequencies import count_words, package_frequencies, vector_frequencies
from relexify.lexicon.lexicon import BilingualLexicon
from relexify.lexicon.retrieval import Quality, csls_nearest, translation_quality

__all__ = [
    "BilingualLexicon",
    "Correspondences",
    "Quality",
    "count_words",
    "csls_nearest",
    "find_correspondences",
    "package_frequencies",
    "translation_quality",
    "vector_frequencies",
]
