"""The Mixture: each target token as a weighted sum of source tokens."""

from relexify.mixture.composition import blend, empty_mixture, first_of, mixture_of_rows, mixture_of_weights
from relexify.mixture.mixture import Fallback, Mixture, Origin, PrecomputedRows
from relexify.mixture.weights import rows_to_csr, softmax_weights, sparsemax_products, sparsemax_weights

__all__ = [
    "Fallback",
    "Mixture",
    "Origin",
    "PrecomputedRows",
    "blend",
    "empty_mixture",
    "first_of",
    "mixture_of_rows",
    "mixture_of_weights",
    "rows_to_csr",
    "softmax_weights",
    "sparsemax_products",
    "sparsemax_weights",
]
