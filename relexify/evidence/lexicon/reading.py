"""Read a dictionary of any format, recognised by its name and its first bytes; the reader of two-column text."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from itertools import chain, islice, product
from pathlib import Path

from relexify.errors import InputError
from relexify.evidence.lexicon.dictd import read_dictd
from relexify.evidence.lexicon.files import read_lines, tidy
from relexify.evidence.lexicon.tei import read_tei
from relexify.progress import ONCE, count_of
from relexify.text.decoding import open_decompressed

__all__ = ["read_pairs", "read_two_columns"]

LONGEST_SIDE = 1_000
"""Maximum number of characters of a word or phrase; longer ones are no translations and may break tokenizers."""
LONGEST_ITEM = 3
"""Maximum number of words of an item in a list of translations; with longer items, the commas belong to a sentence."""
FIRST_PAIRS, LEAST_LISTS = 10_000, 0.02
"""If at least this share of the first pairs are lists, the file is taken to have lists of translations. In WECHSEL's
lists from Wiktionary, at most 0.003 of the pairs have such a comma, in proverbs and exclamations."""
LIST_SEPARATOR = re.compile(r"[,;]\s|[،؛、；，]")
_BRACKETS = "|".join(
    rf"\{left}(?:{other}|\{left}(?:{other}|\{left}{other}*\{right})*\{right})*\{right}"
    for left, right, other in (("(", ")", "[^()]"), ("[", "]", r"[^\[\]]"), ("{", "}", "[^{}]"))
)
REMARK = re.compile(rf"(?:^|\s|(?<=[،؛、；，]))(?:{_BRACKETS})+(?=[\s,;:.!?…،؛、；，]|$)")
"""Brackets between words, nested up to three levels; brackets inside a word ("colo(u)r") are part of the word."""
HYPHENS = ("-", "\u2010", "\u2011")
_MANY_AFFIXES = 0.05
"""From this share of affixes on, a warning is logged: the affixes may be stems, such as `-zuri`."""
TEI_SUFFIXES = (".tei", ".tei.gz", ".tei.xz")

logger = logging.getLogger(__name__)


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the (left, right) pairs of a dictionary in any format that relexify reads.

    Args:
        path: A two-column text file, a TEI file, either file of a dictd pair, or a folder with one dictionary in it.

    Raises:
        InputError: `path` does not exist or cannot be read.
    """
    if path.is_dir():
        path = _only_dictionary(path)
    kept = skipped = affixes = 0
    first_affix = ""
    for left, right in _reader(path)(path):
        if max(len(left), len(right)) > LONGEST_SIDE:
            skipped += 1
        elif is_affix(left) or is_affix(right):
            affixes, first_affix = affixes + 1, first_affix or f"{left} → {right}"
        else:
            kept += 1
            yield left, right
    if skipped:
        entries, are = count_of(skipped, "entry", "entries"), "is" if skipped == 1 else "are"
        logger.warning("%s: %s of more than %d characters %s skipped", path, entries, LONGEST_SIDE, are)
    if not affixes:
        return
    if not kept:
        raise InputError(
            f"{path} holds no pairs of words, only affixes such as {first_affix}: write words, and stems without a "
            "hyphen"
        )
    entries = f"an entry with an affix ({first_affix}) is skipped"
    if affixes > 1:
        entries = f"{affixes:,} entries with an affix (such as {first_affix}) are skipped"
    if affixes < _MANY_AFFIXES * (kept + affixes):
        logger.info("%s: %s, because affixes are parts of words, not words", path, entries, extra=ONCE)
    else:
        logger.warning(
            "%s: %s, because affixes are parts of words, not words; if they are stems of words, write them without a "
            "hyphen",
            path,
            entries,
        )


def is_affix(side: str) -> bool:
    """Whether one side of an entry is a part of words and begins or ends with a hyphen: `-ness`, `ki-`, `-ji-`.

    If it were used as a word, the word on the other side would be mixed from its letters. In the dictionaries from
    Wiktionary, 17 of 5,325 entries for Swahili (such as `-ly → kwa`) and 232 of 60,708 for German are affixes.
    """
    begins, ends = side[:1] in HYPHENS and not side[1:2].isspace(), side[-1:] in HYPHENS and not side[-2:-1].isspace()
    return (begins or ends) and any(map(str.isalpha, side))


