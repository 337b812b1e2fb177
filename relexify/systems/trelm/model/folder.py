"""Models with a TRILayer on the disk: their tokenizers, and one language of two.

OUTPUT/config.json, model.safetensors   all languages
OUTPUT/tokenizer.json                   of both, or of the last one where each has a vocabulary of its own
OUTPUT/languages/en                     the tokenizer of the first one, where each has its own
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.loading import load_config, load_model, load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.files import MARKER, write_file, write_folder
from relexify.systems.trelm.model.building import one_language
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM

__all__ = [
    "check_fits",
    "export_language",
    "load_language",
    "load_tokenizers",
    "save_tokenizers",
]

LANGUAGES = "languages"

Tokenizers = tuple[Any, Any]
"""Of the source language and of the target language; twice the same where the vocabulary is joint."""


def load_tokenizers(folder: str | Path, config: TriLayerConfig) -> Tokenizers:
    """The tokenizers of a model's first language and of its last.

    Raises:
        InputError: One is missing or damaged.
    """
    last = load_tokenizer(folder)
    if config.source_vocab_size is None:
        return last, last
    return load_tokenizer(Path(folder) / LANGUAGES / config.languages[0]), last


def save_tokenizers(tokenizers: Tokenizers, folder: Path, config: TriLayerConfig) -> None:
    """Write what `load_tokenizers` reads into a folder that is there."""
    save_tokenizer(tokenizers[1], folder)
    if config.source_vocab_size is not None:
        place = folder / LANGUAGES / config.languages[0]
        place.mkdir(parents=True)
        save_tokenizer(tokenizers[0], place)


def check_fits(model: TriLayerForMaskedLM, tokenizers: Tokenizers) -> None:
    """Refuse tokenizers with ids that their language's table has no row for.

    Raises:
        VocabularyError: One does not belong to the model.
    """
    rows = model.config.source_vocab_size or model.config.vocab_size, model.config.vocab_size
    for language, tokenizer, count in zip(model.config.languages, tokenizers, rows, strict=False):
        if (highest := max(tokenizer.get_vocab().values())) >= count:
            raise VocabularyError(
                f"the tokenizer of {language} has {highest + 1} tokens, the model only {count} embeddings: "
                "they do not belong together; give the model's own tokenizer"
            )


def load_language(folder: str | Path, language: str) -> tuple[TriLayerForMaskedLM, Any]:
    """One language of a model with separate vocabularies, and its tokenizer.

    Raises:
        InputError: The model does not know the language, or has one vocabulary for all.
    """
    model = load_model(folder)
    if not isinstance(model, TriLayerForMaskedLM):
        raise InputError(f"{folder} is a {type(model).__name__} and has no TRILayer: it needs no export")
    tokenizers = load_tokenizers(folder, model.config)
    return one_language(model, language), tokenizers[model.config.place_of(language)]


def export_language(folder: str | Path, language: str, output: str | Path, *, overwrite: bool = False) -> Path:
    """Write one language of a model with separate vocabularies, with its tokenizer, as a model of its own.

    Its TRILayer stays, so that it is loaded with `relexify.load_model`.

    Raises:
        InputError: The model does not know the language, or has one vocabulary for all.
        OutputError: The output cannot be written.
    """
    alone, tokenizer = load_language(folder, language)
    with write_folder(output, overwrite=overwrite) as beside:
        alone.save_pretrained(beside)
        save_tokenizer(tokenizer, beside)
        notes = {"exported": {"language": language, "languages": load_config(folder).languages}}
        write_file(beside / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
    return Path(output)
