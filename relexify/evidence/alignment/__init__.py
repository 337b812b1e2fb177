"""Vector alignment: map the vectors of two languages into one space."""

from relexify.evidence.alignment.procrustes import Rotation, align, align_randomly, unaligned

__all__ = [
    "Rotation",
    "align",
    "align_randomly",
    "unaligned",
]
