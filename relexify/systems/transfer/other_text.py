"""Recognise a training on text in another language than the transfer, by the number of tokens per byte."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.storage.notes import read_notes
from relexify.systems.transfer.assessment.start import Start, start_of
from relexify.text import Corpus, TextSource
from relexify.tokens import encoder_of

if TYPE_CHECKING:
    from relexify.training.results.curve import Curve

__all__ = ["describe_other_text", "warn_about_other_text"]

OTHER_LANGUAGE_LENGTH_RATIO = 1.6
"""Tokens per byte, relative to the text of the transfer, above which a text is taken to be in another language.
With 8,000 tokens for Swahili or German, other genres of the same language have 1.39 or less, English has 2.01 (Swahili)
and 2.22 (German), and each of the two has 2.40 or more with the tokens of the other."""
_SAMPLE_BYTES = 50_000
"""Bytes of text whose tokens are counted."""

logger = logging.getLogger(__name__)


def warn_about_other_text(model: str | Path, corpus: TextSource) -> None:
    """Warn if a text seems to be in another language than the text of the transfer that a model comes from.

    Args:
        model: As for `load_tokenizer`.
        corpus: Text to train the model on, whatever `Corpus.open` takes.
    """
    start = start_of(read_notes(model))
    if start is None:
        return
    from relexify.pretrained.loading import load_tokenizer  # imports transformers, which `describe_other_text` does not

    lines = [line for line in Corpus.open(corpus).sample_bytes(_SAMPLE_BYTES).split("\n") if line.strip()]
    tokens = sum(len(row) for row in encoder_of(load_tokenizer(model)).encode(lines))
    size = sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)
    if found := _compare(start, tokens / max(1, size)):
        logger.warning("%s: check that it is in the language of the transfer", found)


def describe_other_text(notes: Mapping[str, Any], curve: Curve) -> str:
    """Say why the text of a training seems to be in another language than the transfer; empty if it does not.

    Args:
        notes: `relexify.json` of the trained model.
        curve: The scores of the training.
    """
    start, first = start_of(notes), curve.first
    if start is None or first.by_language or not first.perplexity > 1:
        return ""
    return _compare(start, first.bits_per_byte / math.log2(first.perplexity))  # bits per byte / bits per token


def _compare(start: Start, here: float) -> str:
    """Say that a text has far more tokens per byte than the text of the transfer; empty if it has not."""
    text = start.text
    if text is None or here < OTHER_LANGUAGE_LENGTH_RATIO * text.target_tokens / max(1, text.bytes):
        return ""
    there = text.target_tokens / max(1, text.bytes)
    return f"this text takes {here:.2f} tokens per byte, and the text of the transfer {there:.2f}"
