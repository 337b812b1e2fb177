"""Any transformers model with sub-embeddings, as a class that `from_pretrained` and `save_pretrained` work on.

`config.sub_embedding` says how large the tables are; tables and codes lie in the weights. The class of a compressed
model is made at need from that of the plain one: it builds the plain model, then puts sub-embeddings where the
embedding was. Everything else, loading and generating and training included, is transformers' own. A folder of such a
model is loaded by `relexify.load_model`; `expanded` makes an ordinary model of it again.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from relexify.errors import GraftError
from relexify.grafting import lexical_axes
from relexify.pretrained.precision import with_parameters_in
from relexify.systems.compression.embedding import SharedSubEmbedding, SubEmbedding
from relexify.systems.compression.head import FactoredHead
from relexify.systems.compression.kind import CONFIG_ENTRY

__all__ = ["Layout", "compressed_class", "expanded", "install", "is_compressed", "layout_of"]


@dataclass(frozen=True)
class Layout:
    """How a model is compressed; what `config.sub_embedding` holds.

    Attributes:
        rows: Of each table of the input embedding.
        head: What became of the head: `"tied"` to the input embedding's tables, `"own"` tables, or `"plain"`: it is
            an ordinary one, or there is none.
        head_rows: Of each table of a head with its own.
    """

    rows: list[int]
    head: str = "plain"
    head_rows: list[int] | None = None

    def as_entry(self) -> dict[str, Any]:
        """Plain data for config.json."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def is_compressed(model: Any) -> bool:
    """Whether a model has sub-embeddings."""
    return layout_of(model.config) is not None


def layout_of(config: Any) -> Layout | None:
    """What a config says of sub-embeddings; None where it says nothing.

    Raises:
        GraftError: The entry is not one of relexify's.
    """
    entry = getattr(config, CONFIG_ENTRY, None)
    if entry is None:
        return None
    try:
        return Layout(**entry)
    except TypeError as error:
        raise GraftError(f"config.json has an entry {CONFIG_ENTRY} that relexify cannot read ({error})") from error


