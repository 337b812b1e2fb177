"""Compress a model: codes for its tokens, tables for its embedding, and a report of what that keeps."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from relexify.errors import GraftError, InputError
from relexify.systems.compression.clustering import clustered_codes
from relexify.systems.compression.codes import digit_codes, random_codes, smallest_base, table_sizes
from relexify.systems.compression.embedding import SubEmbedding
from relexify.systems.compression.head import FactoredHead
from relexify.systems.compression.model import Layout, compressed_class, forget_ties, install, is_compressed
from relexify.systems.compression.options import Compression, check_options
from relexify.systems.compression.tables import fitted_tables, reconstruction_error, shared_digits

__all__ = ["CodeMaker", "CompressionReport", "codes_of", "compressed"]

CodeMaker = Callable[[np.ndarray, Compression], np.ndarray]
"""Rows [N × d] and how to compress them in, codes [N × k] out."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompressionReport:
    """What a compression changed.

    Attributes:
        tokens: Of the vocabulary.
        shapes: Of the tables, rows and width.
        head: What became of the head, as in `Layout`.
        embedding_before: Parameters of the input embedding, and of the head where it was compressed too.
        embedding_after: Those of the tables.
        model_before: Parameters of the whole model, tied ones once.
        model_after: Of the compressed one.
        error: |E - Ê| / |E| of the input embedding; None for random tables.
        shared_nearest: Digits that a token shares with its nearest neighbour, on average.
        shared_random: Digits that it shares with a token at random.
    """

    tokens: int
    shapes: list[tuple[int, int]]
    head: str
    embedding_before: int
    embedding_after: int
    model_before: int
    model_after: int
    error: float | None
    shared_nearest: float
    shared_random: float


def compressed(
    model: Any,
    options: Compression | None = None,
    *,
    pretrained: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    codes_by: CodeMaker | None = None,
) -> tuple[Any, CompressionReport]:
    """A copy of a model with sub-embeddings in place of its embedding and its tied head.

    Args:
        model: A transformers model; it stays as it is.
        options: How.
        pretrained: Rows to cluster and to compare tokens by [N × any]; the model's own if not given.
        weights: Of the tokens in the least-squares fit, such as their frequency [N].
        codes_by: Makes the codes; `codes_of` if not given.

    Raises:
        InputError: An option is impossible for this model, or the weights do not fit its tokens.
        GraftError: The model has no embedding that can be replaced, or it is compressed already.
        MissingExtra: scikit-learn is not installed, which clustering needs.
    """
    options = options or Compression()
    embedding = _embedding_of(model)
    rows = embedding.weight.detach().float().cpu().numpy()
    check_options(options, *rows.shape)
    known = rows if pretrained is None else np.asarray(pretrained, dtype=np.float32)
    if len(known) != len(rows):
        raise InputError(f"the pretrained rows are {len(known):,}, the model's {len(rows):,}: the vocabularies differ")
    weights = None if weights is None else _checked_weights(weights, len(rows))
    codes_by = codes_by or codes_of
    codes = codes_by(known, options)
    head = model.get_output_embeddings()
    separate = _own_head(model, embedding, head, options)
    base = options.clusters or smallest_base(len(rows), options.k)
    head_codes = codes_by(head.weight.detach().float().cpu().numpy(), options) if separate == "own" else None
    layout = Layout(table_sizes(codes, base), separate, None if head_codes is None else table_sizes(head_codes, base))
    made = _with_layout(model, layout, options.seed)
    new = made.get_input_embeddings()
    error = _fill(new, rows, codes, options, weights)
    if head_codes is not None:
        _fill(made.get_output_embeddings().embedding, head.weight.detach().float().cpu().numpy(), head_codes, options)
    return made, _report(model, made, new, separate, error, shared_digits(known, codes, seed=options.seed))


def codes_of(rows: np.ndarray, options: Compression) -> np.ndarray:
    """Codes for the tokens of an embedding [N × d], as the options say: [N × k].

    Raises:
        InputError: There are more tokens than codes, or a row is not finite.
        MissingExtra: scikit-learn is not installed, which clustering needs.
    """
    if options.codes == "digits":
        return digit_codes(len(rows), options.k, options.clusters)
    if options.codes == "random":
        return random_codes(len(rows), options.k, options.clusters, seed=options.seed)
    return clustered_codes(rows, options.k, options.clusters, equal_size=options.equal_size, seed=options.seed)


def _checked_weights(weights: np.ndarray, tokens: int) -> np.ndarray:
    found = np.asarray(weights)
    if found.shape != (tokens,) or found.dtype.kind not in "iufb":
        kind = f"{found.dtype} {list(found.shape)}"
        raise InputError(f"the weights are {kind}: expected a number for each token [{tokens}]")
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise InputError(f"the weight of token {place} is {found[place]}: weights are 0 or more, and finite")
    return found


def _embedding_of(model: Any) -> Any:
    if is_compressed(model):
        raise GraftError(f"this {type(model).__name__} is compressed already: expand it first, or give the plain model")
    embedding = model.get_input_embeddings()
    if embedding is None or getattr(embedding, "weight", None) is None:
        raise GraftError(f"{type(model).__name__} has no input embedding to compress")
    return embedding


def _own_head(model: Any, embedding: Any, head: Any, options: Compression) -> str:
    """What is to become of the head."""
    if head is None:
        return "plain"
    if getattr(head, "weight", None) is embedding.weight:
        return "tied"
    if options.head == "compress":
        return "own"
    logger.info(
        "the head of %s is not tied to its embedding: it stays as it is, with %s parameters (--head compress)",
        type(model).__name__,
        f"{head.weight.numel():,}",
    )
    return "plain"


def _with_layout(model: Any, layout: Layout, seed: int) -> Any:
    """A copy of the model in the compressed class, its tables random."""
    made = copy.deepcopy(model)
    plain: Any = type(model)
    made.__class__ = compressed_class(plain)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        install(made, layout)
    forget_ties(made)
    return made


def _fill(
    new: SubEmbedding,
    rows: np.ndarray,
    codes: np.ndarray,
    options: Compression,
    weights: np.ndarray | None = None,
) -> float | None:
    """Give a sub-embedding its codes, and its tables where they are not random; the error of these."""
    if options.init == "random":
        new.fill(codes)
        return None
    tables = fitted_tables(rows, codes, new.rows, weights=weights)
    new.fill(codes, tables)
    return reconstruction_error(rows, codes, tables)


def _report(
    model: Any, made: Any, new: SubEmbedding, head: str, error: float | None, shared: tuple[float, float]
) -> CompressionReport:
    parts = [new]
    if head == "own" and isinstance(made.get_output_embeddings(), FactoredHead):
        parts.append(made.get_output_embeddings().embedding)
    return CompressionReport(
        tokens=new.num_embeddings,
        shapes=[(len(table), table.shape[1]) for table in new.tables],
        head=head,
        embedding_before=sum(part.num_embeddings * part.embedding_dim for part in parts),
        embedding_after=sum(table.numel() for part in parts for table in part.tables),
        model_before=sum(each.numel() for each in model.parameters()),
        model_after=sum(each.numel() for each in made.parameters()),
        error=error,
        shared_nearest=shared[0],
        shared_random=shared[1],
    )
