"""Static vectors of a new vocabulary, moved into a model's embedding space (3.1 and Table 5, TreLM)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from scipy.linalg import orthogonal_procrustes

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining, resolve_options
from relexify.evidence.alignment.unsupervised.search import FoundMap, find_map
from relexify.evidence.alignment.unsupervised.spaces import prepare_space, validate_matrices
from relexify.evidence.vectors import WordVectors
from relexify.mixture import PrecomputedRows
from relexify.tokens import TokenForm, Vocabulary

__all__ = [
    "INITIALISATIONS",
    "MAPS",
    "Initialisation",
    "Map",
    "check_pairs",
    "embedding_rows",
    "fitted_linear",
    "fitted_map",
    "identical_tokens",
    "tokens_in_embedding_space",
]

Initialisation = Literal["random", "random-align", "fasttext", "fasttext-align"]
INITIALISATIONS: tuple[str, ...] = get_args(Initialisation)
Map = Literal["linear", "orthogonal"]
MAPS: tuple[str, ...] = get_args(Map)
LEAST_EXPLAINED = 0.01
"""Of the variance of a model's rows: vectors that tell more are believed. Random ones told -0.01, others 0.08, 0.13."""
LEAST_LETTERS = 2
"""Shorter tokens are pieces of anything, and say little in either vocabulary."""
RESTRAINTS = np.geomspace(1e-3, 10, 13)
"""What may be added to the variance of a component, which is one on average; the more, the shorter the rows."""

logger = logging.getLogger(__name__)


def tokens_in_embedding_space(
    vocabulary: Vocabulary,
    vectors: WordVectors | None,
    anchor: np.ndarray,
    initialisation: Initialisation = "fasttext-align",
    *,
    by: Map = "linear",
    counts: np.ndarray | None = None,
    anchor_forms: Sequence[TokenForm] | None = None,
    options: AdversarialTraining | None = None,
    insist: bool = True,
    seed: int = 0,
    device: str = "cpu",
) -> tuple[PrecomputedRows, FoundMap | None]:
    """Rows for the tokens of a new vocabulary, as `graft` takes them.

    Args:
        vocabulary: The new vocabulary.
        vectors: Vectors of its tokens by their spelling, most frequent first, as wide as the embedding; tokens without
            one get no row. None where rows are random: all tokens get one.
        anchor: The model's rows that stand for its space, [m × d], most frequent tokens first.
        initialisation: One of Table 5's. What is random is drawn by the seed and the ids, the same with a map and
            without.
        by: What kind of map makes the rows, see `embedding_rows`.
        counts: How often each token occurs in text of the model's language [vocabulary]. Given, a map is sought among
            the tokens that are frequent there, whose like the embedding has, rather than among those of both languages.
        anchor_forms: What the tokens of the anchor's rows say [m]. Given, no game is played: the map is fitted on the
            tokens that both vocabularies have.
        options: How the map is trained.
        insist: Refuse a map of fastText vectors that cannot be told from chance.
        seed: Of all that is random.
        device: Where to train.

    Raises:
        InputError: There is no such initialisation, or the widths differ.
        EvidenceError: The vectors could not be aligned with the embedding.
    """
    if vectors is None and not initialisation.startswith("random"):
        raise InputError(f"the initialisation {initialisation!r} needs vectors of the tokens: give some")
    vectors = None if initialisation.startswith("random") else vectors
    if vectors is None:
        ids = list(range(len(vocabulary.forms)))
    else:
        ids = [vocabulary.ids[word] for word in vectors.words if word in vocabulary.ids]
    ids = [id for id in ids if not vocabulary.forms[id].is_special]
    if counts is not None:
        ids.sort(key=lambda id: -int(counts[id]))
    pairs = None if anchor_forms is None else identical_tokens([vocabulary.forms[id] for id in ids], anchor_forms)
    rows, found = embedding_rows(
        *(_static(vocabulary, vectors, ids, anchor.shape[1], seed), anchor, initialisation),
        by=by,
        pairs=pairs,
        options=options,
        insist=insist,
        seed=seed,
        device=device,
    )
    return PrecomputedRows(np.array(ids, dtype=np.int64), rows), found


def _static(vocabulary: Vocabulary, vectors: WordVectors | None, ids: list[int], width: int, seed: int) -> np.ndarray:
    """Vectors of tokens before any map [ids × width]: those that were given, or drawn by the seed and the id."""
    if vectors is not None:
        return vectors.lookup([vocabulary.tokens[id] for id in ids])
    drawn = np.random.default_rng(seed).normal(size=(len(vocabulary.forms), width)).astype(np.float32)
    rows: np.ndarray = drawn[ids]
    return rows


