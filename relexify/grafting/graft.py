"""Combine a target tokenizer and mixed embeddings with the unchanged inner parameters of a model."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import GraftError, InputError, VocabularyError
from relexify.grafting.identifiers import synchronise_ids
from relexify.mixture import MIXTURE_FILE, Fallback, Mixture, Origin, PrecomputedRows
from relexify.mixture.mixture import validate_same_tokens
from relexify.pretrained.architecture import initial_deviation
from relexify.pretrained.files.weights import save_with_links
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.parameters.lexical import count_rows, lexical_axes, resize
from relexify.pretrained.runtime.quiet import save_model
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.files import MARKER, Provenance, write_file, write_folder
from relexify.storage.notes import read_as, read_notes
from relexify.tokens import vocabulary_of

__all__ = ["Graft", "GraftReport", "graft", "is_tied", "read_report", "row_origins"]

PRECOMPUTED = "precomputed"
"""The origin of rows that are not mixtures."""
_BLOCK_ROWS, _BLOCK_COLUMNS = 1024, 128
"""The part of a lexical tensor that is in float32 at a time: 0.3 GB in a model with 70 billion parameters."""
_NEAR = 1e-9
"""The factor of the covariance Σ in `resize_token_embeddings` of transformers."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraftReport:
    """Statistics of a graft.

    Attributes:
        tokens: Number of tokens in the target vocabulary.
        rows: Number of rows of the target embedding, including padding.
        origins: Number of rows by origin.
        lexical: Names of the replaced parameters and buffers.
        special_ids: The ids in config and generation_config that were changed to target ids.
        roles: Ids of the special tokens of the tokenizer, by role.
        tied: Whether the output embedding is the input embedding.
    """

    tokens: int
    rows: int
    origins: dict[str, int]
    lexical: list[str]
    special_ids: dict[str, Any]
    roles: dict[str, int]
    tied: bool


