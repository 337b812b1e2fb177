"""Initialisations without evidence, to compare with (WECHSEL, section 4 and Appendix E)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from relexify.methods.copying import special
from relexify.mixture import Fallback, Mixture, Origin, first_of, mixture_of_rows, mixture_of_weights
from relexify.tokens import vocabulary_of

__all__ = ["random", "shuffle"]


def random(source_tokenizer: Any, target_tokenizer: Any) -> Mixture:
    """TransInner (de Vries and Nissim, 2021): every row is drawn at random when it is grafted.

    It is drawn as an untrained model's are. Drawn as widely as trained rows lie, a tied head would begin far below
    chance: the perplexity that the paper begins with (Table 3, 1.4e5 with 50,000 tokens) is a little worse than chance.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    empty = csr_array((len(target), len(source)), dtype=np.float32)
    mixture = mixture_of_weights(empty, source, target, method="random", origin=Origin.RANDOM)
    return replace(mixture, fallback=Fallback.FRESH)


def shuffle(source_tokenizer: Any, target_tokenizer: Any, *, seed: int) -> Mixture:
    """TransInner-Shuffle (Zoph et al., 2016): every row is the row of a random source token."""
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    ordinary = np.array([id for id, form in enumerate(source.forms) if not form.is_special])
    drawn = np.random.default_rng(seed).choice(ordinary, len(target))
    rows = mixture_of_rows([[id] for id in drawn], source, target, method="shuffle", origin=Origin.MIXED)
    return first_of(special(source, target), rows, method="shuffle")
