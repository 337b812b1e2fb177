"""Embedding initialisation (section 3.1): static vectors of the joint vocabulary, mapped into the model's space.

U are rows of the model's embedding, V the static vectors of the joint vocabulary's tokens, both with the most frequent
tokens first. U stays as it is; V is centred, scaled to one length and mapped:

    orthogonal   mean(U) + spread(U) · V W        W found without pairs, by adversarial training (Eqs. 1 and 2),
                                                  principal axes or frequency; or fitted to tokens that both have
    linear       mean(U) + V M                    M by ridge regression on the tokens that W brings together

The paper's map is orthogonal after refinement. A linear map predicts a model's row better, because vectors carry only a
part of what the row does, and more in some directions than in others.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from scipy.linalg import orthogonal_procrustes

from relexify.errors import EvidenceError
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining, resolve_options
from relexify.evidence.alignment.unsupervised.search import FoundMap, find_map
from relexify.evidence.alignment.unsupervised.spaces import prepare_space, validate_matrices
from relexify.evidence.vectors import WordVectors
from relexify.systems.trelm.method import Map, RowSource
from relexify.tokens import TokenForm, Vocabulary

__all__ = ["embedding_rows", "fit_linear_map", "identical_tokens", "static_vectors"]

MIN_EXPLAINED = 0.01
"""Share of the variance of the model's rows that vectors must explain to be trusted. Random vectors explained -0.01,
trained ones 0.08 to 0.13."""
MIN_LETTERS = 2
"""Shorter tokens are parts of any word, so that they mean little in either vocabulary."""
PENALTIES = np.geomspace(1e-3, 10, 13)
"""Ridge penalties to choose from, relative to the variance of a component, which is one on average."""

logger = logging.getLogger(__name__)


def static_vectors(
    vocabulary: Vocabulary,
    vectors: WordVectors | None,
    *,
    width: int,
    counts: np.ndarray | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return V: vectors of the tokens of a vocabulary, most frequent first, before they are mapped.

    Args:
        vocabulary: The target vocabulary.
        vectors: Vectors of its tokens by their spelling, most frequent first; tokens without one are left out. If None,
            all tokens get a random vector, which depends on the seed and the id only.
        width: Width of random vectors.
        counts: How often each token occurs in text of the source language [vocabulary]. If given, tokens are in this
            order, so that a map is fitted on those that the embedding knows, rather than on those frequent in both.
        seed: Random seed.

    Returns:
        The ids of the tokens, int64 [n], special ones left out, and their vectors, float32 [n × width].
    """
    ids = list(range(len(vocabulary)))
    if vectors is not None:
        ids = [vocabulary.ids[word] for word in vectors.words if word in vocabulary.ids]
    ids = [id for id in ids if not vocabulary.forms[id].is_special]
    if counts is not None:
        ids.sort(key=lambda id: -int(counts[id]))
    if vectors is not None:
        static = vectors.lookup([vocabulary.tokens[id] for id in ids])
    else:
        # Drawn for the whole vocabulary, so that a token's vector does not depend on the order or on other tokens.
        static = np.random.default_rng(seed).normal(size=(len(vocabulary), width)).astype(np.float32)[ids]
    return np.array(ids, dtype=np.int64), static


