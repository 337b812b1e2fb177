"""FreeDict dictionaries in dictd's format: an `.index` of headwords and a `.dict` (or `.dict.dz`) of entries.

A line of the index is `headword<TAB>offset<TAB>length`; both numbers are in dictd's base 64, and count bytes of the
unpacked `.dict`. Entries are written for people, not for programs:

    ziwa /zˈiwa/ <n> (pl: {maziwa})
    1. lake, pond
    a large body of water
    2. breast
       Note: also figuratively
     see: {maziwa}
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from relexify.errors import InputError
from relexify.evidence.lexicon.files import read_content, read_lines, tidy

__all__ = ["plain_words", "read_dictd"]

DIGITS = {
    digit: value
    for value, digit in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}  # fmt: skip

_MOST_DIGITS = 11  # of base 64: more than 64 bits

PRONUNCIATION = re.compile(
    r"(?:^|(?<=\s))/{1,2}(?!\s)[^/]+(?<!\s)/{1,2}(?=[\s,;]|$)"
)  # /x/, or //x// if made from Wiktionary
TAG = re.compile(r"<[^<>]*>")
ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
NUMBER = re.compile(r" {0,2}\d+[.)](?=\s|$)")
LAST_NUMBER = re.compile(r"\s\d+\.$")
REFERENCE = re.compile(r"\s*[^\s:{}][^:{}]*:\s*\{")
RELATION = re.compile(r"^[^{}]*\{[^{}]*\}:")
SEPARATOR = re.compile(r"[,;،؛、；，]")


def read_dictd(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (headword, translation) pairs in the order of the entries, given the `.index` or the `.dict[.dz]`.

    Raises:
        InputError: One of the two files is missing or damaged, or they do not belong together.
    """
    stem = str(path).removesuffix(".dz").removesuffix(".dict").removesuffix(".index")
    index_path = Path(stem + ".index")
    if not index_path.is_file():
        raise InputError(f"{path} has no index: {index_path.name} must be next to it")
    dict_path = next((Path(stem + end) for end in (".dict.dz", ".dict") if Path(stem + end).is_file()), None)
    if dict_path is None:
        raise InputError(f"{index_path} has no entries: {Path(stem).name}.dict or .dict.dz must be next to it")
    content = read_content(dict_path)
    for (start, length), headwords in sorted(_read_index(index_path, len(content)).items()):
        try:
            entry = content[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{dict_path} is not UTF-8: byte {start + error.start} is {content[start + error.start]:#04x}; "
                "convert the dictionary, or download it again"
            ) from error
        yield from _entry_pairs(entry, headwords)


def plain_words(text: str) -> Iterator[str]:
    """Yield the words of a line of translations, separated by commas, without pronunciation, grammar and remarks."""
    text = RELATION.sub("", text)
    text = ASIDE.sub(" ", ASIDE.sub(" ", PRONUNCIATION.sub(" ", text)))
    for word in SEPARATOR.split(TAG.sub(",", text)):
        if plain := tidy(word).strip('"“”„«»').strip():
            yield plain


def _read_index(path: Path, size: int) -> dict[tuple[int, int], list[str]]:
    """Return the headwords of every entry, by its (offset, length); `00database…` entries describe the file itself."""
    entries: dict[tuple[int, int], list[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith(("00database", "00-database")):
            continue
        headword, *fields = line.split("\t")
        try:
            start, length = _base64(fields[0]), _base64(fields[1].rstrip())
        except (IndexError, KeyError, ValueError) as error:
            raise InputError(
                f"{path}, line {number}: not `headword<TAB>offset<TAB>length` as in a dictd index"
            ) from error
        if start + length > size:
            raise InputError(
                f"{path}, line {number}: the entry ends at byte {start + length}, but the dictionary has {size} bytes: "
                "the two files do not belong together, or the dictionary is truncated; download both again"
            )
        entries.setdefault((start, length), []).append(headword)
    return entries


def _base64(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    value = 0
    for digit in digits:
        value = value * 64 + DIGITS[digit]
    return value


def _entry_pairs(entry: str, headwords: list[str]) -> Iterator[tuple[str, str]]:
    first, _, body = entry.partition("\n")
    names = _names(first, headwords)
    for line in _translation_lines(textwrap.dedent(body)):
        for translation in plain_words(line):
            for name in names:
                yield name, translation


def _names(first: str, headwords: list[str]) -> list[str]:
    """Return the headwords as the entry spells them; the index lower-cases them and drops punctuation.

    A comma separates headwords only if the index lists each of them: "yes, please" is one headword.
    """
    parts = list(plain_words(first))
    folded = {_folded(headword) for headword in headwords}
    if len(parts) > 1 and all(_folded(part) in folded for part in parts):
        return parts
    whole = tidy(ASIDE.sub(" ", TAG.sub(" ", PRONUNCIATION.sub(" ", first))))
    return [whole or tidy(headwords[0])]


def _folded(word: str) -> str:
    return "".join(letter for letter in word.casefold() if letter.isalnum())


def _translation_lines(body: str) -> Iterator[str]:
    """Yield the lines of an entry's body that contain translations.

    Each sense has its translations on its first line, after or below its number. Later lines at the margin are
    definitions (unless they continue with a semicolon); indented lines are notes, examples or references.
    """
    expected = True
    for raw in body.split("\n"):
        numbered = NUMBER.match(raw)
        indented, bare = raw.startswith(" "), numbered is not None and numbered.end() == len(raw.rstrip())
        if numbered and not (indented and bare):
            line, expected = raw[numbered.end() :].strip(), True
        else:
            line = "" if indented else raw.strip()
        if line and (expected or line.startswith(";")) and not REFERENCE.match(line):
            yield LAST_NUMBER.sub("", line)
            expected = False
