"""The kind of model that this system writes: two languages in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.pretrained.kinds import MODEL_KINDS, ModelKind, read_config_file

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["BILINGUAL", "MODEL_TYPE"]

MODEL_TYPE = "relexify-bilingual"


def _languages(folder: str | Path) -> Sequence[str]:
    languages = read_config_file(folder).get("languages")
    return tuple(map(str, languages)) if isinstance(languages, list) else ()


def _load_language(folder: str | Path, language: str) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    from relexify.systems.bilingual.folder import BilingualBundle

    both = BilingualBundle.load(folder)
    return both.model.for_language(language), both.tokenizers[language]


BILINGUAL = MODEL_KINDS.add(
    "bilingual",
    ModelKind(
        name="bilingual model",
        model_type=MODEL_TYPE,
        needs_language=True,
        languages=_languages,
        load_language=_load_language,
        written_by="relexify bilingual",
    ),
)