@dataclass(frozen=True)
class Graft:
    """A model with a target vocabulary.

    Attributes:
        model: A plain transformers model, in the class and dtype of the source model.
        tokenizer: The target tokenizer.
        mixture: The mixture that the embeddings were computed with.
        report: What was changed.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    mixture: Mixture
    report: GraftReport

    def __repr__(self) -> str:
        return f"Graft({type(self.model).__name__}, {self.report.tokens:,} tokens, {self.mixture!r})"

    def save(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        provenance: Provenance | None = None,
        summary: dict[str, Any] | None = None,
        inner: str | Path | None = None,
    ) -> Path:
        """Write a folder that `AutoModelFor…` and `AutoTokenizer` can load; it is written completely or not at all.

        Args:
            path: The folder.
            overwrite: Replace a folder that exists.
            provenance: Where the model comes from, for the notes and the mixture.
            summary: Additional entries of the notes.
            inner: A model, as for `load_model`, that has the same inner parameters. Its files that contain nothing else
                are hard-linked, so that a large model is saved in seconds; on another file system, they are copied.
        """
        with write_folder(path, overwrite=overwrite) as folder:
            self.write(folder, provenance=provenance, summary=summary, inner=inner)
        return Path(path)

    def write(
        self,
        folder: Path,
        *,
        provenance: Provenance | None = None,
        summary: dict[str, Any] | None = None,
        inner: str | Path | None = None,
    ) -> None:
        """Write the files of the model into an empty folder; arguments as in `save`."""
        if inner is None or not save_with_links(self.model, folder, inner, changed=self.report.lexical):
            save_model(self.model, folder)
        save_tokenizer(self.tokenizer, folder)
        self.mixture.save(folder / MIXTURE_FILE, provenance)
        notes = {"graft": asdict(self.report), "method": self.mixture.method, **(summary or {})}
        notes["provenance"] = provenance.as_dict() if provenance else None
        write_file(folder / MARKER, json.dumps(notes, ensure_ascii=False, indent=2, sort_keys=True) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Graft:
        """Read what `save` wrote.

        Raises:
            InputError: The folder is missing or incomplete, or is not the result of a transfer.
        """
        folder = Path(path)
        report = read_report(folder)
        return cls(load_model(folder), load_tokenizer(folder), Mixture.load(folder / MIXTURE_FILE), report)


def read_report(folder: Path) -> GraftReport:
    """Return the statistics in the notes of a folder that `Graft.save` wrote, or that was trained from one.

    Raises:
        InputError: The folder is missing or incomplete, or is not the result of a transfer.
    """
    notes = read_notes(folder)
    if "graft" not in notes:
        raise InputError(f"{folder} is not the result of a transfer: give a folder that relexify transfer wrote")
    return read_as(GraftReport, notes["graft"])


def graft(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    mixture: Mixture,
    *,
    precomputed: PrecomputedRows | None = None,
    seed: int = 0,
    pad_to_multiple_of: int | None = None,
    copy_inner: bool = True,
) -> Graft:
    """Replace tokenizer, embeddings, head and output bias; the dtype and all bits of inner parameters are unchanged.

    Args:
        model: The source model; it is not changed.
        tokenizer: The target tokenizer.
        mixture: The mixture from the model's tokenizer to the target tokenizer.
        precomputed: Rows that are not mixtures of source rows and replace rows of the mixture. In an output embedding
            that is not tied to the input, the rows of the mixture are kept, unless `precomputed` has output rows.
        seed: Random seed of the rows for which the mixture has no evidence.
        pad_to_multiple_of: Round the number of rows up, for speed on some hardware.
        copy_inner: Copy the inner parameters. If not, the result shares them with `model`, which takes no memory, but
            training one of the two models, or moving it to another device, then changes the other too.

    Raises:
        VocabularyError: Mixture, tokenizer and model do not match.
        GraftError: The vocabulary of the model cannot be changed, or the result has NaN, infinite or all-zero rows.
    """
    vocabulary = vocabulary_of(tokenizer)
    tokens = len(vocabulary)
    _check_mixture(model, tokens, mixture)
    validate_same_tokens("target", mixture.target_tokens, vocabulary.tokens)
    _check_precomputed(model, tokens, precomputed)
    multiple = pad_to_multiple_of or 1
    rows = -(-tokens // multiple) * multiple
    axes = lexical_axes(model)
    grafted = _without_lexicon(model, axes, copy_inner=copy_inner)
    resize(grafted, rows)
    width, deviation = int(model.get_input_embeddings().weight.shape[1]), initial_deviation(model.config)
    # Tied tensors are one object in the resized model. Values are stored by the identity of that object, so that tied
    # tensors also get the same values, as one object.
    mixed: dict[int, torch.Tensor] = {}
    empty = {name: _tensor(grafted, name) for name in axes}
    for index, (name, axis) in enumerate(sorted(axes.items())):
        if id(empty[name]) not in mixed:  # otherwise, it is tied to a tensor that already has values
            # Each tensor has its own seed, so that the random rows of an untied head differ from those of the input.
            # The stride keeps them apart from the seeds 0, 1, 2, … of other runs.
            generator = np.random.default_rng(seed + 1000 * index)
            values = _mix(mixture, _tensor(model, name), axis, rows, generator, width=width, deviation=deviation)
            mixed[id(empty[name])] = _like(empty[name], values)
        path, _, last = name.rpartition(".")
        setattr(grafted.get_submodule(path), last, mixed[id(empty[name])])
    if precomputed is not None:
        _put_precomputed(grafted, precomputed)
    special_ids = synchronise_ids(grafted, tokenizer, mixture)
    _check_values(grafted, axes, mixture, model.get_input_embeddings().weight)
    origins, names = row_origins(mixture, precomputed), list(mixture.counts())
    if precomputed is not None:
        names.append(PRECOMPUTED)
    report = GraftReport(
        tokens=tokens,
        rows=rows,
        origins={name: int((origins == name).sum()) for name in names},
        lexical=sorted(axes),
        special_ids=special_ids,
        roles=dict(vocabulary.special),
        tied=is_tied(grafted),
    )
    return Graft(grafted, tokenizer, mixture, report)


def is_tied(model: PreTrainedModel) -> bool:
    """Whether the output embedding of a model is its input embedding."""
    head = model.get_output_embeddings()
    return head is not None and head.weight.data_ptr() == model.get_input_embeddings().weight.data_ptr()


def row_origins(mixture: Mixture, precomputed: PrecomputedRows | None = None) -> np.ndarray:
    """Return the name of each target row's origin [target]: the name of an `Origin`, or `precomputed`."""
    names = np.array([origin.name.lower() for origin in Origin] + [PRECOMPUTED])
    indices = np.asarray(mixture.origin, dtype=np.int64).copy()
    if precomputed is not None:
        indices[precomputed.ids] = len(Origin)
    origins: np.ndarray = names[indices]
    return origins


