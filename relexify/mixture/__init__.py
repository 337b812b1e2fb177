"""The Mixture: each target token as a weighted sum of source tokens.

mixture.py       `Mixture`: a sparse matrix, the origin of each row, and the fallback for empty rows
weights.py       compute weights from similarities
composition.py   build mixtures, and compose them by priority or as weighted blends
words.py         the whole words of a mixture, and the share of each that comes from its own spelling
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
