"""One paper, one small file: evidence in, Mixture out."""

from relexify.methods.baselines import random, shuffle
from relexify.methods.blended import blended
from relexify.methods.copying import neutral, shared, special
from relexify.methods.fvt import fvt, pieces
from relexify.methods.translations import translations
from relexify.methods.wechsel import subword_vectors, vector_neighbours, wechsel

__all__ = [
    "blended",
    "fvt",
    "neutral",
    "pieces",
    "random",
    "shared",
    "shuffle",
    "special",
    "subword_vectors",
    "translations",
    "vector_neighbours",
    "wechsel",
]
