"""Compress the embedding of a model.

tables:    codes of all tokens → tables fitted to these codes → a model of the compressed class, and a report
low rank:  two factors by truncated SVD                       → a model of the compressed class, and a report
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from relexify.errors import GraftError, InputError
from relexify.methods.ofa import factorise
from relexify.pretrained.kinds import kind_of_config
from relexify.pretrained.parameters.lexical import weight_rows
from relexify.progress import ONCE
from relexify.systems.compression.codes import codes_of, smallest_base, table_sizes
from relexify.systems.compression.embedding import FactoredHead, SubEmbedding
from relexify.systems.compression.low_rank import LowRankEmbedding, LowRankHead
from relexify.systems.compression.model import (
    Layout,
    compressed_class,
    drop_missing_ties,
    install,
    is_compressed,
)
from relexify.systems.compression.options import Compression, check_options
from relexify.systems.compression.tables import fitted_tables, reconstruction_error, shared_digits

__all__ = ["CompressionReport", "compressed"]

LARGEST_EXPONENT = 40
"""Embeddings are scaled if their largest absolute value is above 2^40 or below 2^-40: squares of much larger values,
and sums of such squares, overflow float32."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompressionReport:
    """Statistics of a compression.

    Attributes:
        tokens: Size of the vocabulary.
        shapes: Rows and width of each table, or of both factors.
        head: The form of the compressed head, as in `Layout`.
        embedding_before: Number of parameters of the input embedding, and of the head if it was compressed separately.
        embedding_after: Number of parameters of the tables.
        model_before: Number of parameters of the whole model; tied parameters are counted once.
        model_after: Number of parameters of the compressed model.
        error: |E - Ê| / |E| of the input embedding; None for random tables.
        shared_nearest: Average number of digits that a token shares with its nearest neighbour; None without codes.
        shared_random: Average number of digits that a token shares with a random token; None without codes.
    """

    tokens: int
    shapes: list[tuple[int, int]]
    head: str
    embedding_before: int
    embedding_after: int
    model_before: int
    model_after: int
    error: float | None
    shared_nearest: float | None = None
    shared_random: float | None = None


def compressed(
    model: PreTrainedModel,
    options: Compression | None = None,
    *,
    pretrained: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    make_codes: Callable[[np.ndarray, Compression], np.ndarray] = codes_of,
) -> tuple[PreTrainedModel, CompressionReport]:
    """Return a copy of a model with sub-embeddings, or factors, in place of its embedding and its tied head.

    Args:
        model: A transformers model; it is not changed.
        options: How to compress it.
        pretrained: Rows to cluster and to compare tokens by [N × any width]; by default, the model's own rows.
        weights: Weights of the tokens in the least-squares fit of tables, such as their frequency [N].
        make_codes: Returns codes [N × k], given rows [N × d] and the options.

    Raises:
        InputError: An option is impossible for this model, or the weights do not match its tokens.
        GraftError: The model has no embedding that can be replaced, or is already compressed.
        MissingExtra: scikit-learn is not installed, which clustering needs.
    """
    options = options or Compression()
    if is_compressed(model):
        raise GraftError(f"this {type(model).__name__} is already compressed: expand it first, or give the plain model")
    if (kind := kind_of_config(model.config)) is not None:  # the result could not be loaded, since it has two kinds
        raise GraftError(f"a {kind.name} cannot be compressed: give a model of transformers")
    embedding = model.get_input_embeddings()
    if embedding is None or getattr(embedding, "weight", None) is None:
        raise GraftError(f"{type(model).__name__} has no input embedding to compress")
    rows, exponent = _scaled(weight_rows(embedding), "the embedding")
    check_options(options, *rows.shape)
    coded_rows = rows if pretrained is None else _scaled(np.asarray(pretrained, np.float32), "`codes_from`")[0]
    if len(coded_rows) != len(rows):
        raise InputError(
            f"there are {len(coded_rows):,} pretrained rows, but the model has {len(rows):,}: give a model with the "
            "same vocabulary"
        )
    weights = None if weights is None else _checked_weights(weights, len(rows))

    head = model.get_output_embeddings()
    head_form = _head_form(model, embedding, head, options)
    if options.rank is not None:
        return _in_factors(model, options.rank, head_form)
    base = options.clusters or smallest_base(len(rows), options.k)
    codes = make_codes(coded_rows, options)
    head_codes = head_sizes = None
    if head_form == "own":
        head_rows, head_exponent = _scaled(weight_rows(head), "the head")
        head_codes = make_codes(head_rows, options)
        head_sizes = table_sizes(head_codes, base)
    small = _convert(model, Layout(table_sizes(codes, base), head_form, head_sizes), options.seed)

    sub_embedding = small.get_input_embeddings()
    parts = [sub_embedding]
    error = _fill(sub_embedding, rows, exponent, codes, options, weights)
    if head_codes is not None:
        small_head: FactoredHead = small.get_output_embeddings()
        parts.append(small_head.embedding)
        _fill(small_head.embedding, head_rows, head_exponent, head_codes, options)
    with_neighbour, with_other = shared_digits(coded_rows, codes, seed=options.seed)
    report = _report(model, small, parts, head_form, error)
    return small, replace(report, shared_nearest=with_neighbour, shared_random=with_other)


