"""WECHSEL's mixtures for every k and τ of a grid, from one search (Minixhofer et al., 2022, Appendix A)."""

from __future__ import annotations

from collections.abc import Sequence

from relexify.errors import InputError
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.wechsel import search_neighbours, weigh_neighbours
from relexify.mixture import Mixture

__all__ = ["neighbour_grid"]


def neighbour_grid(
    source: SubwordVectors,
    target: SubwordVectors,
    *,
    neighbours: Sequence[int] = (1, 10, 50),
    temperatures: Sequence[float] = (0.1, 1.0),
    device: str = "cpu",
) -> dict[tuple[int, float], Mixture]:
    """Mix every covered target token with each number of neighbours and each temperature.

    The nearest k are the first k of the nearest K, so one search for the largest number serves all cells; each is
    what `vector_neighbours` would have made. A single neighbour has all the weight at every temperature.

    Args:
        source: Vectors of the old tokens.
        target: Vectors of the new tokens, in the same space.
        neighbours: Values of k.
        temperatures: Values of τ.
        device: Where to search: `"cpu"` or a torch device.

    Returns:
        Mixtures by k and τ, in the order given.

    Raises:
        InputError: A list is empty or has an impossible value, or the two sides have different widths.
        EvidenceError: One side has no vector at all.
    """
    if not neighbours or not temperatures:
        raise InputError("a grid needs at least one number of neighbours and one temperature")
    if min(neighbours) < 1:
        raise InputError(f"at least 1 neighbour is needed, not {min(neighbours)}")
    found = search_neighbours(source, target, neighbours=max(neighbours), device=device)
    return {
        (count, temperature): weigh_neighbours(found.first(count), source, target, temperature=temperature)
        for count in neighbours
        for temperature in temperatures
    }