@functools.cache
def compressed_class(plain: Any) -> Any:
    """The class of a model with sub-embeddings, from that of the plain model; of the same name, so that
    `config.architectures` stays what it was.
    """  # noqa: D205
    if issubclass(plain, _Compressed):
        return plain
    body = {"__module__": plain.__module__, "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
    return type(plain.__name__, (_Compressed, plain), body | {"plain_class": plain})


def install(model: Any, layout: Layout) -> None:
    """Put sub-embeddings with random tables and counted codes where a model has its embedding, in place.

    Raises:
        GraftError: The model looks its tokens up in a way of its own.
    """
    old = model.get_input_embeddings()
    new = _sub_embedding(old, layout.rows, model)
    head = model.get_output_embeddings() if layout.head != "plain" else None
    if layout.head == "tied" and head is not None:
        _replace(model, head, FactoredHead(new, getattr(head, "bias", None)))
    elif layout.head == "own" and head is not None:
        own = _sub_embedding(_plain_embedding(head.weight), layout.head_rows or [], model)
        _replace(model, head, FactoredHead(own, getattr(head, "bias", None), tied=False))
    for alias in list(_sharing(model, old)):
        _replace(model, alias, SharedSubEmbedding(new, _scale(alias)))
    _replace(model, old, new)
    model.config.sub_embedding = layout.as_entry()


def expanded(model: Any) -> Any:
    """The ordinary model that a compressed one stands for: same logits, a row for every token again.

    Args:
        model: A model with sub-embeddings; it stays as it is.

    Raises:
        GraftError: It has none.
    """
    if not _in_compressed_class(model):
        raise GraftError(f"{type(model).__name__} is not compressed: there is nothing to expand")
    config = copy.deepcopy(model.config)
    delattr(config, CONFIG_ENTRY)
    with torch.random.fork_rng(devices=[]):  # what it draws is overwritten below
        plain = with_parameters_in(model.plain_class(config), model.dtype)
    values = model.state_dict()
    for name, module in list(model.named_modules()):
        if isinstance(module, SubEmbedding):
            inside = name.removesuffix(".own")
            values = {key: value for key, value in values.items() if not key.startswith(f"{name}.")}
            values[f"{inside}.weight"] = module.weight.detach()
        elif isinstance(module, SharedSubEmbedding) or (isinstance(module, FactoredHead) and module._elsewhere):
            values[f"{name}.weight"] = module.weight.detach()
    plain.load_state_dict(values)
    plain.tie_weights()
    plain.generation_config = copy.deepcopy(getattr(model, "generation_config", None))
    return plain.to(model.device).train(model.training)


class _Compressed:
    """What a compressed class has before the plain one."""

    plain_class: type

    def __init__(self, config: Any, *inputs: Any, **options: Any) -> None:
        super().__init__(config, *inputs, **options)  # type: ignore[call-arg]
        if (layout := layout_of(config)) is not None:
            install(self, layout)
            forget_ties(self)

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Ties between parameters that are still there; tables are shared by what they are, not by name."""
        keys = super().get_expanded_tied_weights_keys(all_submodels)  # type: ignore[misc]
        return _present(self, keys)

    def lexical_parameter_names(self) -> set[str]:
        """Return the names of the parameters that belong to the vocabulary: tables, and what stayed dense."""
        config = copy.deepcopy(self.config)  # type: ignore[attr-defined]
        delattr(config, CONFIG_ENTRY)
        with torch.device("meta"):
            plain = self.plain_class(config)
        tables = {
            f"{name}.tables.{index}"
            for name, module in self.named_modules()  # type: ignore[attr-defined]
            if isinstance(module, SubEmbedding)
            for index in range(len(module.tables))
        }
        parameters = dict(self.named_parameters())  # type: ignore[attr-defined]
        return tables | {name for name in lexical_axes(plain) if name in parameters}

    def resize_token_embeddings(self, *inputs: Any, **options: Any) -> Any:
        """Not possible: a code tells which parts of others a token shares."""
        raise NotImplementedError("its embedding is compressed; expand it first (relexify expand)")


def _in_compressed_class(model: Any) -> bool:
    return isinstance(model, _Compressed)


def forget_ties(model: Any) -> None:
    """Leave out ties to parameters that are no longer there."""
    model.all_tied_weights_keys = _present(model, model.all_tied_weights_keys)


def _present(model: Any, keys: dict[str, str]) -> dict[str, str]:
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return {target: source for target, source in keys.items() if target in names and source in names}


def _sub_embedding(old: Any, rows: list[int], model: Any) -> SubEmbedding:
    weight = old.weight
    count, width = weight.shape
    new = SubEmbedding(
        count,
        width,
        rows=rows,
        padding_idx=getattr(old, "padding_idx", None),
        scale=_scale(old),
        dtype=weight.dtype,
        device=weight.device,
    )
    _initialise(new, model)
    return new


def _initialise(new: SubEmbedding, model: Any) -> None:
    """Draw the tables as the model draws its embedding."""
    for table in new.tables:
        pattern = _plain_embedding(torch.empty_like(table))
        pattern.weight.data.normal_(std=_spread(model.config))  # for models that know their embedding by its place
        model._init_weights(pattern)
        table.data.copy_(pattern.weight.data)


def _spread(config: Any) -> float:
    names = ("initializer_range", "init_std", "initializer_factor")
    return float(next((getattr(config, name) for name in names if getattr(config, name, None)), 0.02))


def _plain_embedding(rows: torch.Tensor) -> nn.Embedding:
    count, width = rows.shape
    return nn.Embedding(count, width, _weight=rows.detach())


def _scale(embedding: Any) -> float:
    """What an embedding of a class of its own multiplies its rows with."""
    if type(embedding) is nn.Embedding:
        return 1.0
    scale = getattr(embedding, "scalar_embed_scale", getattr(embedding, "embed_scale", None))
    if not isinstance(embedding, nn.Embedding) or scale is None:
        raise GraftError(
            f"tokens are looked up by a {type(embedding).__name__}, which sub-embeddings cannot take the place of"
        )
    return float(scale)


def _sharing(model: Any, embedding: Any) -> Iterator[nn.Module]:
    """Other modules that look tokens up in the same rows; told by name, since an empty model has tied nothing yet."""
    ties = getattr(model, "all_tied_weights_keys", {})
    names = {f"{name}.weight": module for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    own = next(name for name, module in names.items() if module is embedding)
    source = ties.get(own, own)
    yield from (
        module
        for name, module in names.items()
        if module is not embedding and (name == source or ties.get(name) == source)
    )


def _replace(model: Any, old: nn.Module, new: nn.Module) -> None:
    """Put a module wherever another one was."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is old:
                setattr(parent, name, new)