def _without_lexicon(model: PreTrainedModel, axes: Iterable[str], *, copy_inner: bool) -> PreTrainedModel:
    """Return a copy of a model whose lexical tensors are on the meta device, without values."""
    # `copy.deepcopy` does not copy objects that its memo contains, but uses the objects in the memo instead.
    memo: dict[int, object] = {}
    if not copy_inner:
        memo.update({id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]})
    for name in axes:
        tensor = _tensor(model, name)
        memo[id(tensor)] = _like(tensor, tensor.detach().to("meta"))
    return copy.deepcopy(model, memo)


def _like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return values as a parameter if `tensor` is one, otherwise unchanged."""
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(values, requires_grad=tensor.requires_grad)
    return values


def _mix(
    mixture: Mixture,
    source: torch.Tensor,
    axis: int,
    rows: int,
    generator: np.random.Generator,
    *,
    width: int,
    deviation: float,
) -> torch.Tensor:
    """Return the target values of a lexical tensor, in the dtype and on the device of the source tensor.

    The mixture's fallback fills rows without evidence, and rows that pad the matrix. No other function draws random
    embeddings.

    Only blocks of rows are in memory in float32, and source rows that are not used are not read, so the embedding of a
    large model may be memory-mapped.

    Args:
        mixture: The mixture.
        source: The tensor of the source model, with the tokens along `axis`.
        axis: The axis of the tokens.
        rows: Number of tokens in the target tensor, including padding.
        generator: Generator of the random rows.
        width: Number of columns of the input embedding.
        deviation: Standard deviation of embeddings in an untrained model of this type.
    """
    wide = torch.float64 if source.dtype == torch.float64 else torch.float32
    values = source.detach().movedim(axis, 0)
    table = values.reshape(values.shape[0], -1)  # [source rows × everything else]; [rows × 1] for a bias
    mean = std = np.zeros(table.shape[1])
    root = np.zeros((0, 0))
    if rows > len(mixture) or not mixture.known.all():
        source_rows = table[: len(mixture.source_tokens)]  # without padding
        if mixture.fallback in (Fallback.MEAN, Fallback.NEAR_MEAN, Fallback.SOURCE_ROWS):
            mean, std = _mean_and_deviation(source_rows, wide)
        if mixture.fallback == Fallback.NEAR_MEAN:
            root = _covariance_root(source_rows, mean, wide)
    mixed = torch.empty((rows, table.shape[1]), dtype=source.dtype)
    for start in range(0, rows, _BLOCK_ROWS):
        used, weights = _without_unused(mixture.weights[start : start + _BLOCK_ROWS])
        gathered = table[used.to(table.device)].to("cpu", wide).numpy()
        block = np.zeros((min(_BLOCK_ROWS, rows - start), table.shape[1]), dtype=gathered.dtype)
        block[: weights.shape[0]] = weights @ gathered
        empty = np.ones(len(block), dtype=bool)
        empty[: weights.shape[0]] = np.diff(weights.indptr) == 0
        # Drawn for every fallback, so that the generator advances equally.
        noise = generator.standard_normal((int(empty.sum()), table.shape[1]))
        match mixture.fallback:
            case Fallback.NARROW:
                block[empty] = noise / width
            case Fallback.FRESH:
                block[empty] = noise * (deviation if source.dim() > 1 else 0)  # a fresh bias is zero
            case Fallback.MEAN:
                block[empty] = mean
            case Fallback.NEAR_MEAN:
                block[empty] = mean + np.sqrt(_NEAR) * noise @ root.T
            case Fallback.SOURCE_ROWS:
                block[empty] = mean + std * noise
        mixed[start : start + len(block)] = torch.from_numpy(block).to(source.dtype)
    return mixed.reshape(rows, *values.shape[1:]).movedim(0, axis).to(source.device).contiguous()


def _without_unused(weights: csr_array) -> tuple[torch.Tensor, csr_array]:
    """Return the columns of a matrix that have entries, in order, and the matrix with only these columns."""
    used, positions = np.unique(weights.indices, return_inverse=True)
    shape = (weights.shape[0], len(used))
    return torch.from_numpy(used).long(), csr_array((weights.data, positions, weights.indptr), shape=shape)


def _mean_and_deviation(table: torch.Tensor, wide: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the standard deviation of every column, [columns] each, computed a few columns at a time."""
    blocks = table.tensor_split(-(-table.shape[1] // _BLOCK_COLUMNS), dim=1)
    wide_blocks = (block.to("cpu", wide).contiguous().numpy() for block in blocks)
    columns = [(block.mean(axis=0, dtype=np.float64), block.std(axis=0, dtype=np.float64)) for block in wide_blocks]
    return np.concatenate([mean for mean, _ in columns]), np.concatenate([std for _, std in columns])


def _covariance_root(table: torch.Tensor, mean: np.ndarray, wide: torch.dtype) -> np.ndarray:
    """Return R [columns × columns] with R Rᵀ = Σ, the covariance of the rows, which may be singular."""
    covariance = np.zeros((table.shape[1], table.shape[1]))
    for rows in torch.split(table, _BLOCK_ROWS):
        centred = rows.to("cpu", wide).numpy() - mean
        covariance += centred.T @ centred
    values, vectors = np.linalg.eigh(covariance / len(table))
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0))  # rounding can make zeros negative
    return root


