"""OFA: neighbours in multilingual word vectors, in a factorised embedding (Liu et al., 2024).

u_x is the mean of the vectors of the words that contain x. Shared tokens are copied. For the others,
e_x = Σ_y softmax(cos(u_x, u_y) / τ) e_y over the k nearest source tokens y; tokens without a u_x get a random row, with
the mean and variance of the source rows.

With a rank r, the embedding is first factorised by a truncated SVD, E ≈ F P with F [tokens × r] and P [r × d]. The same
mixture is applied to the coordinates F, and random coordinates have their mean and variance; the rows are those of
F_target P.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import InputError, check_number
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.parts.copying import shared, special
from relexify.methods.parts.token_space import Neighbours, search_neighbours
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.methods.wechsel import weigh_neighbours
from relexify.mixture import Mixture, PrecomputedRows, first_of

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs

__all__ = ["OfaOptions", "factorise", "low_rank_rows", "ofa"]


@dataclass(frozen=True)
class OfaOptions:
    """Options of the method `ofa`.

    Attributes:
        rank: Width of the factorised embedding; default: it is not factorised.
    """

    rank: int | None = None

    def __post_init__(self) -> None:
        check_number("rank", self.rank)


def ofa(
    source: SubwordVectors,
    target: SubwordVectors,
    *,
    found: Neighbours | None = None,
    neighbours: int = 10,
    temperature: float = 0.1,
    overrides: Mapping[str, str] | None = None,
    device: str = "cpu",
) -> Mixture:
    """Copy shared tokens, and mix the others from their neighbours in multilingual vectors.

    Args:
        source: Vectors of the source tokens: means of the vectors of their words.
        target: Vectors of the target tokens, in the same space.
        found: The neighbours, if they have already been searched for.
        neighbours: k, the number of source tokens that are mixed into one target token.
        temperature: τ of the softmax.
        overrides: Source token by target token, as in `special`.
        device: The device to search on: `"cpu"` or a torch device.

    Raises:
        InputError: The vectors of the two sides have different widths.
        EvidenceError: One side has no vectors.
    """
    found = found or search_neighbours(source, target, neighbours=neighbours, device=device)
    mixed = weigh_neighbours(found, source, target, temperature=temperature)
    special_tokens = special(source.vocabulary, target.vocabulary, overrides=overrides)
    return first_of(special_tokens, shared(source.vocabulary, target.vocabulary), mixed, method="ofa")


def factorise(embedding: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best approximation F P of an embedding [n × d]: coordinates F [n × r] and primitives P [r × d].

    Raises:
        InputError: The rank is not smaller than the width.
    """
    width = embedding.shape[1]
    if not 1 <= rank < width:
        raise InputError(f"an embedding of width {width} has no factors of rank {rank}: give 1 to {width - 1}")
    # The right singular vectors of E are the eigenvectors of EᵀE, which is only [d × d].
    rows = np.asarray(embedding, dtype=np.float64)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    primitives = vectors[:, : -rank - 1 : -1].T  # `eigh` returns the largest eigenvalues last
    return (rows @ primitives.T).astype(np.float32), primitives.astype(np.float32)


def low_rank_rows(mixture: Mixture, embedding: np.ndarray, rank: int, *, seed: int = 0) -> np.ndarray:
    """Return the rows F_target P of all target tokens [target × d] for a source embedding [source × d]."""
    coordinates, primitives = factorise(embedding[: len(mixture.source_tokens)], rank)
    target_coordinates = mixture.apply(coordinates)
    empty = ~mixture.known
    noise = np.random.default_rng(seed).standard_normal((int(empty.sum()), rank))
    target_coordinates[empty] = coordinates.mean(axis=0) + coordinates.std(axis=0) * noise
    rows: np.ndarray = target_coordinates @ primitives
    return rows


def _build(inputs: Inputs) -> Initialisation:
    space = inputs.token_space("words", weighted=False)
    found = space.nearest(inputs.neighbours, device=inputs.device)
    mixture = ofa(space.source, space.target, found=found, temperature=inputs.temperature, overrides=inputs.overrides)
    rank, output = inputs.own_options(OfaOptions).rank, inputs.output_embedding
    if rank is None:
        return Initialisation(mixture, rotation=space.rotation)
    rows = PrecomputedRows(
        np.arange(len(mixture)),
        low_rank_rows(mixture, inputs.embedding, rank, seed=inputs.seed),
        None if output is None else low_rank_rows(mixture, output, rank, seed=inputs.seed),
    )
    return Initialisation(mixture, precomputed=rows, rotation=space.rotation)


METHODS.add(
    "ofa",
    Method(
        becomes="its nearest source tokens in multilingual word vectors",
        evidence="multilingual word vectors; or as for wechsel",
        paper="Liu et al. 2024",
        build=_build,
        uses=("vectors", "dictionary", "neighbours", "embedding", "overrides"),
        options=OfaOptions,
    ),
)
