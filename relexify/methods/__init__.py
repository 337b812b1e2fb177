"""Initialisation methods: evidence in, a Mixture out. One paper, one file; each registers itself in `METHODS`.

`relexify methods` lists them, and `docs/methods.md` describes each. `registry.py` defines a method, `inputs.py` what it
may use. `copying.py`, `translations.py` and `translated_neighbours.py` are shared parts.
"""

from relexify.methods.blend import blended
from relexify.methods.copying import neutral, shared, special
from relexify.methods.focus import focus
from relexify.methods.fvt import fvt
from relexify.methods.ramen import aligned_tokens, ramen, ramen_random, ramen_vectors
from relexify.methods.random import random
from relexify.methods.registry import METHODS, Method
from relexify.methods.shuffle import shuffle
from relexify.methods.trans_tokens import trans_tokens
from relexify.methods.translated_neighbours import translated_neighbours
from relexify.methods.translations import translations
from relexify.methods.wechsel import vector_neighbours, wechsel

__all__ = [
    "METHODS",
    "Method",
    "aligned_tokens",
    "blended",
    "focus",
    "fvt",
    "neutral",
    "ramen",
    "ramen_random",
    "ramen_vectors",
    "random",
    "shared",
    "shuffle",
    "special",
    "trans_tokens",
    "translated_neighbours",
    "translations",
    "vector_neighbours",
    "wechsel",
]
