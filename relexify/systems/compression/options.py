"""Options of compression: the table `[compress]` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from relexify.errors import LARGEST_SEED, InputError, check_choices, check_number
from relexify.steps import ModelName
from relexify.storage.fingerprint import BY_CONTENT
from relexify.systems.compression.tables import split_width

__all__ = ["Compression", "check_options", "check_values"]


@dataclass(frozen=True)
class Compression:
    """Options of compression.

    Attributes:
        k: Number of tables, and of digits of a code.
        clusters: M, the number of rows of a table; default: ⌈N^(1/k)⌉. With plain k-means, the last table may need
            more.
        codes: `clustered`: k-means on pretrained rows (Algorithm 2); `digits`: the digits of the token's number
            (Algorithm 1); `random`: random codes that use all tables evenly.
        codes_from: A model with the same vocabulary, whose embedding is clustered; default: the model itself.
        equal_size: Limit the size of clusters, so that no table needs more than M rows.
        matched: Number the clusters of all cells so that tables fit them. If false, they are numbered at random, as in
            the paper.
        init: `least-squares` approximates the embedding best; `random` draws the tables as the model initialises its
            embedding.
        head: What happens to an output embedding that is not tied to the input embedding.
        rank: Instead of tables, use two factors of this rank: coordinates of every token, and a shared basis.
        seed: Random seed of k-means, of random codes and of random tables.
    """

    k: int = 3
    clusters: int | None = None
    codes: Literal["clustered", "digits", "random"] = "clustered"
    codes_from: ModelName | None = field(default=None, metadata=BY_CONTENT)
    equal_size: bool = False
    matched: bool = True
    init: Literal["least-squares", "random"] = "least-squares"
    head: Literal["keep", "compress"] = "keep"
    rank: int | None = None
    seed: int = 0


def check_values(options: Compression) -> None:
    """Validate options as far as possible without a model.

    Raises:
        InputError: An option has an impossible value, or two options contradict each other.
    """
    check_choices(options)
    # Codes that are not clustered have no options of clustering.
    kind = {"digits": "counted", "random": "random"}.get(options.codes)
    if kind is not None and options.equal_size:
        raise InputError(f"{kind} codes have no clusters whose size could be equal: leave out one of the two")
    if kind is not None and options.codes_from is not None:
        raise InputError(f"{kind} codes do not use a model's rows: leave out `codes_from`, or choose clustered codes")
    if kind is not None and not options.matched:
        raise InputError(f"{kind} codes have no clusters to number: leave out `matched`, or choose clustered codes")
    check_number("seed", options.seed, 0, LARGEST_SEED)
    for name in ("k", "clusters", "rank"):
        check_number(name, getattr(options, name))
    if options.rank is not None and options != Compression(rank=options.rank, head=options.head, seed=options.seed):
        raise InputError("with a rank there are no tables, codes and clusters: leave out their options, or the rank")


def check_options(options: Compression, tokens: int, width: int) -> None:
    """Validate options for an embedding [tokens × width].

    Raises:
        InputError: An option has an impossible value.
    """
    split_width(width, options.k)
    check_values(options)
    if options.rank is not None and options.rank >= width:
        raise InputError(f"an embedding of width {width} has no factors of rank {options.rank}: give 1 to {width - 1}")
    if options.clusters is not None and not 1 <= options.clusters <= tokens:
        raise InputError(f"{options.clusters} rows per table are not possible: give 1 to {tokens:,} (one per token)")