def read_two_columns(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the (left, right) pairs of a two-column text file, in file order.

    A line with a tab is split at the tab, and both sides may contain spaces. Any other line is split at white space, as
    in MUSE's files, and must have exactly two words. Columns after the second (scores, notes), blank lines and comments
    (`# …`) are ignored.

    Raises:
        InputError: The file cannot be read as text, or most of its lines do not have two sides.
    """
    pairs = faulty = first_faulty = 0
    for number, line in enumerate(read_lines(path), start=1):
        # `#hashtag<TAB>word` and `#<TAB>number sign` are entries, `# en<TAB>de` is a comment.
        is_comment = line.startswith("#") and ("\t" not in line or line[1:2] in (" ", "#", "!"))
        if not line.strip() or is_comment:
            continue
        sides = [tidy(side) for side in (line.split("\t")[:2] if "\t" in line.strip() else line.split())]
        if len(sides) == 2 and all(sides):
            pairs += 1
            yield sides[0], sides[1]
        else:
            faulty, first_faulty = faulty + 1, first_faulty or number
    if faulty:
        lines = f"{path}: {faulty:,} of {count_of(faulty + pairs, 'line')}"
        if faulty > pairs:
            raise InputError(
                f"{lines} without two sides, the first of them line {first_faulty}: put one pair on each line, with a "
                "tab, not a comma, between the two"
            )
        logger.warning("%s skipped, without two sides; the first is line %d", lines, first_faulty)


def _reader(path: Path) -> Callable[[Path], Iterator[tuple[str, str]]]:
    """Return the function that reads a file, by its name and its first bytes."""
    if path.exists() and _is_dictd(path):
        return read_dictd
    if path.name.endswith(TEI_SUFFIXES):
        return read_tei
    start = _beginning(path).removeprefix(b"\xef\xbb\xbf").lstrip()
    return read_tei if start.startswith((b"<?xml", b"<TEI", b"<!DOCTYPE")) else _read_lists


def _read_lists(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a two-column text file without remarks, with lists of translations split into single pairs.

    Two lists of the same length are paired in order ("yes, please" and "ja, bitte"); otherwise, each item is paired
    with each. A phrase with as many words as the list has items may translate the whole list ("yes, please" and "ja
    gern"); such a pair is not split. In a file with hardly any lists, commas belong to proverbs and are not split at.
    """
    pairs = read_two_columns(path)
    first = list(islice(pairs, FIRST_PAIRS))
    has_lists = sum(len(_items(side)) > 1 for sides in first for side in sides) > LEAST_LISTS * len(first)
    for sides in chain(first, pairs):
        left, right = (_items(side) if has_lists else [_without_remarks(side)] for side in sides)
        if len(left) == len(right):
            yield from zip(left, right, strict=True)
        elif _translates_all(left, right) or _translates_all(right, left):
            yield sides
        else:
            yield from product(left, right)


def _translates_all(phrase: list[str], items: list[str]) -> bool:
    """Whether a side is one phrase with as many words as a list has items, without the "to" of "to go"."""
    return len(phrase) == 1 and len(phrase[0].removeprefix("to ").split()) == len(items)


def _without_remarks(side: str) -> str:
    return tidy(REMARK.sub("", side)) or side


def _items(side: str) -> list[str]:
    """Return the words or short phrases that are separated by commas or semicolons, without remarks in brackets."""
    plain = _without_remarks(side)
    items = [item.strip() for item in LIST_SEPARATOR.split(plain)]
    return items if all(0 < len(item.split()) <= LONGEST_ITEM for item in items) else [plain]


def _is_dictd(path: Path) -> bool:
    """Whether a file is one of a dictd pair; a `.dict` on its own may be a two-column text file."""
    if path.name.endswith((".index", ".dict.dz")) or path.with_suffix(".index").is_file():
        return path.name.endswith((".index", ".dict", ".dict.dz"))
    return path.name.endswith(".dict") and b"00-database" in _beginning(path)


def _beginning(path: Path) -> bytes:
    with open_decompressed(path) as stream:
        return stream.read(256)


def _only_dictionary(folder: Path) -> Path:
    """Return the only dictionary in a folder; for dictd, its `.index`."""
    found = sorted(
        file for file in folder.iterdir() if file.name.endswith((".index", *TEI_SUFFIXES)) and file.is_file()
    )
    if not found:
        found = sorted(file for file in folder.iterdir() if file.name.endswith((".dict", ".dict.dz")))
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"{folder} holds no dictionary (.index with .dict.dz, or .tei): give the file itself")
    names = ", ".join(file.name for file in found[:5])
    raise InputError(f"{folder} holds {len(found)} dictionaries ({names}): give one of them")
