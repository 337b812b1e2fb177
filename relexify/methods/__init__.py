"""Initialisation methods: evidence in, a Mixture out. One paper, one file."""

from relexify.methods.blend import blended
from relexify.methods.copying import neutral, shared, special
from relexify.methods.focus import focus
from relexify.methods.fvt import fvt, pieces
from relexify.methods.inputs import Inputs
from relexify.methods.ramen import aligned_tokens, ramen, ramen_random, ramen_vectors
from relexify.methods.random import random
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.methods.shuffle import shuffle
from relexify.methods.trans_tokens import trans_tokens
from relexify.methods.translations import translations
from relexify.methods.wechsel import subword_vectors, vector_neighbours, wechsel

__all__ = [
    "METHODS",
    "Initialisation",
    "Inputs",
    "Method",
    "aligned_tokens",
    "blended",
    "focus",
    "fvt",
    "neutral",
    "pieces",
    "ramen",
    "ramen_random",
    "ramen_vectors",
    "random",
    "shared",
    "shuffle",
    "special",
    "subword_vectors",
    "trans_tokens",
    "translations",
    "vector_neighbours",
    "wechsel",
]
