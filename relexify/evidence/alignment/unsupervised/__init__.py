"""Vector alignment without a dictionary: adversarial training, refinement, frequency."""

from relexify.evidence.alignment.unsupervised.agreement import Agreement, mutual_neighbours
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.alignment.unsupervised.search import FoundMap, find_map
from relexify.evidence.alignment.unsupervised.words import align_unsupervised

__all__ = [
    "AdversarialTraining",
    "Agreement",
    "FoundMap",
    "align_unsupervised",
    "find_map",
    "mutual_neighbours",
]
