"""Lower-case i and ı apart, as Turkish, Azerbaijani and Tatar do: I becomes ı, and İ becomes i.

Uncased tokenizers use the rule of all other languages: I becomes i, and İ becomes two characters, i and a dot above.
A capitalised word at the beginning of a sentence would then get other tokens than the same word inside a sentence.
"""

from __future__ import annotations

import json

from tokenizers import Tokenizer

from relexify.text import has_dotless_i, split_words

__all__ = ["lower_dotless_i"]

_PAIRS = {"I\u0307": "i", "İ": "i", "I": "ı"}
"""The first key is İ as two characters."""


def lower_dotless_i(backend: Tokenizer, text: str) -> Tokenizer | None:
    """Return a tokenizer that lower-cases I and İ as the language of a text does; None if no change is needed.

    Args:
        backend: The tokenizer.
        text: A sample of the text.
    """
    normaliser = backend.normalizer
    if normaliser is None or normaliser.normalize_str("AI") != "ai" or not has_dotless_i(list(split_words(text))):
        return None
    state = json.loads(backend.to_str())
    replacements = [
        {"type": "Replace", "pattern": {"String": capital}, "content": small} for capital, small in _PAIRS.items()
    ]
    state["normalizer"] = {"type": "Sequence", "normalizers": [*replacements, state["normalizer"]]}
    return Tokenizer.from_str(json.dumps(state))
