"""Extend the vocabulary of a model instead of replacing it, and check that its own language is not affected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import InputError
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.cache import cached, is_cached
from relexify.systems.transfer.assessment.start import ExtensionCheck
from relexify.systems.transfer.options import Transfer
from relexify.text import make_encodable
from relexify.tokens import Extension, encoder_of, extend_tokenizer, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from relexify.evidence.evidence import Evidence
    from relexify.methods.inputs import Inputs

__all__ = ["assess_extension", "extend_vocabulary", "is_extended"]

_FILE, _KIND = "extension.safetensors", "extension of a tokenizer"
_CACHED = "extension"
"""The kind of extended tokenizers in the cache."""
_FIRST_SHOWN = 250
"""Added tokens at the first point of the curve of text lengths; each further point has twice as many."""


def extend_vocabulary(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> Extension:
    """Add tokens of the target language to the source tokenizer; the result is cached.

    Raises:
        InputError: There is no text of the source language.
    """
    corpus, source_corpus = evidence.corpus, evidence.source_corpus
    if source_corpus is None:
        raise InputError("there is no text whose encoding is to be kept: give `source_corpus`")
    return cached(
        _CACHED,
        _extension_key(options, source, evidence),
        make=lambda: extend_tokenizer(
            source,
            lambda: iter(corpus),
            lambda: iter(source_corpus),
            options.added_tokens,
            size=corpus.size(),
        ),
        save=_save,
        load=_load,
    )


def is_extended(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> bool:
    """Whether the result of `extend_vocabulary` is in the cache."""
    return is_cached(_CACHED, _extension_key(options, source, evidence))


def assess_extension(options: Transfer, inputs: Inputs, scores: Mapping[str, float]) -> ExtensionCheck | None:
    """Measure how the added tokens change the encoding of both languages; None if the vocabulary was not extended.

    Args:
        options: The transfer.
        inputs: Its tokenizers, and its held-out text in the source language.
        scores: Bits per byte of that text, by model; empty if it was not scored.
    """
    source, held_out = inputs.source, inputs.evidence.source_held_out
    if not options.keep_source or held_out is None:
        return None
    kept = len(vocabulary_of(source))
    extension = extend_vocabulary(options, source, inputs.evidence)
    lines = [make_encodable(line) for line in held_out]
    added = len(extension.saved)
    shown = [0]
    while shown[-1] < added:
        shown.append(min(added, max(_FIRST_SHOWN, 2 * shown[-1])))
    return ExtensionCheck(
        added=added,
        tokens_per_byte=tuple((number, extension.tokens_per_byte(number)) for number in shown),
        source_tokens=sum(len(ids) for ids in encoder_of(source).encode(lines)),
        source_added=sum(id >= kept for ids in encoder_of(extension.tokenizer).encode(lines) for id in ids),
        source_bits_per_byte=scores,
    )


def _extension_key(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> dict[str, object]:
    """Return everything that an extended tokenizer depends on, for the cache."""
    return {
        "corpus": evidence.corpus,
        "source_corpus": evidence.source_corpus,
        "tokenizer": source,
        "added": options.added_tokens,
    }


def _save(extension: Extension, folder: Path) -> None:
    save_tokenizer(extension.tokenizer, folder)
    counts = {"kind": _KIND, "tokens": extension.tokens, "bytes": extension.bytes}
    save_arrays(folder / _FILE, {"saved": extension.saved}, counts)


def _load(folder: Path) -> Extension:
    arrays, counts = load_arrays(folder / _FILE, _KIND)
    return Extension(load_tokenizer(folder), counts["tokens"], counts["bytes"], np.array(arrays["saved"]))
