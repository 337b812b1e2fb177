"""Bilingual dictionaries: readers, lookup, and translation quality."""

from relexify.evidence.lexicon.correspondences import Correspondences, find_correspondences
from relexify.evidence.lexicon.frequencies import count_words, package_frequencies, read_frequencies, vector_frequencies
from relexify.evidence.lexicon.lexicon import BilingualLexicon
from relexify.evidence.lexicon.retrieval import Quality, csls_nearest, translation_quality

__all__ = [
    "BilingualLexicon",
    "Correspondences",
    "Quality",
    "count_words",
    "csls_nearest",
    "find_correspondences",
    "package_frequencies",
    "read_frequencies",
    "translation_quality",
    "vector_frequencies",
]