def embedding_rows(
    static: np.ndarray,
    anchor: np.ndarray,
    initialisation: RowSource = "fasttext-align",
    *,
    by: Map = "linear",
    pairs: np.ndarray | None = None,
    options: AdversarialTraining | None = None,
    insist: bool = True,
    seed: int = 0,
    device: str = "cpu",
) -> tuple[np.ndarray, FoundMap | None]:
    """Map static vectors into the space of a model's rows, which stay as they are.

    Args:
        static: V: vectors of tokens [n × d], most frequent first.
        anchor: U: rows of the model's embedding [m × d], most frequent tokens first.
        initialisation: With `-align`, they are mapped; otherwise they only get the mean and the spread of the rows.
        by: `orthogonal` rotates the vectors. `linear` predicts a token's row from its vector; it is fitted to the
            pairs, or to the tokens that are nearest neighbours of each other under the orthogonal map. Both give the
            spread of the model's rows about their mean, but predictions that explain nothing are left short.
        pairs: Indices of rows of both that belong together [pairs × 2]; if given, the map is fitted on them, and
            nothing is searched for.
        options: How the map is trained.
        insist: Reject a map of skip-gram vectors that is not better than chance.
        seed: Random seed.
        device: Where to train.

    Returns:
        float32 [n × d], and the result of the search for a map, if there was one.

    Raises:
        InputError: The widths differ.
        EvidenceError: The vectors could not be aligned with the embedding.
    """
    validate_matrices(static, anchor)
    options = resolve_options(options, static.shape[1])
    rows = prepare_space(static, options, "cpu").double().numpy()  # a component has a mean square of one
    mean = anchor.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(np.mean((anchor - mean) ** 2)))
    if not initialisation.endswith("-align"):
        return (mean + spread * rows).astype(np.float32), None
    is_trained = initialisation == "fasttext-align"  # random vectors carry nothing: their map is for comparison only
    found = None
    if pairs is None:
        found = find_map(static, anchor, options, insist=insist and is_trained, seed=seed, device=device)
        pairs = np.stack([found.agreement.source, found.agreement.target], axis=1)
    elif len(pairs) < static.shape[1]:
        raise EvidenceError(
            f"the two vocabularies have {len(pairs)} tokens in common, and vectors {static.shape[1]} wide need as many "
            'at least: align them by their shapes (aligned_by = "unsupervised")'
        )
    if by == "orthogonal":
        if found is not None:
            matrix = found.matrix
        else:
            prepared = prepare_space(anchor, options, "cpu").double().numpy()
            matrix, _ = orthogonal_procrustes(rows[pairs[:, 0]], prepared[pairs[:, 1]])
        return (mean + spread * rows @ matrix).astype(np.float32), found
    matrix, explained = fit_linear_map(rows, anchor - mean, pairs)
    logger.info("The vectors explain %.1f%% of the variance of the model's embeddings.", 100 * explained)
    predicted: np.ndarray = rows @ matrix
    is_reliable = explained >= MIN_EXPLAINED if found is None else found.converged
    if is_reliable:
        # Ridge regression shrinks its predictions; a model expects rows of the usual length. Zero rows do not count.
        length = float(np.sqrt(np.mean(predicted[rows.any(axis=1)] ** 2)))
        predicted *= spread / max(length, 1e-30)
    elif is_trained:
        logger.warning(
            "The vectors of %d common tokens explain nothing of the model's embeddings, so that all rows stay close to "
            "their mean: train vectors on more text.",
            len(pairs),
        )
    return (mean + predicted).astype(np.float32), found


def identical_tokens(target: Sequence[TokenForm], source: Sequence[TokenForm]) -> np.ndarray:
    """Return which target tokens are written like which source tokens, as indices of both, int64 [pairs × 2]."""
    indices = {form: index for index, form in enumerate(source) if len(form.text) >= MIN_LETTERS}
    pairs = [(index, indices[form]) for index, form in enumerate(target) if form in indices]
    return np.array(pairs, np.int64).reshape(-1, 2)


def fit_linear_map(rows: np.ndarray, deviations: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, float]:
    """Fit the linear map that predicts how far a model's rows are from their mean, by ridge regression.

    The penalty is the one under which each pair is predicted best by all others. Unlike an orthogonal map, it makes
    short rows if the vectors explain little of the model's.

    Args:
        rows: Prepared vectors [n × d].
        deviations: The model's rows without their mean [m × d].
        pairs: Indices of both [pairs × 2].

    Returns:
        M [d × d], and the share of the variance of a pair's row that a map of the other pairs explains beyond the mean
        of all pairs; it may be negative.
    """
    if not len(pairs):
        return np.zeros((rows.shape[1], rows.shape[1])), 0.0
    known, expected = rows[pairs[:, 0]], deviations[pairs[:, 1]]
    # With X = known, Y = expected and XᵀX = A diag(v) Aᵀ, the map of a penalty p is A diag(1 / (v + p)) (X A)ᵀ Y.
    variances, axes = np.linalg.eigh(known.T @ known)
    turned = known @ axes
    product = turned.T @ expected

    def squared_error(penalty: float) -> float:
        """Return the mean square error of a pair's row under the map of all others.

        It is the residual over 1 - leverage (the diagonal of the hat matrix), so that one fit serves all pairs.
        """
        weights = 1 / (variances + penalty)
        residuals = expected - turned @ (weights[:, None] * product)
        leverage = turned**2 @ weights
        return float(np.mean((residuals / (1 - leverage)[:, None]) ** 2))

    penalty = min(PENALTIES * len(pairs), key=squared_error)
    fitted = axes @ (product / (variances + penalty)[:, None])
    variance = float(np.mean((expected - expected.mean(axis=0)) ** 2))
    explained = 1 - squared_error(penalty) / variance if variance else 0.0
    return fitted, explained
