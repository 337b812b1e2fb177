"""Dictionaries in two columns: a tab between the sides, or white space as in MUSE's files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from relexify.errors import InputError
from relexify.evidence.lexicon.files import decode, read_bytes, tidy

__all__ = ["read_two_columns"]

logger = logging.getLogger(__name__)


def read_two_columns(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the (left, right) pairs of a two-column text file, in file order.

    A line with a tab is split there, and both sides may hold spaces; any other line is split at its white space and
    must then have exactly two words. Columns after the second (scores, notes) are ignored, so are blank lines and
    comments that start with `#`.

    Raises:
        InputError: The file cannot be read as text, or most of its lines do not have two sides.
    """
    text = decode(read_bytes(path), path)
    pairs, faulty = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or _is_comment(line):
            continue
        sides = _split(line)
        if sides is None:
            faulty.append(number)
        else:
            pairs.append(sides)
    if faulty:
        _report(path, faulty, len(pairs))
    yield from pairs


def _is_comment(line: str) -> bool:
    """Whether a line is a comment: `#hashtag<TAB>word` and `#<TAB>number sign` are entries, `# en<TAB>de` is not."""
    return line.startswith("#") and ("\t" not in line or line[1:2] in (" ", "#", "!"))


def _split(line: str) -> tuple[str, str] | None:
    sides = line.split("\t") if "\t" in line.strip() else line.split()
    if len(sides) != 2 and "\t" not in line.strip():
        return None
    left, right = tidy(sides[0]), tidy(sides[1])
    return (left, right) if left and right else None


def _report(path: Path, faulty: list[int], sound: int) -> None:
    found = (
        f"{path}: {len(faulty)} of {len(faulty) + sound} lines do not have two sides (the first is line {faulty[0]})"
    )
    if len(faulty) > sound:
        raise InputError(f"{found}: put one pair on each line, with a tab between the word and its translation")
    logger.warning("%s; they were skipped", found)