def embedding_rows(
    static: np.ndarray,
    anchor: np.ndarray,
    initialisation: Initialisation = "fasttext-align",
    *,
    by: Map = "linear",
    pairs: np.ndarray | None = None,
    options: AdversarialTraining | None = None,
    insist: bool = True,
    seed: int = 0,
    device: str = "cpu",
) -> tuple[np.ndarray, FoundMap | None]:
    """Static vectors moved into the space of a model's rows, which stay as they are.

    Args:
        static: Vectors of new tokens [n × d], most frequent first.
        anchor: The model's rows [m × d], most frequent tokens first.
        initialisation: With `-align`, a map is sought; else vectors get the mean and the spread of the model's rows.
        by: An orthogonal map turns the vectors. A linear one is fitted to the tokens that the orthogonal one makes one
            another's nearest, or to the pairs: it foretells the model's row of a token from its vector. Both give the
            spread of the model's rows about their mean, but a linear map that knows nothing leaves rows as short as it
            makes them.
        pairs: Rows of both that belong together [pairs × 2]; given, the map is fitted on them, and no game is played.
        options: How it is trained.
        insist: Refuse a map of fastText vectors that cannot be told from chance.
        seed: Of all that is random.
        device: Where to train.

    Returns:
        float32 [n × d], and what the games came to, if any were played.
    """
    for name, value, choices in (("initialisation", initialisation, INITIALISATIONS), ("map", by, MAPS)):
        if value not in choices:
            raise InputError(f"no rows can be made by the {name} {value!r}: choose one of {', '.join(choices)}")
    validate_matrices(static, anchor)
    options = resolve_options(options, static.shape[1])
    rows = prepare_space(static, options, "cpu").double().numpy()
    mean = anchor.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(np.mean((anchor - mean) ** 2)))
    if not initialisation.endswith("-align"):
        return (mean + spread * rows).astype(np.float32), None
    found = None
    if pairs is None:
        # Nothing can be found in random vectors; there the map is for comparison alone.
        insist = insist and initialisation == "fasttext-align"
        found = find_map(static, anchor, options, insist=insist, seed=seed, device=device)
        pairs = np.stack([found.agreement.source, found.agreement.target], axis=1)
    else:
        check_pairs(pairs, static.shape[1])
    if by == "orthogonal":
        matrix = (
            found.matrix if found else fitted_map(rows, prepare_space(anchor, options, "cpu").double().numpy(), pairs)
        )
        return (mean + spread * rows @ matrix).astype(np.float32), found
    foretold = _foretold(rows, anchor - mean, pairs, found, spread, warn=initialisation == "fasttext-align")
    return (mean + foretold).astype(np.float32), found


def _foretold(
    rows: np.ndarray, deviations: np.ndarray, pairs: np.ndarray, found: FoundMap | None, spread: float, *, warn: bool
) -> np.ndarray:
    """What a linear map makes of all vectors [n × d], at the spread of the model's rows if it is believed."""
    matrix, explained = fitted_linear(rows, deviations, pairs)
    logger.info("vectors foretell %.1f %% of the variance of a model's rows", 100 * explained)
    foretold: np.ndarray = rows @ matrix
    if found.converged if found else explained >= LEAST_EXPLAINED:
        foretold *= spread / max(float(np.sqrt(np.mean(foretold[rows.any(axis=1)] ** 2))), 1e-30)
    elif warn:
        logger.warning(
            "the vectors of %d common tokens tell nothing of the model's rows, and all new rows stay close to their "
            "mean: train vectors on more text",
            len(pairs),
        )
    return foretold


def identical_tokens(new: Sequence[TokenForm], old: Sequence[TokenForm]) -> np.ndarray:
    """Which new tokens are written like which old ones, as places among both, int64 [pairs × 2]."""
    places = {form: place for place, form in enumerate(old) if len(form.text) >= LEAST_LETTERS}
    pairs = [(place, places[form]) for place, form in enumerate(new) if form in places]
    return np.array(pairs, np.int64).reshape(-1, 2)


def check_pairs(pairs: np.ndarray, width: int) -> None:
    """Refuse to fit a map on too little.

    Raises:
        EvidenceError: There are fewer pairs than a map has dimensions.
    """
    if len(pairs) < width:
        raise EvidenceError(
            f"the two vocabularies have {len(pairs)} tokens in common, and vectors {width} wide need as many "
            'at least: align them by their shapes (aligned_by = "unsupervised")'
        )


def fitted_map(rows: np.ndarray, anchor: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The orthogonal map that brings the rows of pairs closest together, [d × d], for row vectors.

    Args:
        rows: Prepared vectors [n × d].
        anchor: The model's rows, prepared likewise [m × d].
        pairs: Places in both [pairs × 2].
    """
    fitted, _ = orthogonal_procrustes(rows[pairs[:, 0]], anchor[pairs[:, 1]])
    matrix: np.ndarray = fitted
    return matrix


def fitted_linear(rows: np.ndarray, deviations: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, float]:
    """The map that foretells how far a model's rows are from their mean, by ridge regression.

    It is restrained so far that each pair is foretold best by all others. Unlike an orthogonal map, it makes short
    rows where vectors tell little of the model's.

    Args:
        rows: Prepared vectors [n × d].
        deviations: The model's rows without their mean [m × d].
        pairs: Places in both [pairs × 2].

    Returns:
        The map [d × d], and which share of the variance of a pair's row the other pairs foretell beyond what all
        pairs have in common; it may be negative.
    """
    if not len(pairs):
        return np.zeros((rows.shape[1], rows.shape[1])), 0.0
    known, wanted = rows[pairs[:, 0]], deviations[pairs[:, 1]]
    variances, axes = np.linalg.eigh(known.T @ known)
    turned = known @ axes
    product = turned.T @ wanted

    def missed(restraint: float) -> float:
        """The mean square of what a map of all other pairs misses of a pair's row: by its leverage, no fit each."""
        weights = 1 / (variances + restraint)
        residuals = wanted - turned @ (weights[:, None] * product)
        leverage = turned**2 @ weights
        return float(np.mean((residuals / (1 - leverage)[:, None]) ** 2))

    restraint = min(RESTRAINTS * len(pairs), key=missed)
    fitted = axes @ (product / (variances + restraint)[:, None])
    variance = float(np.mean((wanted - wanted.mean(axis=0)) ** 2))
    return fitted, 1 - missed(restraint) / variance if variance else 0.0
