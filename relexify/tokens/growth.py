"""An upper bound on how much longer a tokenizer may make a text, computed from its parts in `tokenizer.json`.

A chain of thirty rules that each replace "a" by "aa" makes gigabytes of one letter. Normalisers, pre-tokenisers and
decoders are such chains. Each character gets a weight: the largest number of characters that the remaining parts can
make of it. Weights are computed from the last part to the first:

    w_i(c) = max(w_{i+1}(c), Σ_{d in s} w_{i+1}(d) / |p|)    for a rule that replaces p by s, and c in p

With these weights, no rule increases the sum of the weights of a text, so the largest weight of the first part bounds
the growth. The bound of a transliteration table is its longest entry, because the letters that it inserts do not occur
in its patterns.

The matches of regular expressions are not examined, so the bound of a chain of them is far too large. Such a chain is
run on test texts instead, one rule after another, and stopped as soon as a text is too long.
"""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tokenizers import Tokenizer

__all__ = ["Growth", "growth_of", "is_lengthened"]

_CLASS = re.compile(r"\[\^?\]?[^\[\]]*\]")
_ZERO_WIDTH = re.compile(r"[\^$*?|]|\\[bBAzZGKyY]|\{[0,]|\(\)")
"""Matches every class-free regular expression that may match empty text. It also matches some that cannot, whose bound
is then too large."""
_SEQUENCES = ("normalizers", "pretokenizers", "decoders")
_BYTES_PER_CHARACTER = 4
_FIRST_IDEOGRAPH = "\u2e80"
_PROBE = (
    "Aa1 .,:;!?'\"“”„‘’«»…–—-_()[]{}<>@#$%&*+=/\\|~^`°éß\ufdfa中ひ한я\t\n\u00a0\u200b😀 https://a.b/c @user #tag 12:34"
)
"""Text with the characters that rules usually look for."""
_PROBE_LENGTH = 500
_CEILING = 1e30
"""Weights are cut off here, so that long chains do not overflow."""


class Growth(NamedTuple):
    """The largest length of a text of n characters: `factor` · n + `added`.

    Unicode normalisation can turn a character into up to 18, which is counted only for characters that rules contain.
    """

    factor: float
    added: float


def growth_of(part: object) -> Growth:
    """Return how much longer a normaliser, pre-tokeniser or decoder, as in `tokenizer.json`, may make a text."""
    parts = list(_flat(part))
    alphabet = {" "}.union(*(text for each in parts for text in _texts(each)))
    alphabet |= {d for c in alphabet for d in unicodedata.normalize("NFKD", c) + c.lower() + c.upper()}
    weights, default, added = dict.fromkeys(alphabet, 1.0), 1.0, 0.0
    for each in reversed(parts):
        match each:
            case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)} if pattern:
                share = _sum(content, weights, default) / len(pattern)
                weights |= {c: min(max(weights[c], share), _CEILING) for c in pattern}
                continue  # a table may have thousands of such rules, so only the weights in its pattern are updated
            case {"type": "Replace", "content": str(content)}:
                size = _sum(content, weights, default)
                pattern = str((each.get("pattern") or {}).get("Regex", ""))
                empty = size if _may_be_empty(pattern) else 0.0
                weights = {c: max(weight, size) + empty for c, weight in weights.items()}
                default, added = max(default, size) + empty, added + empty
            case {"type": "Prepend", "prepend": str(content)}:
                added += _sum(content, weights, default)
            case {"type": "ByteLevel"}:
                # A character becomes as many as it has bytes in UTF-8; a space may be added to each text or word.
                factor = _BYTES_PER_CHARACTER + (1.0 if each.get("add_prefix_space") else 0.0)
                default = factor * max([default, *weights.values()])
                weights = dict.fromkeys(weights, default)
            case {"type": "Precompiled", "precompiled_charsmap": str(table)}:
                default = _longest_entry(table) * max([default, *weights.values()])
                weights = dict.fromkeys(weights, default)
            case {"type": "BertNormalizer"}:  # puts spaces around ideographs, and lower-cases and decomposes
                spaces, largest = 2 * _sum(" ", weights, default), max([default, *weights.values()])
                rewritten = ((c, _rewritten(c, weights, default)) for c in weights)
                weights = {c: weight + (spaces if c >= _FIRST_IDEOGRAPH else 0) for c, weight in rewritten}
                default = largest + spaces
            case {"type": "NFC" | "NFKC"}:  # also composes letters, so any other letter may result
                default = max([default, *weights.values()])
                weights = {c: len(unicodedata.normalize("NFKD", c)) * default for c in weights}
            case {"type": "NFD" | "NFKD" | "Nmt" | "Lowercase" | "StripAccents"}:
                largest = max([default, *weights.values()])
                weights, default = {c: _rewritten(c, weights, default) for c in weights}, largest
            case _:  # adds at most a character to a text or word, or splits or shortens it
                added += 1.0
        weights = {c: min(weight, _CEILING) for c, weight in weights.items()}
        default, added = min(default, _CEILING), min(added, _CEILING)
    return Growth(max([default, *weights.values()]), added)


