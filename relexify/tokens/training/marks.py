r"""Train tokenizers on scripts that write vowels as combining marks: Devanagari, Thai, Khmer, pointed Hebrew, ….

The tokenizers of many models were designed for scripts without marks. The regular expressions of GPT-2, Llama 3 and
Qwen split text into runs of letters (`\p{L}+`), which end at every mark: a Hindi word is split into five parts, and no
token can span two of them. Uncased BERTs and ALBERT delete marks, which are only accents in English, but vowels and
tones in other languages.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from typing import Any

from tokenizers import Tokenizer

__all__ = ["keep_marks", "needs_marks"]

_MIN_SHARE = 0.01
_MIN_LATIN_SHARE = 0.1
"""From this share of marks on, accents of Latin letters are kept too. In Vietnamese, accents distinguish most words; in
German and French, few letters have one, so the tokenizer is not changed."""
_LATIN = re.compile(r"[A-Za-z][\u0300-\u036f]*")
_JOINERS = "\u200c\u200d"
"""Invisible characters inside Persian and Indic words."""
_LETTERS = rf"\p{{L}}\p{{M}}{_JOINERS}"
_CLASS_OR_LETTER = re.compile(r"\[(?:\\.|[^\]\\])*\]|\\p\{L\}")
_GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


_SPACE_BEFORE_TEXT = (
    {"type": "Prepend", "prepend": " "},
    {"type": "Replace", "pattern": {"Regex": r"\A  "}, "content": " "},  # unless the text begins with a space
)
"""A normaliser that does what `add_prefix_space` does. The option itself cannot be used after another pre-tokeniser has
split the text: each part would get a space."""


Component = dict[str, Any]
"""A normaliser or pre-tokeniser, as in `tokenizer.json`."""


def keep_marks(backend: Tokenizer, text: str) -> Tokenizer | None:
    """Return a tokenizer that neither splits words at the marks of a text nor deletes the marks.

    Returns:
        The changed tokenizer, or None if no change is needed.

    Args:
        backend: The tokenizer.
        text: A sample of the text.
    """
    before = json.loads(backend.to_str())
    after = dict(before)
    if needs_marks(text):
        after["normalizer"] = _unstripped(before["normalizer"])
    if _share_of_marks(text) >= _MIN_SHARE:
        after["pre_tokenizer"] = _uncut(before["pre_tokenizer"])
        first = _parts(before["pre_tokenizer"])[:1]
        if first and _cuts_after_space(first[0]):
            normalisers = [] if after["normalizer"] is None else [after["normalizer"]]
            after["normalizer"] = {"type": "Sequence", "normalizers": [*normalisers, *_SPACE_BEFORE_TEXT]}
    return None if after == before else Tokenizer.from_str(json.dumps(after))


def needs_marks(text: str) -> bool:
    """Whether a text has enough marks that a tokenizer must not delete them; accents of precomposed letters count."""
    # Normalisers that delete marks decompose letters first.
    decomposed = unicodedata.normalize("NFD", text)
    return _share_of_marks(decomposed) >= _MIN_LATIN_SHARE or _share_of_marks(_LATIN.sub("", decomposed)) >= _MIN_SHARE


def _share_of_marks(text: str) -> float:
    """Return the share of combining marks and joiners among all letters, marks and joiners of a text."""
    counts = Counter(text)
    marks = sum(number for each, number in counts.items() if unicodedata.category(each)[0] == "M" or each in _JOINERS)
    letters = sum(number for each, number in counts.items() if each.isalpha())
    return marks / max(1, letters + marks)


def _uncut(component: Component | None) -> Component | None:
    """Return a pre-tokeniser that splits words from runs of letters, marks and joiners."""
    parts = _parts(component)
    uncut = []
    for index, part in enumerate(parts):
        # After another pre-tokeniser that splits the text, this one adds a space before each part, so it is kept.
        uncut += [part] if index and _cuts_after_space(part) else _uncut_part(part)
    if uncut == parts:
        return component
    # Not nested, because transformers adds all bytes to the alphabet only if ByteLevel is in the outermost sequence.
    return uncut[0] if len(uncut) == 1 else {"type": "Sequence", "pretokenizers": uncut}


def _parts(component: Component | None) -> list[Component]:
    """Return the pre-tokenisers that a sequence, possibly nested, applies one after another."""
    if component is None:
        return []
    if "pretokenizers" not in component:
        return [component]
    return [part for each in component["pretokenizers"] for part in _parts(each)]


def _uncut_part(part: Component) -> list[Component]:
    pattern = part.get("pattern", {}).get("Regex", "")
    if part["type"] == "Split" and pattern and r"\p{M}" not in pattern:
        return [{**part, "pattern": {"Regex": _with_marks(pattern)}}]
    if part["type"] == "ByteLevel" and part["use_regex"]:
        cut = {"type": "Split", "pattern": {"Regex": _with_marks(_GPT2_WORDS)}, "behavior": "Isolated", "invert": False}
        return [cut, {**part, "use_regex": False, "add_prefix_space": False}]
    return [part]


def _cuts_after_space(part: Component) -> bool:
    """Whether a pre-tokeniser adds a space before a text that lacks one, and then splits the text."""
    return bool(part["type"] == "ByteLevel" and part["use_regex"] and part["add_prefix_space"])


def _with_marks(pattern: str) -> str:
    """Return a regular expression whose letters include marks and joiners.

    Character classes are not nested, and joiners are not escaped, because not all regex engines support `[[a]b]` and
    `\\x{200C}`.
    """

    def add_marks(match: re.Match[str]) -> str:
        if match[0].startswith("["):  # a class, which contains \p{L} or not
            return match[0].replace(r"\p{L}", _LETTERS)
        return f"[{_LETTERS}]"

    return _CLASS_OR_LETTER.sub(add_marks, pattern)


def _unstripped(component: Component | None) -> Component | None:
    """Return a normaliser that deletes no marks."""
    if component is None or component["type"] == "StripAccents":
        return None
    if "normalizers" in component:
        kept = [each for each in map(_unstripped, component["normalizers"]) if each is not None]
        return {**component, "normalizers": kept}
    strips = component["type"] == "BertNormalizer" and (component["strip_accents"] or component["lowercase"])
    return {**component, "strip_accents": False} if strips else component
