"""Lower-case i and ı apart, as Turkish, Azerbaijani and Tatar do: I becomes ı, and İ becomes i.

Tokenizers in lower case know only the rule of all other languages, by which I becomes i and İ two characters, i and a
dot above. The first word of a sentence would then be another one than the same word inside it.
"""

from __future__ import annotations

import json

from tokenizers import Tokenizer

from relexify.text import has_dotless_i, split_words

__all__ = ["lower_dotless_i"]

_PAIRS = {"I\u0307": "i", "İ": "i", "I": "ı"}
"""The first is İ as two characters."""


def lower_dotless_i(backend: Tokenizer, text: str) -> Tokenizer | None:
    """Return a tokenizer that lower-cases I and İ as the language of a text does; None if this one does.

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
