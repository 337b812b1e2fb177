"""Kinds of models that relexify adds to those of transformers.

transformers needs only the config of a model to load it. Some systems write models that need more: their own class, a
variant of an existing class, or the choice of one of two languages. A system registers its kind in
`systems/<name>/kind.py`. Loading, grafting and evaluation look up the kind by the config, and never refer to a system
by name:

    kind = kind_of_folder("bert-en-sw")
    if kind is not None and kind.needs_language: ...

This module, and the modules that register kinds, import torch and the model classes only when needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.registry import Registry
from relexify.storage.json import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["MODEL_KINDS", "ModelKind", "kind_of_config", "kind_of_entries", "kind_of_folder", "read_config_file"]


@dataclass(frozen=True)
class ModelKind:
    """A kind of model that transformers cannot load by itself.

    It is recognised by its `model_type` or by its `config_entry`; every kind has exactly one of the two.

    Attributes:
        name: The name in messages, such as `"bilingual model"`.
        model_type: The value of `model_type` in config.json, for a config class that transformers lacks.
        config_entry: The entry of config.json that marks a variant of a model that transformers supports.
        register: Registers the classes of the kind with the `Auto…` classes of transformers.
        language_model: Returns the class with the language-modelling head; None if config.json names it.
        convert_class: Returns the class of this kind that corresponds to a class of transformers.
        convert_encoder: Converts a headless model that `AutoModel` built from a config of this kind, in place.
        is_encoder: Whether a model with this `model_type` is a masked language model.
        fixed_vocabulary: Why the vocabulary cannot be replaced, and what to do instead; None if it can be replaced.
        needs_language: Whether a folder contains one model per language, so that a language must be selected.
        languages: Returns the languages of a folder that can be loaded or exported separately.
        load_language: Loads the model and the tokenizer of one language in a folder.
        written_by: The command that writes a folder with several languages, for messages: `"relexify bilingual"`.
    """

    name: str
    model_type: str | None = None
    config_entry: str | None = None
    register: Callable[[], None] = lambda: None
    language_model: Callable[[], type[PreTrainedModel]] | None = None
    convert_class: Callable[[type[PreTrainedModel]], type[PreTrainedModel]] = lambda plain: plain
    convert_encoder: Callable[[PreTrainedModel], None] = lambda model: None
    is_encoder: bool = False
    fixed_vocabulary: str | None = None
    needs_language: bool = False
    languages: Callable[[str | Path], Sequence[str]] = lambda folder: ()
    load_language: Callable[[str | Path, str], tuple[PreTrainedModel, PreTrainedTokenizerFast]] | None = None
    written_by: str = ""


MODEL_KINDS: Registry[ModelKind] = Registry("kind of model")
"""All kinds, by name; ordinary transformers models have no kind."""


def kind_of_config(config: PreTrainedConfig) -> ModelKind | None:
    """Return the kind of model that a config describes; None for an ordinary model of transformers."""
    return _find(lambda name: getattr(config, name, None))


def kind_of_folder(name: str | Path) -> ModelKind | None:
    """Return the kind of model in a folder; None for an ordinary model, a Hub name, or a folder without a config."""
    return kind_of_entries(read_config_file(name))


def kind_of_entries(entries: Mapping[str, Any]) -> ModelKind | None:
    """Return the kind of model that the entries of a config.json describe; None for an ordinary model."""
    return _find(entries.get)


def read_config_file(folder: str | Path) -> dict[str, Any]:
    """Return the entries of the config.json in a folder; an empty dict if it cannot be read."""
    entries = read_json(Path(folder) / "config.json")
    return entries if isinstance(entries, dict) else {}


def _find(entry: Callable[[str], Any]) -> ModelKind | None:
    model_type = entry("model_type")
    for kind in MODEL_KINDS.values():
        if kind.model_type is not None and kind.model_type == model_type:
            return kind
        if kind.config_entry is not None and entry(kind.config_entry) is not None:
            return kind
    return None