def is_lengthened(normaliser: object, factor: float, added: float) -> bool:
    """Return whether a normaliser, as in `tokenizer.json`, makes a text of n characters longer than factor · n + added.

    It is run on the texts that its rules insert or look for, on the characters of its regular expressions, and on
    marks, letters and digits. If a rule inserts more than `added` characters, the answer is yes without a run.
    """
    parts = list(_flat(normaliser))
    texts = {text for each in parts for text in _texts(each)}
    if any(len(text) > added for text in texts):
        return True
    patterns = {str((each.get("pattern") or {}).get("Regex", "")) for each in parts if each.get("type") == "Replace"}
    probes = {_PROBE, *_PROBE, *texts, *"".join(texts | patterns)} - {""}
    state = json.loads(Tokenizer.from_str('{"model": {"type": "BPE", "vocab": {}, "merges": []}}').to_str())
    try:
        rules = [Tokenizer.from_str(json.dumps(state | {"normalizer": each})).normalizer for each in parts]
    except Exception:  # tokenizers rejects a damaged rule; loading the tokenizer raises the error again
        return False
    for text in [each * count for each in probes for count in (1, _PROBE_LENGTH // len(each)) if count]:
        normalised, limit = text, factor * len(text) + added
        for rule in rules:
            normalised = rule.normalize_str(normalised)
            if len(normalised) > limit:
                return True
    return False


def _flat(part: object) -> Iterator[dict[str, Any]]:
    """Yield the parts of a possibly nested sequence, in order."""
    pending = [part]
    while pending:
        each = pending.pop()
        if not isinstance(each, dict):
            continue
        inner = next((each[name] for name in _SEQUENCES if isinstance(each.get(name), list)), None)
        if inner is None:
            yield each
        else:
            pending += reversed(inner)


def _texts(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that a rule inserts, and those that it looks for unless they are regular expressions."""
    pattern = part.get("pattern")
    found = pattern.get("String") if isinstance(pattern, dict) else None
    yield from (text for text in (found, part.get("content"), part.get("prepend")) if isinstance(text, str))


def _sum(text: str, weights: Mapping[str, float], default: float) -> float:
    return sum(weights.get(character, default) for character in text)


def _rewritten(character: str, weights: Mapping[str, float], default: float) -> float:
    """Return the largest weight of a character that is kept, decomposed or written in lower case."""
    forms = (character, unicodedata.normalize("NFKD", character), character.lower())
    return max(_sum(form, weights, default) for form in forms)


def _may_be_empty(pattern: str) -> bool:
    """Return whether a regular expression may match empty text; true for some that cannot."""
    pattern = re.sub(r"\\\W", "x", pattern)
    while (shorter := _CLASS.sub("x", pattern)) != pattern:
        pattern = shorter
    return not pattern or _ZERO_WIDTH.search(pattern) is not None


def _longest_entry(table: str) -> int:
    """Return the length of the longest text in a character map of SentencePiece, at least 1."""
    try:
        data = base64.b64decode(table, validate=True)
    except ValueError:  # rejected elsewhere
        return 1
    entries = data[4 + int.from_bytes(data[:4], "little") :].split(b"\0")
    return max(1, *(len(entry.decode(errors="replace")) for entry in entries))
