"""A bilingual model with its tokenizers, in memory and on disk.

OUTPUT/config.json, model.safetensors      both languages
OUTPUT/languages/en, OUTPUT/languages/sw   the tokenizer and the generation config of each
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from transformers import GenerationConfig, PreTrainedTokenizerFast

from relexify.errors import InputError, first_line
from relexify.grafting import load_own_tokenizer
from relexify.pretrained.architecture import check_fit
from relexify.pretrained.kinds import kind_of_folder
from relexify.pretrained.languages import LANGUAGES
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.runtime.quiet import quiet_transformers, save_model
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.files import write_folder
from relexify.systems.bilingual.kind import BILINGUAL
from relexify.systems.bilingual.model import BilingualModel

__all__ = ["BilingualBundle", "load_bilingual_model"]

_GENERATION = "generation_config.json"


@dataclass(frozen=True)
class BilingualBundle:
    """A bilingual model with the tokenizers of its languages.

    Attributes:
        model: The model.
        tokenizers: The tokenizer of each language, by its name.
    """

    model: BilingualModel
    tokenizers: Mapping[str, PreTrainedTokenizerFast]

    @classmethod
    def join(cls, source: str | Path, target: str | Path, languages: tuple[str, str]) -> BilingualBundle:
        """Join two models that share an encoder.

        Args:
            source: The model of the source language: a folder, a Hub name, or `smollm2-135m`.
            target: The same model with the vocabulary of the target language, as `relexify transfer` writes it.
            languages: Names of the source and the target language.

        Raises:
            InputError: A model cannot be loaded, or the names are invalid.
            GraftError: The two models do not have the same architecture.
            VocabularyError: A tokenizer does not belong to its model.
        """
        tokenizers = load_own_tokenizer(source), load_own_tokenizer(target)
        models = load_model(source), load_model(target)
        for model, tokenizer in zip(models, tokenizers, strict=True):
            check_fit(model, tokenizer)
        return cls(BilingualModel.join(*models, languages), dict(zip(languages, tokenizers, strict=True)))

    @classmethod
    def load(cls, folder: str | Path) -> BilingualBundle:
        """Load a folder that `save` or `relexify bilingual` wrote.

        Raises:
            InputError: The folder does not contain a bilingual model, or is damaged.
        """
        model = load_bilingual_model(folder)
        tokenizers = {}
        for language in model.languages:
            path = Path(folder) / LANGUAGES / language
            tokenizers[language] = load_tokenizer(path)
            check_fit(model.for_language(language), tokenizers[language])
            if (path / _GENERATION).is_file():
                model.for_language(language).generation_config = GenerationConfig.from_pretrained(path)
        return cls(model, tokenizers)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write a folder, completely or not at all."""
        with write_folder(folder, overwrite=overwrite) as unfinished:
            self.write_into(unfinished)
        return Path(folder)

    def write_into(self, folder: Path) -> None:
        """Write all files into an existing folder."""
        save_model(self.model, folder)
        for language, tokenizer in self.tokenizers.items():
            path = folder / LANGUAGES / language
            path.mkdir(parents=True)
            save_tokenizer(tokenizer, path)
            model = self.model.for_language(language)
            if model.can_generate():
                model.generation_config.save_pretrained(path)


def load_bilingual_model(folder: str | Path) -> BilingualModel:
    """Load the model without its tokenizers, in the dtype it was saved in.

    Raises:
        InputError: The folder does not contain a bilingual model, or is damaged.
    """
    if kind_of_folder(folder) is not BILINGUAL:
        raise InputError(f"{folder} holds no bilingual model: give a folder that relexify bilingual wrote")
    try:
        with quiet_transformers():
            model, loaded = BilingualModel.from_pretrained(folder, dtype="auto", output_loading_info=True)
    except Exception as error:  # an invalid config may fail anywhere in transformers
        raise InputError(
            f"the bilingual model in {folder} cannot be loaded ({first_line(error)}): write it again"
        ) from error
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(f"{folder} lacks {len(missing)} parameters of its model ({missing[0]}, …): write it again")
    loaded_model: BilingualModel = model.eval()
    return loaded_model
