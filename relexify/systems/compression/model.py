"""Any transformers model with sub-embeddings, in a class that supports `from_pretrained` and `save_pretrained`.

`config.sub_embedding` contains the sizes of the tables; tables and codes are part of the weights. The class of a
compressed model is derived from the class of the plain model on demand: it builds the plain model, then replaces the
embedding by sub-embeddings. Everything else, including loading, generation and training, is inherited from
transformers. `relexify.load_model` loads the folder of such a model; `expanded` converts it back to an ordinary model.
Low-rank embeddings (two factors) are handled in the same way.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from relexify.errors import GraftError
from relexify.pretrained.architecture import initial_deviation
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.pretrained.runtime.precision import cast_parameters
from relexify.systems.compression.embedding import FactoredHead, SubEmbedding
from relexify.systems.compression.head import EmbeddingHead
from relexify.systems.compression.kind import CONFIG_ENTRY
from relexify.systems.compression.low_rank import LowRankEmbedding, LowRankHead

__all__ = ["Layout", "compressed_class", "drop_missing_ties", "expanded", "install", "is_compressed", "layout_of"]

# `_Compressed` is a mixin in front of a model class; only the type checker sees it as a model class itself.
if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Base
else:
    _Base = object


@dataclass(frozen=True)
class Layout:
    """The shapes of a compressed model: the content of `config.sub_embedding`.

    Attributes:
        rows: Number of rows of each table of the input embedding; empty if it consists of two factors.
        head: The form of the head: `"tied"` to the input embedding; `"own"` for a head with its own tables or factors;
            `"plain"` for an ordinary head or none.
        head_rows: Number of rows of each table of a head with its own tables.
        rank: Rank of the factors of the embedding and of a head with its own factors; None for tables.
    """

    rows: list[int]
    head: str = "plain"
    head_rows: list[int] | None = None
    rank: int | None = None

    def as_entry(self) -> dict[str, Any]:
        """Return the entry of config.json as plain data."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def is_compressed(model: PreTrainedModel) -> bool:
    """Whether a model has sub-embeddings or factors."""
    return layout_of(model.config) is not None


def layout_of(config: PreTrainedConfig) -> Layout | None:
    """Return the layout of sub-embeddings in a config; None if the model has none.

    Raises:
        GraftError: The entry in the config was not written by relexify.
    """
    entry = getattr(config, CONFIG_ENTRY, None)
    if entry is None:
        return None
    try:
        return Layout(**entry)
    except TypeError as error:
        raise GraftError(f"config.json has an entry {CONFIG_ENTRY} that relexify cannot read ({error})") from error