def _in_factors(model: PreTrainedModel, rank: int, head_form: str) -> tuple[PreTrainedModel, CompressionReport]:
    """Return a copy of a model with the best factors of its embedding, and of its head if it has its own embedding."""
    small = _convert(model, Layout([], head_form, rank=rank))
    embedding: LowRankEmbedding = small.get_input_embeddings()
    error = _fill_factors(embedding, *_scaled(weight_rows(model.get_input_embeddings()), "the embedding"), rank)
    parts = [embedding]
    if head_form == "own":
        small_head: LowRankHead = small.get_output_embeddings()
        _fill_factors(small_head.embedding, *_scaled(weight_rows(model.get_output_embeddings()), "the head"), rank)
        parts.append(small_head.embedding)
    return small, _report(model, small, parts, head_form, error)


def _fill_factors(embedding: LowRankEmbedding, rows: np.ndarray, exponent: int, rank: int) -> float:
    """Write the best factors of rows · 2^exponent, and return the error of the stored factors."""
    coordinates, basis = _balanced_factors(rows, rank)
    embedding.fill(np.ldexp(coordinates, exponent // 2), np.ldexp(basis, exponent - exponent // 2))
    stored = weight_rows(embedding)  # in the dtype of the model
    _check_stored(stored)
    norm = float(np.linalg.norm(rows))
    return float(np.linalg.norm(rows - np.ldexp(stored, -exponent))) / norm if norm else 0.0


def _balanced_factors(rows: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best factors F [N × r] and P [r × d] of rows [N × d], scaled to equal root mean squares.

    In the result of `factorise`, the rows of P are orthonormal, so the factors differ in size. With the same learning
    rate for both, every step would then change the smaller factor by a larger share.
    """
    coordinates, basis = factorise(rows, rank)
    size, basis_size = (float(np.sqrt(np.mean(np.square(factor)))) for factor in (coordinates, basis))
    scale = np.float32(np.sqrt(basis_size / size) if size else 1.0)
    return coordinates * scale, basis / scale


def _scaled(rows: np.ndarray, name: str) -> tuple[np.ndarray, int]:
    """Return scaled rows whose products fit into float32, and the exponent e: the given rows are scaled rows · 2^e.

    Rows of ordinary size are returned unchanged. Scaling by a power of two is exact.

    Raises:
        GraftError: The rows have NaN or infinite values.
    """
    if not np.isfinite(rows).all():
        raise GraftError(f"{name} has NaN or infinite values in float32: check the weights of the model")
    largest = int(np.frexp(np.abs(rows).max(initial=0))[1])
    exponent = largest - int(np.clip(largest, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    return (np.ldexp(rows, -exponent), exponent) if exponent else (rows, 0)


def _check_stored(values: np.ndarray) -> None:
    """Validate values in the dtype of the model; an approximated value may exceed the largest number of the dtype."""
    if not np.isfinite(values).all():
        raise GraftError("the compressed embedding overflows: scale the embedding down, or load it in a wider dtype")


def _report(
    model: PreTrainedModel,
    small: PreTrainedModel,
    parts: Sequence[SubEmbedding | LowRankEmbedding],
    head: str,
    error: float | None,
) -> CompressionReport:
    """Return the sizes of a model before and after; `parts` are the small embeddings of input and head."""
    return CompressionReport(
        tokens=parts[0].num_embeddings,
        shapes=[(parameter.shape[0], parameter.shape[1]) for parameter in parts[0].parameters()],
        head=head,
        embedding_before=sum(part.num_embeddings * part.embedding_dim for part in parts),
        embedding_after=sum(parameter.numel() for part in parts for parameter in part.parameters()),
        model_before=sum(parameter.numel() for parameter in model.parameters()),
        model_after=sum(parameter.numel() for parameter in small.parameters()),
        error=error,
    )


def _checked_weights(weights: np.ndarray, tokens: int) -> np.ndarray:
    checked = np.asarray(weights)
    if checked.shape != (tokens,) or checked.dtype.kind not in "iufb":
        found = f"{checked.dtype} {list(checked.shape)}"
        raise InputError(f"the weights are {found}: expected a number for each token [{tokens}]")
    invalid = ~(np.isfinite(checked) & (checked >= 0))
    if invalid.any():
        token = int(np.flatnonzero(invalid)[0])
        raise InputError(f"the weight of token {token} is {checked[token]}: weights are 0 or more, and finite")
    return checked


def _head_form(model: PreTrainedModel, embedding: nn.Module, head: nn.Module | None, options: Compression) -> str:
    """Return the form of the compressed model's head, as in `Layout`."""
    if head is None:
        return "plain"
    if getattr(head, "weight", None) is embedding.weight:
        return "tied"
    if options.head == "compress":
        return "own"
    logger.info(
        "the head of %s is not tied to its embedding: it keeps its %s parameters (see `head=compress`)",
        type(model).__name__,
        f"{head.weight.numel():,}",  # type: ignore[operator]
        extra=ONCE,
    )
    return "plain"


def _convert(model: PreTrainedModel, layout: Layout, seed: int = 0) -> PreTrainedModel:
    """Return a copy of the model, of the compressed class and with random tables."""
    small = copy.deepcopy(model)
    small.__class__ = compressed_class(type(model))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        install(small, layout)
    drop_missing_ties(small)
    return small


def _fill(
    sub_embedding: SubEmbedding,
    rows: np.ndarray,
    exponent: int,
    codes: np.ndarray,
    options: Compression,
    weights: np.ndarray | None = None,
) -> float | None:
    """Write codes, and tables fitted to rows · 2^exponent unless they stay random; return the error of the tables."""
    if options.init == "random":
        sub_embedding.fill(codes)
        return None
    tables = fitted_tables(rows, codes, sub_embedding.rows, weights=weights)
    sub_embedding.fill(codes, [np.ldexp(table, exponent) for table in tables])
    for table in sub_embedding.tables:
        _check_stored(table.detach().float().cpu().numpy())
    return reconstruction_error(rows, codes, tables)