def _tensor(model: PreTrainedModel, name: str) -> torch.Tensor:
    """Return a parameter or buffer by its dotted name."""
    path, _, last = name.rpartition(".")
    tensor: torch.Tensor = getattr(model.get_submodule(path), last)
    return tensor


def _put_precomputed(model: PreTrainedModel, precomputed: PrecomputedRows) -> None:
    """Write precomputed rows into the embeddings of a grafted model, in place."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    untied = head is not None and not is_tied(model)
    ids = torch.from_numpy(precomputed.ids).to(embedding.device)
    with torch.no_grad():
        embedding[ids] = torch.from_numpy(precomputed.vectors).to(embedding)
        if untied and precomputed.output is not None:
            head.weight[ids.to(head.weight.device)] = torch.from_numpy(precomputed.output).to(head.weight)
    if untied and precomputed.output is None:
        logger.warning(
            "the output embedding of %s is not tied to its input embedding: %d precomputed rows are used in the input "
            "alone",
            type(model).__name__,
            len(precomputed),
        )


def _check_mixture(model: PreTrainedModel, tokens: int, mixture: Mixture) -> None:
    """Validate that the sizes of a mixture are those of both vocabularies."""
    if len(mixture) != tokens:
        raise VocabularyError(
            f"the mixture is for {len(mixture)} tokens and the tokenizer has {tokens}: "
            "build the mixture with this tokenizer"
        )
    rows = count_rows(model)
    if len(mixture.source_tokens) > rows:
        raise VocabularyError(
            f"the mixture draws on {len(mixture.source_tokens)} source tokens and the model has {rows} rows: "
            "build the mixture with the model's own tokenizer"
        )


def _check_precomputed(model: PreTrainedModel, tokens: int, precomputed: PrecomputedRows | None) -> None:
    """Validate that precomputed rows have the width of the embeddings, and ids that are in the target vocabulary."""
    if precomputed is None or not len(precomputed):
        return
    highest, head = int(precomputed.ids.max()), model.get_output_embeddings()
    pairs = [(precomputed.vectors, model.get_input_embeddings())]
    if precomputed.output is not None and head is not None:
        pairs.append((precomputed.output, head))
    for rows, embedding in pairs:
        width = int(embedding.weight.shape[1])
        if rows.shape[1] != width or highest >= tokens:
            raise VocabularyError(
                f"precomputed rows {list(rows.shape)} with ids up to {highest} do not fit an embedding of {tokens} "
                f"tokens and width {width}: compute them for this tokenizer and this model"
            )


def _check_values(model: PreTrainedModel, axes: dict[str, int], mixture: Mixture, source: torch.Tensor) -> None:
    """Reject values that are not finite, and zero rows that are mixtures of nonzero rows."""
    for name in axes:
        if not torch.isfinite(_tensor(model, name)).all():
            raise GraftError(f"{name} has NaN or infinite values: check the weights of the source model")
    embedding = model.get_input_embeddings().weight.detach()[: len(mixture)]
    zero = np.flatnonzero(~embedding.any(dim=1).cpu().numpy())
    used, weights = _without_unused(mixture.weights[zero])
    nonzero = source.detach()[used.to(source.device)].any(dim=1).cpu().numpy()
    empty = zero[abs(weights) @ nonzero.astype("float32") > 0]  # a copy of a zero row is allowed to be zero
    if len(empty):
        example = mixture.target_tokens[int(empty[0])]
        raise GraftError(f"{len(empty)} tokens, {example!r} among them, got an embedding of zeros")
