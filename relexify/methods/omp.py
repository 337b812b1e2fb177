"""Tokenizer transplantation by orthogonal matching pursuit (Goddard and Fernandes Neto, 2025).

A target token's row in a donor model is approximated by the donor's rows of k shared tokens, u_x ≈ Σ_y a_xy u_y. They
are chosen greedily: each step adds the row with the largest product with the residual of u_x, and fits all coefficients
again by least squares. The same signed coefficients mix the rows of the source model: e_x = Σ_y a_xy e_y.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from relexify.errors import EvidenceError, check_number
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.parts.copying import shared, special
from relexify.methods.registry import METHODS, Method
from relexify.mixture import Mixture, Origin, first_of, mixture_of_weights, rows_to_csr
from relexify.processes import SharedArray, map_in_order
from relexify.progress import track
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["MatchingPursuit", "matching_pursuit", "omp"]

_BATCH = 32
"""Number of tokens that a process computes at a time: a tenth of a second of work."""
_DEPENDENT = 1e-6
"""A residual whose share of the squared norm is below this counts as rounding error."""


@dataclass(frozen=True)
class MatchingPursuit:
    """Options of the method `omp`.

    Attributes:
        atoms: Number of shared tokens that are mixed into one token, k.
        anchors: Maximum number of shared tokens that are used, those with the lowest ids; n of them take 4 n² bytes.
    """

    atoms: int = 64
    anchors: int = 16_384

    def __post_init__(self) -> None:
        check_number("atoms", self.atoms)
        check_number("anchors", self.anchors)


def omp(
    source_tokenizer: AnyVocabulary,
    target: SubwordVectors,
    *,
    options: MatchingPursuit | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Copy shared tokens, and mix the others by the coefficients that approximate their rows in a donor model.

    Args:
        source_tokenizer: The model's tokenizer.
        target: Rows of the target tokens in the donor model.
        options: The number of tokens to mix.
        overrides: Source token by target token, as in `special`.

    Raises:
        EvidenceError: No shared token has a row in the donor model.
    """
    options = options or MatchingPursuit()
    source, vocabulary = vocabulary_of(source_tokenizer), target.vocabulary
    copied = shared(source, vocabulary)
    anchors = np.flatnonzero(copied.known & target.covered)[: options.anchors]
    if not len(anchors):
        raise EvidenceError("the donor shares no token with the source model: choose a method with other evidence")
    ordinary = np.array([not form.is_special for form in vocabulary.forms])
    rows = np.flatnonzero(target.covered & ordinary & ~copied.known)
    chosen, coefficients = matching_pursuit(target.matrix[rows], target.matrix[anchors], options.atoms)
    size = len(vocabulary)
    among_targets = rows_to_csr(rows, anchors[chosen], coefficients, (size, size))
    # Each anchor represents the source token that it is copied from.
    weights = scipy.sparse.csr_array(among_targets @ copied.weights)
    mixed = mixture_of_weights(weights, source, vocabulary, method="omp", origin=Origin.MIXED)
    return first_of(special(source, vocabulary, overrides=overrides), copied, mixed, method="omp")


def matching_pursuit(signals: np.ndarray, atoms: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Approximate every signal by a combination of a few atoms.

    Args:
        signals: [n × d].
        atoms: [m × d].
        count: Number of atoms per signal, k; at most m are used.

    Returns:
        Indices of the atoms [n × k], int64, and their coefficients [n × k], float64. If a combination is exact with
        fewer atoms, the other coefficients are zero.
    """
    signals, count = np.ascontiguousarray(signals, dtype=np.float32), min(count, len(atoms))
    shared, products = SharedArray(atoms.shape, np.float32), SharedArray((len(atoms), len(atoms)), np.float32)
    shared.values[:] = atoms
    np.matmul(shared.values, shared.values.T, out=products.values)
    chosen = np.empty((len(signals), count), np.int64)
    coefficients = np.empty((len(signals), count))
    starts = range(0, len(signals), _BATCH)
    batches = (signals[start : start + _BATCH] for start in starts)
    # Worker processes use one thread each. The main process must too, because the number of threads may change the last
    # bits of products.
    with track("matching pursuit", len(signals)) as advance, threadpool_limits(limits=1, user_api="blas"):
        results = map_in_order(_Pursuit(shared, products, count), batches)
        for start, (indices, factors) in zip(starts, results, strict=True):
            chosen[start : start + _BATCH], coefficients[start : start + _BATCH] = indices, factors
            advance(len(indices))
    return chosen, coefficients


@dataclass(frozen=True)
class _Pursuit:
    """Matching pursuit for a batch of signals.

    Only the products of atoms with each other and with the signals are needed. Let q_t be the directions of the chosen
    atoms, orthogonalised one after another. The products of all atoms with q_t follow from their products with atom t
    and with the previous directions, so a step costs O(mt) instead of O(md).

    Attributes:
        atoms: [m × d].
        products: Products of the atoms with each other [m × m].
        count: Number of atoms per signal, k ≤ m.
    """

    atoms: SharedArray
    products: SharedArray
    count: int

    def __call__(self, signals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms of every signal [n × k], int64, and their coefficients [n × k], float64."""
        # Imported here, because the import is slow and validating options does not need it. On short arrays, BLAS calls
        # and array methods take half as long as numpy's operators.
        from scipy.linalg import solve_triangular
        from scipy.linalg.blas import isamax, saxpy

        products, count = self.products.values, self.count
        norms = products.diagonal().tolist()  # |a|² of the atoms
        chosen = np.zeros((len(signals), count), np.int64)
        coefficients = np.zeros((len(signals), count))
        residual_products = signals @ self.atoms.values.T  # products of the atoms with the residual of each signal
        directions = np.empty((count, len(products)), np.float32)  # products of the atoms with each direction q_t
        squares = np.empty(count, np.float32)  # |q_t|²
        shares = np.eye(count, dtype=np.float32)  # the atom of step t is Σ_j shares[t, j] q_j
        projections, work = np.empty(count, np.float32), np.empty(len(products), np.float32)
        for row, residual in enumerate(residual_products):
            limit = _DEPENDENT * abs(residual.item(isamax(residual)))
            used = 0
            while used < count:
                atom = isamax(residual)  # the index of the largest absolute value
                earlier = directions[:used, atom]
                share = np.divide(earlier, squares[:used], out=shares[used, :used])
                product = residual.item(atom)
                square = norms[atom] - share.dot(earlier).item()
                if abs(product) <= limit or square <= _DEPENDENT * norms[atom]:
                    break  # the combination is exact
                chosen[row, used], squares[used], projections[used] = atom, square, product / square
                used += 1
                if used == count:
                    break  # no atom is chosen after the last, so its direction is not needed
                direction = directions[used - 1]
                np.subtract(products[atom], share.dot(directions[: used - 1], out=work), out=direction)
                saxpy(direction, residual, a=-product / square)  # in place
            if used == 0:
                continue  # older versions of scipy reject an empty system
            coefficients[row, :used] = solve_triangular(
                shares[:used, :used], projections[:used], trans=1, lower=True, unit_diagonal=True, check_finite=False
            )
        return chosen, coefficients


METHODS.add(
    "omp",
    Method(
        becomes="the sum of shared tokens that is nearest to its row in a donor model",
        evidence="a model of the target language",
        paper="Goddard and Fernandes Neto 2025",
        build=lambda inputs: omp(
            inputs.source, inputs.donor_vectors, options=inputs.own_options(MatchingPursuit), overrides=inputs.overrides
        ),
        needs=("donor",),
        uses=("overrides",),
        options=MatchingPursuit,
    ),
)