def compressed_class(plain: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """Return the class of a compressed model, derived from the class of the plain model.

    Both classes have the same name, because transformers writes the name to `config.architectures`.
    """
    if issubclass(plain, _Compressed):
        return plain
    if plain not in _CLASSES:
        body = {
            "__module__": plain.__module__,
            "__qualname__": plain.__qualname__,
            "__doc__": plain.__doc__,
            "plain_class": plain,
        }
        _CLASSES[plain] = type(plain.__name__, (_Compressed, plain), body)
    return _CLASSES[plain]


_CLASSES: dict[type[PreTrainedModel], type[PreTrainedModel]] = {}
"""The compressed class of each plain class; all models of an architecture share one class."""


def install(model: PreTrainedModel, layout: Layout) -> None:
    """Replace the embedding of a model, in place, by sub-embeddings with random tables, or by factors of zeros.

    Codes are those of Algorithm 1. The caller always overwrites codes and factors, for example from a checkpoint.

    Raises:
        GraftError: The class of the embedding is unknown.
    """
    dense = model.get_input_embeddings()
    small = _small_embedding(dense, layout.rows, layout.rank, model)
    head = model.get_output_embeddings() if layout.head != "plain" else None
    if layout.head == "tied" and head is not None:
        _replace(model, head, _small_head(small, head, tied=True))
    elif layout.head == "own" and head is not None:
        head_embedding = _small_embedding(_plain_embedding(head.weight), layout.head_rows or [], layout.rank, model)
        _replace(model, head, _small_head(head_embedding, head, tied=False))
    for alias in _tied_embeddings(model, dense):
        _replace(model, alias, SharedSubEmbedding(small, _scale(alias)))
    _replace(model, dense, small)
    model.config.sub_embedding = layout.as_entry()


def expanded(model: PreTrainedModel) -> PreTrainedModel:
    """Return an ordinary model, with a row for every token, that has the same logits as a compressed model.

    Args:
        model: A compressed model; it is not changed.

    Raises:
        GraftError: The model is not compressed.
    """
    if not isinstance(model, _Compressed):
        raise GraftError(f"{type(model).__name__} is not compressed: there is nothing to expand")
    config = copy.deepcopy(model.config)
    delattr(config, CONFIG_ENTRY)
    with torch.random.fork_rng(devices=[]):  # the values drawn here are overwritten below
        plain = cast_parameters(model.plain_class(config), model.dtype)
    values = model.state_dict()
    for name, module in list(model.named_modules()):
        if isinstance(module, SubEmbedding | LowRankEmbedding):
            values = {key: value for key, value in values.items() if not key.startswith(f"{name}.")}
            # An untied head keeps its embedding in the attribute `own`; a dense head has the weight directly.
            values[f"{name.removesuffix('.own')}.weight"] = module.weight.detach()
        elif isinstance(module, SharedSubEmbedding) or (isinstance(module, EmbeddingHead) and module.is_tied):
            values[f"{name}.weight"] = module.weight.detach()
    plain.load_state_dict(values)
    plain.tie_weights()
    plain.generation_config = copy.deepcopy(getattr(model, "generation_config", None))
    return plain.to(model.device).train(model.training)


class _Compressed(_Base):  # type: ignore[misc]
    """The mixin of a compressed class; it comes before the plain class in the method resolution order."""

    plain_class: type[PreTrainedModel]

    def __init__(self, config: PreTrainedConfig, *inputs: Any, **options: Any) -> None:
        super().__init__(config, *inputs, **options)
        if (layout := layout_of(config)) is not None:
            install(self, layout)
            drop_missing_ties(self)

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Return the ties between parameters that still exist; tables are shared as modules, not tied by name."""
        keys = super().get_expanded_tied_weights_keys(all_submodels)
        return _existing_ties(self, keys)

    def lexical_parameter_names(self) -> set[str]:
        """Return the names of the parameters that belong to the vocabulary: tables, factors, and dense tensors."""
        config = copy.deepcopy(self.config)
        delattr(config, CONFIG_ENTRY)
        with torch.device("meta"):
            plain = self.plain_class(config)
        small = {
            f"{name}.{parameter}"
            for name, module in self.named_modules()
            if isinstance(module, SubEmbedding | LowRankEmbedding)
            for parameter, _ in module.named_parameters()
        }
        parameters = dict(self.named_parameters())
        return small | {name for name in lexical_axes(plain) if name in parameters}

    def resize_token_embeddings(self, *inputs: Any, **options: Any) -> Any:
        """Raise an error: a new token would need a code, which determines the parts it shares with other tokens."""
        raise NotImplementedError("its embedding is compressed; expand it first (relexify expand)")


class SharedSubEmbedding(nn.Module):
    """A second embedding module that uses the same tables, such as the decoder's if the encoder owns the tables.

    It has no parameters, and refers to the sub-embedding without owning it, so that tables are saved and counted once.
    """

    def __init__(self, shared: SubEmbedding | LowRankEmbedding, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self._shared = (shared,)  # a module inside a tuple is not registered

    @property
    def weight(self) -> torch.Tensor:
        """The dense embedding [N × d]; see `SubEmbedding.weight`."""
        return self._shared[0].weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of tokens [… × d]."""
        rows: torch.Tensor = self._shared[0](ids)
        return rows if self.scale == 1.0 else rows * self.scale


def drop_missing_ties(model: PreTrainedModel) -> None:
    """Remove ties to parameters that no longer exist; transformers would try to restore them."""
    model.all_tied_weights_keys = _existing_ties(model, model.all_tied_weights_keys)


def _existing_ties(model: PreTrainedModel, keys: dict[str, str]) -> dict[str, str]:
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return {target: source for target, source in keys.items() if target in names and source in names}


def _small_embedding(
    dense: nn.Embedding, rows: list[int], rank: int | None, model: PreTrainedModel
) -> SubEmbedding | LowRankEmbedding:
    """Return tables in place of a dense embedding, initialised as the model does; if a rank is given, zero factors."""
    count, width = dense.weight.shape
    padding, dtype, device = getattr(dense, "padding_idx", None), dense.weight.dtype, dense.weight.device
    if rank is not None:
        return LowRankEmbedding(
            count, width, rank, padding_idx=padding, scale=_scale(dense), dtype=dtype, device=device
        )
    sub_embedding = SubEmbedding(
        count, width, rows=rows, padding_idx=padding, scale=_scale(dense), dtype=dtype, device=device
    )
    deviation = initial_deviation(model.config)
    for table in sub_embedding.tables:
        pattern = _plain_embedding(torch.empty_like(table))
        # Initialise it here first, because some models recognise their embedding by identity and skip all others.
        pattern.weight.data.normal_(std=deviation)
        model._init_weights(pattern)
        table.data.copy_(pattern.weight.data)
    return sub_embedding


def _small_head(small: SubEmbedding | LowRankEmbedding, dense: nn.Module, *, tied: bool) -> FactoredHead | LowRankHead:
    """Return a head over tables or factors in place of a dense one, with its bias."""
    bias = getattr(dense, "bias", None)
    if isinstance(small, LowRankEmbedding):
        return LowRankHead(small, bias, tied=tied)
    return FactoredHead(small, bias, tied=tied)


def _plain_embedding(rows: torch.Tensor) -> nn.Embedding:
    count, width = rows.shape
    return nn.Embedding(count, width, _weight=rows.detach())


def _scale(embedding: nn.Module) -> float:
    """Return the factor by which an embedding multiplies its rows.

    Raises:
        GraftError: The class of the embedding is unknown.
    """
    if type(embedding) is nn.Embedding:
        return 1.0
    scale = getattr(embedding, "scalar_embed_scale", getattr(embedding, "embed_scale", None))
    if not isinstance(embedding, nn.Embedding) or scale is None:
        raise GraftError(
            f"the input embedding is a {type(embedding).__name__}, which sub-embeddings cannot replace: give a model "
            "with an nn.Embedding"
        )
    return float(scale)


def _tied_embeddings(model: PreTrainedModel, embedding: nn.Module) -> list[nn.Module]:
    """Return other embedding modules that use the same rows, such as the decoder's if `embedding` is the encoder's.

    They are found by the names of tied weights, because weights are not tied yet while a model is being built.
    """
    ties = getattr(model, "all_tied_weights_keys", {})
    names = {f"{name}.weight": module for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    embedding_name = next(name for name, module in names.items() if module is embedding)
    source = ties.get(embedding_name, embedding_name)
    return [
        module
        for name, module in names.items()
        if module is not embedding and (name == source or ties.get(name) == source)
    ]


def _replace(model: PreTrainedModel, module: nn.Module, replacement: nn.Module) -> None:
    """Replace a module everywhere in the model."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is module:
                setattr(parent, name, replacement)
