"""Models with a TRILayer on disk: their tokenizers, and the export of one language of two.

OUTPUT/config.json, model.safetensors   all languages
OUTPUT/tokenizer.json                   of the joint vocabulary, or of the last language's if each has its own
OUTPUT/languages/en                     the tokenizer of the first language, if each has its own
"""

from __future__ import annotations

import json
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.loading import load_config, load_model, load_tokenizer
from relexify.pretrained.quiet import save_model
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.files import MARKER, write_file, write_folder
from relexify.systems.trelm.model.building import with_one_language
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM

__all__ = [
    "Tokenizers",
    "check_tokenizers",
    "export_trelm",
    "load_language",
    "load_tokenizers",
    "save_tokenizers",
]

LANGUAGES = "languages"

Tokenizers = tuple[PreTrainedTokenizerFast, PreTrainedTokenizerFast]
"""The tokenizers of the source and the target language; the same one twice if the vocabulary is joint."""


def load_tokenizers(folder: str | Path, config: TriLayerConfig) -> Tokenizers:
    """Load the tokenizers of a model's first language and of its last.

    Raises:
        InputError: One is missing or damaged.
    """
    last = load_tokenizer(folder)
    if config.source_vocab_size is None:
        return last, last
    return load_tokenizer(Path(folder) / LANGUAGES / config.languages[0]), last


def save_tokenizers(tokenizers: Tokenizers, folder: Path, config: TriLayerConfig) -> None:
    """Write tokenizers into an existing folder, for `load_tokenizers`."""
    save_tokenizer(tokenizers[1], folder)
    if config.source_vocab_size is not None:
        path = folder / LANGUAGES / config.languages[0]
        path.mkdir(parents=True)
        save_tokenizer(tokenizers[0], path)


def check_tokenizers(model: TriLayerForMaskedLM, tokenizers: Tokenizers) -> None:
    """Validate that the embedding table of a language has a row for every id of its tokenizer.

    Raises:
        VocabularyError: A tokenizer does not belong to the model.
    """
    rows = model.config.source_vocab_size or model.config.vocab_size, model.config.vocab_size
    for language, tokenizer, count in zip(model.config.languages, tokenizers, rows, strict=False):
        if (highest := max(tokenizer.get_vocab().values())) >= count:
            raise VocabularyError(
                f"the tokenizer of {language} has {highest + 1} tokens, the model only {count} embeddings: "
                "they do not belong together; give the model's own tokenizer"
            )


def load_language(folder: str | Path, language: str) -> tuple[TriLayerForMaskedLM, PreTrainedTokenizerFast]:
    """Load one language of a model with separate vocabularies, and its tokenizer.

    Raises:
        InputError: The model does not know the language, or has one vocabulary for all.
    """
    model = load_model(folder)
    if not isinstance(model, TriLayerForMaskedLM):
        raise InputError(f"{folder} is a {type(model).__name__} and has no TRILayer: it needs no export")
    tokenizers = load_tokenizers(folder, model.config)
    return with_one_language(model, language), tokenizers[model.config.language_index(language)]


def export_trelm(folder: str | Path, language: str, output: str | Path, *, overwrite: bool = False) -> Path:
    """Write one language of a model with separate vocabularies, with its tokenizer, as a model of its own.

    It keeps its TRILayer, so it is loaded with `relexify.load_model`.

    Raises:
        InputError: The model does not know the language, or has one vocabulary for all.
        OutputError: The output cannot be written.
    """
    alone, tokenizer = load_language(folder, language)
    with write_folder(output, overwrite=overwrite) as beside:
        save_model(alone, beside)
        save_tokenizer(tokenizer, beside)
        notes = {"exported": {"language": language, "languages": load_config(folder).languages}}
        write_file(beside / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
    return Path(output)
