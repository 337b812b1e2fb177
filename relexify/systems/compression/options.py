"""How a model is compressed, as plain values that a recipe can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relexify.errors import InputError
from relexify.steps import ModelName
from relexify.systems.compression.codes import split_width

__all__ = ["Compression", "check_options"]


@dataclass(frozen=True)
class Compression:
    """How a model is compressed.

    Attributes:
        k: Tables, and digits of a code.
        clusters: Rows of a table, M; ⌈N^(1/k)⌉ if not given. The last table of plain k-means may need more.
        codes: `clustered`: by k-means on pretrained rows (Algorithm 2), `digits`: by counting (Algorithm 1), or
            `random`: drawn, so that all tables are used alike.
        codes_from: The name of a model with the same vocabulary, whose embedding is clustered in place of the model's
            own; for models that know nothing yet.
        equal_size: Bound the clusters, so that no table needs more than M rows.
        init: `least-squares`: what keeps most of the embedding, or `random`: as the model draws its embedding.
        head: What to do with a head that is not tied: `keep` it, or `compress` it too.
        seed: Of k-means, of random codes and of random tables.
    """

    k: int = 3
    clusters: int | None = None
    codes: Literal["clustered", "digits", "random"] = "clustered"
    codes_from: ModelName | None = None
    equal_size: bool = False
    init: Literal["least-squares", "random"] = "least-squares"
    head: Literal["keep", "compress"] = "keep"
    seed: int = 0


def check_options(options: Compression, tokens: int, width: int) -> None:
    """Refuse what is impossible for an embedding [tokens × width].

    Raises:
        InputError: An option has an impossible value.
    """
    split_width(width, options.k)
    if options.codes not in ("clustered", "digits", "random"):
        raise InputError(f"there are no codes {options.codes!r}: choose clustered, digits or random")
    if options.init not in ("least-squares", "random"):
        raise InputError(f"there is no initialisation {options.init!r}: choose least-squares or random")
    if options.head not in ("keep", "compress"):
        raise InputError(f"a head cannot be told to {options.head!r}: choose keep or compress")
    kind = {"digits": "counted", "random": "random"}.get(options.codes)
    if kind is not None and options.equal_size:
        raise InputError(f"{kind} codes have no clusters whose size could be equal: leave out one of the two")
    if kind is not None and options.codes_from is not None:
        raise InputError(f"{kind} codes follow no model's rows: leave out codes_from, or choose clustered codes")
    if options.clusters is not None and not 1 <= options.clusters <= tokens:
        raise InputError(f"{options.clusters} rows a table are not possible: give 1 to {tokens:,}, as many as tokens")
    if options.seed < 0:
        raise InputError(f"seed = {options.seed} is not possible: give 0 or more")
