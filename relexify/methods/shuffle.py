"""Rows of random source tokens (TransInner-Shuffle: Zoph et al., 2016): a baseline without evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from relexify.methods.copying import special
from relexify.methods.registry import METHODS, Method
from relexify.mixture import Mixture, Origin, first_of, mixture_of_rows
from relexify.tokens import Vocabulary, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["shuffle"]


def shuffle(
    source_tokenizer: PreTrainedTokenizerFast | Vocabulary,
    target_tokenizer: PreTrainedTokenizerFast | Vocabulary,
    *,
    seed: int,
) -> Mixture:
    """Give every target token the row of a random source token; special tokens are copied by role."""
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    ordinary = np.array([id for id, form in enumerate(source.forms) if not form.is_special])
    drawn = np.random.default_rng(seed).choice(ordinary, len(target))
    rows = mixture_of_rows([[id] for id in drawn], source, target, method="shuffle", origin=Origin.MIXED)
    return first_of(special(source, target), rows, method="shuffle")


METHODS.add(
    "shuffle",
    Method(
        becomes="a random source token: a baseline",
        evidence="nothing",
        paper="Zoph et al. 2016",
        build=lambda inputs: shuffle(inputs.source, inputs.target, seed=inputs.seed),
    ),
)
