"""The Mixture: each target token as a weighted sum of source tokens.

mixture.py       `Mixture`: a sparse matrix, where each row comes from, and what fills empty rows
weights.py       from similarities to weights
composition.py   build mixtures, and compose them in order of evidence or with weights
words.py         the words of a mixture, and how much of each comes from its own spelling
"""

from relexify.mixture.composition import blend, empty_mixture, first_of, mixture_of_rows, mixture_of_weights
from relexify.mixture.mixture import MIXTURE_FILE, Fallback, Mixture, Origin, PrecomputedRows
from relexify.mixture.weights import rows_to_csr, softmax_weights, sparsemax_products, sparsemax_weights
from relexify.mixture.words import is_part_of, spelling_shares, words_of

__all__ = [
    "MIXTURE_FILE",
    "Fallback",
    "Mixture",
    "Origin",
    "PrecomputedRows",
    "blend",
    "empty_mixture",
    "first_of",
    "is_part_of",
    "mixture_of_rows",
    "mixture_of_weights",
    "rows_to_csr",
    "softmax_weights",
    "sparsemax_products",
    "sparsemax_weights",
    "spelling_shares",
    "words_of",
]
