"""Embedding initialisation (section 3.1): static vectors of the joint vocabulary, mapped into the model's space.

U contains rows of the model's embedding, V the static vectors of the joint vocabulary's tokens, both with the most
frequent tokens first. U is not changed; V is centred, scaled to unit length and mapped:

    orthogonal   mean(U) + spread(U) · V W        W found without pairs, by adversarial training (Eqs. 1 and 2),
                                                  principal axes or frequency; or fitted to tokens in both vocabularies
    linear       mean(U) + V M                    M by ridge regression on the tokens that W maps to each other

The paper's map is orthogonal after refinement. A linear map predicts the model's rows better, because the vectors
contain only a part of the information in a row, and more of it in some directions than in others.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.alignment.orthogonal import fit_orthogonal
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining, resolve_options
from relexify.evidence.alignment.unsupervised.search import FoundMap, find_map
from relexify.evidence.alignment.unsupervised.spaces import prepare_space, validate_matrices
from relexify.evidence.vectors import WordVectors
from relexify.systems.trelm.method_options import Map, RowSource
from relexify.tokens import TokenForm, Vocabulary

__all__ = ["embedding_rows", "fit_linear_map", "identical_tokens", "static_vectors"]

MIN_EXPLAINED = 0.01
"""Minimum share of the variance of the model's rows that trusted vectors explain. Random vectors explained -0.01,
trained ones 0.08 to 0.13."""
MIN_LETTERS = 2
"""Shorter tokens can be parts of any word, so they carry little meaning in either vocabulary."""
PENALTIES = np.geomspace(1e-3, 10, 13)
"""Candidate ridge penalties, relative to the variance of a component, which is one on average."""

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
        vectors: Vectors of its tokens by their spelling, most frequent first; tokens without one are omitted. If None,
            all tokens get a random vector, which depends only on the seed and the id.
        width: Width of random vectors.
        counts: Number of occurrences of each token in text of the source language [vocabulary]. If given, tokens are
            sorted by it, so that a map is fitted on tokens of the model's language, not on those frequent in both.
        seed: Random seed.

    Returns:
        The ids of the tokens, int64 [n], without special tokens, and their vectors, float32 [n × width].
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
        # Drawn for the whole vocabulary, so that a token's vector depends neither on the order nor on other tokens.
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
    """Map static vectors into the space of a model's rows, which are not changed.

    Args:
        static: V: vectors of tokens [n × d], most frequent first.
        anchor: U: rows of the model's embedding [m × d], most frequent tokens first.
        initialisation: With `-align`, vectors are mapped; otherwise they only get the mean and spread of the rows.
        by: `orthogonal` rotates the vectors. `linear` predicts a token's row from its vector; it is fitted to the
            pairs, or to the mutual nearest neighbours under the orthogonal map. Results of both are scaled to the
            spread of the model's rows about their mean, except predictions that explain nothing, which are left short.
        pairs: Indices of corresponding rows of both matrices [pairs × 2]; if given, the map is fitted on them, and not
            searched for.
        options: How the map is trained.
        insist: Reject a map of skip-gram vectors that is not better than chance.
        seed: Random seed.
        device: The device to train on.

    Returns:
        The rows, float32 [n × d], and the result of the search for a map, if there was one.

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
    is_trained = initialisation == "fasttext-align"  # random vectors have no information; mapping them is a baseline
    found_map = None
    if pairs is None:
        found_map = find_map(static, anchor, options, insist=insist and is_trained, seed=seed, device=device)
        pairs = np.stack([found_map.agreement.source, found_map.agreement.target], axis=1)
    elif len(pairs) < static.shape[1]:
        raise EvidenceError(
            f"the two vocabularies have {len(pairs)} tokens in common, but vectors of width {static.shape[1]} need at "
            "least as many: align them without pairs (`aligned_by=unsupervised`)"
        )
    if by == "orthogonal":
        if found_map is not None:
            matrix = found_map.matrix
        else:
            prepared = prepare_space(anchor, options, "cpu").double().numpy()
            matrix = fit_orthogonal(rows[pairs[:, 0]], prepared[pairs[:, 1]])
        return (mean + spread * rows @ matrix).astype(np.float32), found_map
    matrix, explained = fit_linear_map(rows, anchor - mean, pairs)
    logger.info("the vectors explain %.1f%% of the variance of the model's embeddings", 100 * explained)
    predicted: np.ndarray = rows @ matrix
    is_reliable = explained >= MIN_EXPLAINED if found_map is None else found_map.converged
    if is_reliable:
        # Ridge regression shrinks its predictions, but a model expects rows of the usual length. Ignore zero rows.
        length = float(np.sqrt(np.mean(predicted[rows.any(axis=1)] ** 2)))
        predicted *= spread / max(length, 1e-30)
    elif is_trained:
        logger.warning(
            "the vectors of %d common tokens do not explain any variance of the model's embeddings, so all rows remain "
            "close to their mean: train vectors on more text",
            len(pairs),
        )
    return (mean + predicted).astype(np.float32), found_map


def identical_tokens(target: Sequence[TokenForm], source: Sequence[TokenForm]) -> np.ndarray:
    """Return the pairs of target and source tokens with the same form, as indices of both, int64 [pairs × 2]."""
    indices = {form: index for index, form in enumerate(source) if len(form.text) >= MIN_LETTERS}
    pairs = [(index, indices[form]) for index, form in enumerate(target) if form in indices]
    return np.array(pairs, np.int64).reshape(-1, 2)


def fit_linear_map(rows: np.ndarray, deviations: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, float]:
    """Fit the linear map that predicts the deviations of a model's rows from their mean, by ridge regression.

    The penalty is chosen by leave-one-out cross-validation over the pairs. Unlike an orthogonal map, the linear map
    gives short rows if the vectors explain little of the model's rows.

    Args:
        rows: Prepared vectors [n × d].
        deviations: The model's rows minus their mean [m × d].
        pairs: Indices of corresponding rows of both [pairs × 2].

    Returns:
        M [d × d], and the share of the variance of a pair's row that is explained by a map fitted to the other pairs;
        it may be negative.
    """
    if not len(pairs):
        return np.zeros((rows.shape[1], rows.shape[1])), 0.0
    paired, expected = rows[pairs[:, 0]], deviations[pairs[:, 1]]
    # With X = paired, Y = expected and XᵀX = A diag(v) Aᵀ, the map for a penalty p is A diag(1 / (v + p)) (X A)ᵀ Y.
    variances, axes = np.linalg.eigh(paired.T @ paired)
    rotated = paired @ axes
    product = rotated.T @ expected

    def squared_error(penalty: float) -> float:
        """Return the mean squared error of a pair's row under the map that is fitted to all other pairs.

        The error of such a map is the residual divided by 1 - leverage (the diagonal of the hat matrix), so one fit is
        enough for all pairs.
        """
        weights = 1 / (variances + penalty)
        residuals = expected - rotated @ (weights[:, None] * product)
        leverage = rotated**2 @ weights
        return float(np.mean((residuals / (1 - leverage)[:, None]) ** 2))

    penalty = min(PENALTIES * len(pairs), key=squared_error)
    fitted = axes @ (product / (variances + penalty)[:, None])
    variance = float(np.mean((expected - expected.mean(axis=0)) ** 2))
    explained = 1 - squared_error(penalty) / variance if variance else 0.0
    return fitted, explained
