"""Tokenizer transplantation by orthogonal matching pursuit (Goddard and Fernandes Neto, 2025).

A target token's row in a donor model is approximated by k rows of shared tokens there, u_x ≈ Σ_y a_xy u_y, chosen
greedily: each is the one with the largest product with what is left of u_x, and all coefficients are fitted again by
least squares. The same signed coefficients mix the rows of the source model: e_x = Σ_y a_xy e_y.
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
"""Tokens that a process computes at a time: a tenth of a second."""
_DEPENDENT = 1e-6
"""Share of a squared norm below which what is left of a row is rounding error."""


@dataclass(frozen=True)
class MatchingPursuit:
    """Options of the method `omp`.

    Attributes:
        atoms: Shared tokens that mix into one token, k.
        anchors: Shared tokens that take part at most, those with the lowest ids; n of them take 4 n² bytes.
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
    """Copy shared tokens, and mix the others as their rows in a donor model are mixed from those of shared tokens.

    Args:
        source_tokenizer: The model's tokenizer.
        target: Rows of the target tokens in the donor model.
        options: How many tokens are mixed.
        overrides: Source token by target token, as `special` takes them.

    Raises:
        EvidenceError: No shared token has a row in the donor model.
    """
    options = options or MatchingPursuit()
    source, vocabulary = vocabulary_of(source_tokenizer), target.vocabulary
    copied = shared(source, vocabulary)
    anchors = np.flatnonzero(copied.known & target.covered)[: options.anchors]
    if not len(anchors):
        raise EvidenceError("the donor has no token that the source model has too: choose a method with other evidence")
    ordinary = np.array([not form.is_special for form in vocabulary.forms])
    rows = np.flatnonzero(target.covered & ordinary & ~copied.known)
    chosen, coefficients = matching_pursuit(target.matrix[rows], target.matrix[anchors], options.atoms)
    size = len(vocabulary)
    among_targets = rows_to_csr(rows, anchors[chosen], coefficients, (size, size))
    # Each anchor stands for the one source token that it is copied from.
    weights = scipy.sparse.csr_array(among_targets @ copied.weights)
    mixed = mixture_of_weights(weights, source, vocabulary, method="omp", origin=Origin.MIXED)
    return first_of(special(source, vocabulary, overrides=overrides), copied, mixed, method="omp")


def matching_pursuit(signals: np.ndarray, atoms: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Approximate every signal by a combination of a few atoms.

    Args:
        signals: [n × d].
        atoms: [m × d].
        count: Atoms per signal, k; at most m are used.

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
    # Other processes have one thread each, and products with another number of threads may differ in their last bits.
    with track("matching pursuit", len(signals)) as advance, threadpool_limits(limits=1, user_api="blas"):
        found = map_in_order(_Pursuit(shared, products, count), batches)
        for start, (indices, factors) in zip(starts, found, strict=True):
            chosen[start : start + _BATCH], coefficients[start : start + _BATCH] = indices, factors
            advance(len(indices))
    return chosen, coefficients


@dataclass(frozen=True)
class _Pursuit:
    """Matching pursuit for a batch of signals.

    Only products of atoms with one another and with the signals are needed. With q_t the directions of the chosen
    atoms, made orthogonal in turn, the products of all atoms with q_t follow from those with the atom and with the
    directions before it, so that a step costs O(mt) instead of O(md).

    Attributes:
        atoms: [m × d].
        products: Of the atoms with one another [m × m].
        count: Atoms per signal, k ≤ m.
    """

    atoms: SharedArray
    products: SharedArray
    count: int

    def __call__(self, signals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms of every signal [n × k], int64, and their coefficients [n × k], float64."""
        # Slow to import, and options are validated without them. Calls of BLAS and of methods take half as long as
        # numpy's operators, which matters for short arrays.
        from scipy.linalg import solve_triangular
        from scipy.linalg.blas import isamax, saxpy

        products, count = self.products.values, self.count
        norms = products.diagonal().tolist()  # |a|² of the atoms
        chosen = np.zeros((len(signals), count), np.int64)
        coefficients = np.zeros((len(signals), count))
        remaining = signals @ self.atoms.values.T  # products of the atoms with what is left of each signal
        directions = np.empty((count, len(products)), np.float32)  # products of the atoms with each direction q_t
        squares = np.empty(count, np.float32)  # |q_t|²
        shares = np.eye(count, dtype=np.float32)  # the atom of step t is Σ_j shares[t, j] q_j
        projections, work = np.empty(count, np.float32), np.empty(len(products), np.float32)
        for row, left in enumerate(remaining):
            limit = _DEPENDENT * abs(left.item(isamax(left)))
            used = 0
            while used < count:
                atom = isamax(left)  # the largest by absolute value
                earlier = directions[:used, atom]
                share = np.divide(earlier, squares[:used], out=shares[used, :used])
                product, square = left.item(atom), norms[atom] - share.dot(earlier).item()
                if abs(product) <= limit or square <= _DEPENDENT * norms[atom]:
                    break  # the combination is exact
                chosen[row, used], squares[used], projections[used] = atom, square, product / square
                used += 1
                if used == count:
                    break  # no atom is chosen after the last, so its direction is not needed
                direction = directions[used - 1]
                np.subtract(products[atom], share.dot(directions[: used - 1], out=work), out=direction)
                saxpy(direction, left, a=-product / square)  # in place
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
