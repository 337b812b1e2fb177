"""Baselines without evidence: random rows, rows of random source tokens, rows near the mean, a model from scratch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from relexify.methods.parts.copying import shared, special
from relexify.methods.registry import METHODS, Method
from relexify.mixture import Fallback, Mixture, Origin, empty_mixture, first_of, mixture_of_rows
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["mean_resizing", "random", "shuffle"]


def random(source_tokenizer: AnyVocabulary, target_tokenizer: AnyVocabulary) -> Mixture:
    """Leave every row empty, so that it is drawn at random during grafting (TransInner: de Vries and Nissim, 2021).

    Rows are drawn as in an untrained model. With the larger variance of trained rows, the first predictions of a tied
    head would be far worse than chance. The paper's initial perplexity (Table 3, 1.4e5 with 50,000 tokens) is only a
    little worse than chance.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    return empty_mixture(source, target, method="random", fallback=Fallback.FRESH)


def shuffle(
    source_tokenizer: AnyVocabulary,
    target_tokenizer: AnyVocabulary,
    *,
    seed: int,
) -> Mixture:
    """Give every target token the row of a random source token; special tokens are copied (Zoph et al., 2016)."""
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    ordinary = np.array([id for id, form in enumerate(source.forms) if not form.is_special])
    drawn = np.random.default_rng(seed).choice(ordinary, len(target))
    rows = mixture_of_rows([[id] for id in drawn], source, target, method="shuffle", origin=Origin.MIXED)
    return first_of(special(source, target), rows, method="shuffle")


def mean_resizing(source_tokenizer: AnyVocabulary, target_tokenizer: AnyVocabulary) -> Mixture:
    """Copy shared tokens, and draw all others from N(μ, 1e-9 Σ) during grafting (Hewitt, 2021).

    μ and Σ are the mean and the covariance of the source rows. `resize_token_embeddings` of transformers initialises
    added rows in the same way.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    rest = empty_mixture(source, target, method="mean-resizing", fallback=Fallback.NEAR_MEAN)
    return first_of(special(source, target), shared(source, target), rest, method="mean-resizing")


METHODS.add(
    "random",
    Method(
        becomes="a draw like those of an untrained model: a baseline",
        evidence="nothing",
        paper="de Vries and Nissim 2021",
        build=lambda inputs: random(inputs.source, inputs.target),
        is_baseline=True,
    ),
)
METHODS.add(
    "fullrand",
    Method(
        becomes="random, and every inner parameter too: a baseline",
        evidence="nothing",
        paper="Minixhofer et al. 2022, section 4",
        build=lambda inputs: replace(random(inputs.source, inputs.target), method="fullrand"),
        fresh_inner=True,
        is_baseline=True,
    ),
)
METHODS.add(
    "shuffle",
    Method(
        becomes="a random source token: a baseline",
        evidence="nothing",
        paper="Zoph et al. 2016",
        build=lambda inputs: shuffle(inputs.source, inputs.target, seed=inputs.seed),
        is_baseline=True,
    ),
)
METHODS.add(
    "mean-resizing",
    Method(
        becomes="nearly the mean of all source rows: a baseline",
        evidence="the two tokenizers alone",
        paper="Hewitt 2021",
        build=lambda inputs: mean_resizing(inputs.source, inputs.target),
        is_baseline=True,
    ),
)
