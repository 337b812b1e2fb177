"""The kind of model that this system writes: a masked language model with a TRILayer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.pretrained.kinds import MODEL_KINDS, ModelKind

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["MODEL_TYPE"]

MODEL_TYPE = "relexify-trilayer"


def _register() -> None:
    from relexify.systems.trelm.model import heads, task_heads  # noqa: F401 (importing them registers their classes)


def _language_model() -> type[PreTrainedModel]:
    from relexify.systems.trelm.model.heads import TriLayerForMaskedLM

    return TriLayerForMaskedLM


def _languages(folder: str | Path) -> Sequence[str]:
    """Return the languages if each has its own vocabulary; with a joint vocabulary, they cannot be separated."""
    from relexify.pretrained.loading import load_config

    config = load_config(folder)
    return tuple(config.languages) if config.separate else ()


def _load_language(folder: str | Path, language: str) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    from relexify.pretrained.loading import load_model
    from relexify.systems.trelm.model.building import with_one_language
    from relexify.systems.trelm.model.folder import load_tokenizers

    model = load_model(folder)
    tokenizers = load_tokenizers(folder, model.config)
    return with_one_language(model, language), tokenizers[model.config.language_index(language)]


MODEL_KINDS.add(
    "trilayer",
    ModelKind(
        name="TRILayer model",
        model_type=MODEL_TYPE,
        register=_register,
        language_model=_language_model,
        is_encoder=True,
        languages=_languages,
        load_language=_load_language,
        written_by="relexify trelm with separate vocabularies",
    ),
)
