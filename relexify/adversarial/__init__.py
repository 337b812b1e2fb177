"""Bringing two spaces together without any pairs: a linear map against a discriminator."""

from relexify.adversarial.agreement import Agreement, mutual_neighbours
from relexify.adversarial.alignment import align_unsupervised
from relexify.adversarial.options import AdversarialTraining
from relexify.adversarial.search import FoundMap, find_map

__all__ = [
    "AdversarialTraining",
    "Agreement",
    "FoundMap",
    "align_unsupervised",
    "find_map",
    "mutual_neighbours",
]
