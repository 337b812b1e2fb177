"""A model with a TRILayer and its tokenizers on disk.

OUTPUT/config.json, model.safetensors   all languages
OUTPUT/tokenizer.json                   the joint tokenizer; with separate vocabularies, the last language's tokenizer
OUTPUT/languages/en                     with separate vocabularies, the first language's tokenizer
"""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedTokenizerFast

from relexify.errors import VocabularyError
from relexify.pretrained.languages import LANGUAGES
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.runtime.quiet import save_model
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM

__all__ = ["Tokenizers", "check_tokenizers", "load_tokenizers", "save_with_tokenizers"]

Tokenizers = tuple[PreTrainedTokenizerFast, PreTrainedTokenizerFast]
"""The tokenizers of the source and the target language; if the vocabulary is joint, both are the same."""


def load_tokenizers(folder: str | Path, config: TriLayerConfig) -> Tokenizers:
    """Load the tokenizers of a model's first and last language.

    Raises:
        InputError: A tokenizer is missing or damaged.
    """
    last = load_tokenizer(folder)
    if config.source_vocab_size is None:
        return last, last
    return load_tokenizer(Path(folder) / LANGUAGES / config.languages[0]), last


def save_with_tokenizers(model: TriLayerForMaskedLM, tokenizers: Tokenizers, folder: Path) -> None:
    """Write a model and its tokenizers into an existing folder, for `load_model` and `load_tokenizers`."""
    save_model(model, folder)
    save_tokenizer(tokenizers[1], folder)
    if model.config.source_vocab_size is not None:
        path = folder / LANGUAGES / model.config.languages[0]
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
                f"the tokenizer of {language} has {highest + 1} tokens, but the model has only {count} embeddings: "
                "they do not belong together; give the model's own tokenizer"
            )
