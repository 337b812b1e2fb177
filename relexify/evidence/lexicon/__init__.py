"""Bilingual dictionaries: readers, lookup, and translation quality.

lexicon.py           `BilingualLexicon`: pairs of words; identical words, pivoting over a third language
reading.py           read a dictionary of any format; the reader of two-column text
dictd.py, tei.py     readers of FreeDict's formats
files.py             functions that the readers share
frequencies.py       word frequencies, from vectors or from a file
correspondences.py   find the entries of a dictionary in two vocabularies
retrieval.py         measure how well aligned vectors translate
"""

from relexify.evidence.lexicon.correspondences import Correspondences, find_correspondences
from relexify.evidence.lexicon.frequencies import read_frequencies, vector_frequencies
from relexify.evidence.lexicon.lexicon import BilingualLexicon
from relexify.evidence.lexicon.retrieval import Quality, csls_nearest, translation_quality

__all__ = [
    "BilingualLexicon",
    "Correspondences",
    "Quality",
    "csls_nearest",
    "find_correspondences",
    "read_frequencies",
    "translation_quality",
    "vector_frequencies",
]
