"""Initialisation methods: evidence in, a Mixture out. One paper, one file; each registers itself in `METHODS`.

    blend         the default: neighbours in aligned vectors, translations and source pieces in equal parts
    wechsel       softmax over neighbours in aligned vectors (also wechsel-tfr)
    ramen         translation probabilities from parallel text, or sparsemax in aligned vectors
    trans_tokens  counts of aligned tokens in parallel text
    focus         sparsemax over shared tokens
    fvt           mean of the source pieces
    random, shuffle, fullrand    baselines

`registry.py` defines a method, `inputs.py` what it may use. `copying.py` and `translations.py` are shared parts.
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
    "translations",
    "vector_neighbours",
    "wechsel",
]
