r"""Train tokenizers on scripts that write vowels as combining marks: Devanagari, Thai, Khmer, pointed Hebrew, ….

The tokenizers of many models are made for scripts without marks. The regular expressions of GPT-2, Llama 3 and Qwen cut
text into runs of letters (`\p{L}+`), which end at every mark: a Hindi word becomes five parts, and no token can span
two of them. Uncased BERTs and ALBERT delete marks, which are accents in English, but vowels and tones elsewhere.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from typing import Any

from tokenizers import Tokenizer

__all__ = ["keep_marks"]

_LEAST_SHARE = 0.01
_LEAST_LATIN_SHARE = 0.1
"""Smallest share of letters with accents for which those of Latin script are kept too. In German and French, few
letters have one, so the tokenizer stays as it is; in Vietnamese, they tell most words apart."""
_LATIN = re.compile(r"[A-Za-z][\u0300-\u036f]*")
_JOINERS = "\u200c\u200d"
"""Invisible characters inside words of Persian and of Indic languages."""
_LETTERS = rf"\p{{L}}\p{{M}}{_JOINERS}"
_CLASS_OR_LETTER = re.compile(r"\[(?:\\.|[^\]\\])*\]|\\p\{L\}")
_GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


_SPACE_BEFORE_TEXT = (
    {"type": "Prepend", "prepend": " "},
    {"type": "Replace", "pattern": {"Regex": r"\A  "}, "content": " "},  # unless it begins with one
)
"""What `add_prefix_space` does, as a normaliser: each part of a text that is cut beforehand would get a space."""


Component = dict[str, Any]
"""A normaliser or pre-tokeniser, as in `tokenizer.json`."""


def keep_marks(backend: Tokenizer, text: str) -> Tokenizer | None:
    """Return a tokenizer that neither cuts words at the marks of a text nor deletes them; None if it is this one.

    Args:
        backend: The tokenizer.
        text: A sample of the text.
    """
    before = json.loads(backend.to_str())
    after = dict(before)
    apart = unicodedata.normalize("NFD", text)
    if _share_of_marks(apart) >= _LEAST_LATIN_SHARE or _share_of_marks(_LATIN.sub("", apart)) >= _LEAST_SHARE:
        after["normalizer"] = _unstripped(before["normalizer"])
    if _share_of_marks(text) >= _LEAST_SHARE:
        after["pre_tokenizer"] = _uncut(before["pre_tokenizer"])
        if any(map(_cuts_after_space, _parts(before["pre_tokenizer"])[:1])):
            normalisers = [] if after["normalizer"] is None else [after["normalizer"]]
            after["normalizer"] = {"type": "Sequence", "normalizers": [*normalisers, *_SPACE_BEFORE_TEXT]}
    return None if after == before else Tokenizer.from_str(json.dumps(after))


def _share_of_marks(text: str) -> float:
    """Return the share of combining marks and joiners among the letters of a text and themselves."""
    counts = Counter(text)
    marks = sum(number for each, number in counts.items() if unicodedata.category(each)[0] == "M" or each in _JOINERS)
    letters = sum(number for each, number in counts.items() if each.isalpha())
    return marks / max(1, letters + marks)


def _uncut(component: Component | None) -> Component | None:
    """Return a pre-tokeniser whose words are runs of letters, marks and joiners."""
    parts = _parts(component)
    uncut = []
    for index, part in enumerate(parts):
        # After another one that cuts, a space is put before each of the parts.
        uncut += [part] if index and _cuts_after_space(part) else _uncut_part(part)
    if uncut == parts:
        return component
    # Not nested: transformers gives a tokenizer all bytes only if it finds ByteLevel in the outermost sequence.
    return uncut[0] if len(uncut) == 1 else {"type": "Sequence", "pretokenizers": uncut}


def _parts(component: Component | None) -> list[Component]:
    """Return the pre-tokenisers that a sequence, which may be nested, applies in turn."""
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
    """Whether a pre-tokeniser puts a space before a text that lacks one, and then cuts it."""
    return bool(part["type"] == "ByteLevel" and part["use_regex"] and part["add_prefix_space"])


def _with_marks(pattern: str) -> str:
    """Return a regular expression whose letters include marks and joiners.

    Classes are not nested, and joiners are written as they are, because not all engines read `[[a]b]` and `\\x{200C}`.
    """
    return _CLASS_OR_LETTER.sub(
        lambda found: found[0].replace(r"\p{L}", _LETTERS) if found[0][0] == "[" else f"[{_LETTERS}]", pattern
    )


def _unstripped(component: Component | None) -> Component | None:
    """Return a normaliser that deletes no marks."""
    if component is None or component["type"] == "StripAccents":
        return None
    if "normalizers" in component:
        kept = [each for each in map(_unstripped, component["normalizers"]) if each is not None]
        return {**component, "normalizers": kept}
    strips = component["type"] == "BertNormalizer" and (component["strip_accents"] or component["lowercase"])
    return {**component, "strip_accents": False} if strips else component
