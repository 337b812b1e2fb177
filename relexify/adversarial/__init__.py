"""Bringing two spaces together without any pairs: a linear map against a discriminator."""

from relexify.adversarial.agreement import Agreement, mutual_neighbours
from relexify.adversarial.alignment import align_unsupervised
from relexify.adversarial.embedding import (
    INITIALISATIONS,
    MAPS,
    Initialisation,
    Map,
    embedding_rows,
    tokens_in_embedding_space,
)
from relexify.adversarial.options import AdversarialTraining
from relexify.adversarial.search import FoundMap, find_map

__all__ = [
    "INITIALISATIONS",
    "MAPS",
    "AdversarialTraining",
    "Agreement",
    "FoundMap",
    "Initialisation",
    "Map",
    "align_unsupervised",
    "embedding_rows",
    "find_map",
    "mutual_neighbours",
    "tokens_in_embedding_space",
]
