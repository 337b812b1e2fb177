"""Vector alignment: map the vectors of two languages into one space.

orthogonal.py   the orthogonal Procrustes problem
procrustes.py   `Rotation`, and how to fit it to the pairs of a dictionary
unsupervised/   maps without a dictionary, or with a small one
"""

from relexify.evidence.alignment.procrustes import Rotation, align, align_randomly, unaligned

__all__ = [
    "Rotation",
    "align",
    "align_randomly",
    "unaligned",
]
