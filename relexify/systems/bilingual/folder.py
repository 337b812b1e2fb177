"""Bilingual models on the disk: weights, and for each language its tokenizer and how it generates.

OUTPUT/config.json, model.safetensors      both languages
OUTPUT/languages/en, OUTPUT/languages/sw   a tokenizer each
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import GenerationConfig

from relexify.errors import InputError, first_line
from relexify.pretrained.architecture import check_fit
from relexify.pretrained.kinds import kind_of_folder
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.files import MARKER, write_file, write_folder
from relexify.systems.bilingual.kind import BILINGUAL
from relexify.systems.bilingual.model import BilingualModel

__all__ = ["BilingualBundle", "load_bilingual_model"]

LANGUAGES = "languages"
_GENERATION = "generation_config.json"


@dataclass(frozen=True)
class BilingualBundle:
    """A bilingual model with the tokenizers of its languages.

    Attributes:
        model: The model.
        tokenizers: By the names of the languages.
    """

    model: BilingualModel
    tokenizers: Mapping[str, Any]

    @classmethod
    def join(cls, source: str | Path, target: str | Path, languages: tuple[str, str]) -> BilingualBundle:
        """Join two models that share an encoder.

        Args:
            source: The model of the first language: a folder, a Hub name, or `smollm2-135m`.
            target: The same model with another vocabulary, such as `relexify transfer` makes.
            languages: What the two languages are called.

        Raises:
            InputError: A model cannot be loaded, or the names do not do.
            GraftError: The two are not built alike.
            VocabularyError: A tokenizer is not its model's.
        """
        models = load_model(source), load_model(target)
        tokenizers = load_tokenizer(source), load_tokenizer(target)
        for model, tokenizer in zip(models, tokenizers, strict=True):
            check_fit(model, tokenizer)
        built = BilingualModel.join(*models, languages)
        return cls(built, dict(zip(languages, tokenizers, strict=True)))

    @classmethod
    def load(cls, folder: str | Path) -> BilingualBundle:
        """Read what `save` wrote.

        Raises:
            InputError: It is no bilingual model, or damaged.
        """
        model = load_bilingual_model(folder)
        tokenizers = {name: load_tokenizer(Path(folder) / LANGUAGES / name) for name in model.languages}
        for name, tokenizer in tokenizers.items():
            check_fit(model.for_language(name), tokenizer)
            path = Path(folder) / LANGUAGES / name
            if (path / _GENERATION).is_file():
                model.for_language(name).generation_config = GenerationConfig.from_pretrained(path)
        return cls(model, tokenizers)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write a folder, all of it or nothing."""
        with write_folder(folder, overwrite=overwrite) as beside:
            self.write_into(beside)
        return Path(folder)

    def write_into(self, folder: Path) -> None:
        """Write all files into a folder that is there."""
        self.model.save_pretrained(folder)
        for name, tokenizer in self.tokenizers.items():
            place = folder / LANGUAGES / name
            place.mkdir(parents=True)
            save_tokenizer(tokenizer, place)
            if self.model.for_language(name).can_generate():
                self.model.for_language(name).generation_config.save_pretrained(place)

    def export(self, language: str, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the model of one language, with its tokenizer, as a folder that needs nothing of relexify.

        Raises:
            InputError: The model does not know the language.
            OutputError: The folder cannot be written.
        """
        model = self.model.for_language(language)
        with write_folder(folder, overwrite=overwrite) as beside:
            model.save_pretrained(beside)
            save_tokenizer(self.tokenizers[language], beside)
            notes = {"exported": {"language": language, "languages": list(self.model.languages)}}
            write_file(beside / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
        return Path(folder)


def load_bilingual_model(folder: str | Path) -> BilingualModel:
    """The model alone, in the dtype it was saved in.

    Raises:
        InputError: It is no bilingual model, or damaged.
    """
    if kind_of_folder(folder) is not BILINGUAL:
        raise InputError(f"{folder} holds no bilingual model: give a folder that relexify bilingual wrote")
    try:
        model, loaded = BilingualModel.from_pretrained(folder, dtype="auto", output_loading_info=True)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"the bilingual model in {folder} cannot be loaded ({first_line(error)}): write it anew"
        ) from error
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(f"{folder} lacks {len(missing)} parameters of its model ({missing[0]}, …): write it anew")
    found: BilingualModel = model.eval()
    return found
