"""Words with tags, one a line: CoNLL's columns, as data sets of names and of parts of speech are written.

    Anton   B-PER
    lacht   O

A blank line ends a sentence. The columns stand apart by a tab, where the file has any, or else by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from relexify.errors import InputError
from relexify.evaluation.data.treebank import read_treebank
from relexify.text.decoding import read_blocks

__all__ = ["TaggedSentence", "read_columns", "read_tagged"]

_DOCUMENT_START = "-DOCSTART-"
_SPACES = re.compile(" +")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*:")


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence of words, each with its tag.

    Attributes:
        words: As they are written.
        tags: As many.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.words) != len(self.tags):
            raise InputError(
                f"a sentence has {len(self.words)} words and {len(self.tags)} tags: give a tag for each word"
            )


@dataclass(frozen=True)
class _Row:
    """The columns of a line; none of them for the end of a sentence."""

    number: int
    columns: tuple[str, ...]


def read_tagged(path: str | Path) -> list[TaggedSentence]:
    """Read tagged words from columns, or the universal part-of-speech tags of a treebank (`.conllu`)."""
    if ".conllu" in Path(path).suffixes:
        return [TaggedSentence(sentence.words, sentence.upos) for sentence in read_treebank(path)]
    return read_columns(path)


def read_columns(path: str | Path, *, word_column: int = 0, tag_column: int = -1) -> list[TaggedSentence]:
    """Read sentences of tagged words.

    Lines that begin with `#` are comments, unless they have a word's columns and a tag that other words have. The line
    `-DOCSTART-` is skipped, and the name of a language before every word, as WikiANN has it (`en:Anton`), is cut off.

    Args:
        path: The file, plain or compressed.
        word_column: Which column holds the word, from 0; from the end where it is negative.
        tag_column: Which column holds the tag.

    Raises:
        InputError: The file cannot be read, is empty, or a line is not what it should be.
    """
    path = Path(path).expanduser()
    lines = list(chain.from_iterable(read_blocks(path)))
    cut = _cut_at_tabs if any("\t" in line for line in lines) else _cut_at_spaces
    rows = [
        _Row(number, cut(line) if line.strip() else ())
        for number, line in enumerate(lines, start=1)
        if not line.startswith(_DOCUMENT_START)
    ]
    width = _width(rows)
    rows = _without_comments(rows, width, tag_column)
    for row in rows:
        _check(row, width, path, word_column, tag_column)
    prefix = _language_prefix([row.columns[word_column] for row in rows if row.columns])
    sentences = [
        TaggedSentence(
            tuple(row.columns[word_column].removeprefix(prefix) or prefix for row in sentence),
            tuple(row.columns[tag_column] for row in sentence),
        )
        for sentence in _sentences(rows)
    ]
    if not sentences:
        raise InputError(f"{path} holds no tagged words: give a file with a word and its tag on each line")
    return sentences


def _cut_at_tabs(line: str) -> tuple[str, ...]:
    return tuple(line.split("\t"))


def _cut_at_spaces(line: str) -> tuple[str, ...]:
    """Cut at spaces alone: other white space, such as a no-break space, may stand inside a word."""
    return tuple(_SPACES.split(line.strip(" ")))


def _width(rows: Sequence[_Row]) -> int:
    """How many columns the file has: those of the first line that cannot be a comment."""
    plain = (len(row.columns) for row in rows if row.columns and not row.columns[0].startswith("#"))
    return next(plain, 2)


def _without_comments(rows: Sequence[_Row], width: int, tag_column: int) -> list[_Row]:
    """Rows without comments; `# O` is a word where `O` is a tag of other words, and WikiANN's Chinese is full of it."""
    hashes = [row for row in rows if row.columns and row.columns[0].startswith("#")]
    if not hashes:
        return list(rows)
    others = [row for row in rows if row.columns and not row.columns[0].startswith("#")]
    index = tag_column if -width <= tag_column < width else -1
    known = {row.columns[index] for row in others if len(row.columns) == width}
    comments = {row.number for row in hashes if len(row.columns) != width or row.columns[index] not in known}
    return [row for row in rows if row.number not in comments]


def _check(row: _Row, width: int, path: Path, word_column: int, tag_column: int) -> None:
    if not row.columns:
        return
    place, found = f"{path}, line {row.number},", len(row.columns)
    if found < 2:
        raise InputError(f"{place} has one column ({row.columns[0][:40]!r}): each line must be a word and its tag")
    if found != width:
        raise InputError(
            f"{place} has {found} columns, the lines before it have {width}: correct the line (a word cannot hold the "
            "tab or space that stands between columns)"
        )
    for column in (word_column, tag_column):
        if not -width <= column < width:
            raise InputError(f"{place} has {found} columns, and none with the number {column}: choose another column")
    if not row.columns[word_column]:
        raise InputError(f"{place} has a tag without a word: correct the line, or leave it out")
    if not row.columns[tag_column].strip():
        raise InputError(f"{place} has no tag for {row.columns[word_column][:40]!r}: correct the line, or leave it out")


def _language_prefix(words: Sequence[str]) -> str:
    """The language before every single word; nothing where one of them has none."""
    match = _LANGUAGE.match(words[0]) if words else None
    prefix = match.group() if match else ""
    return prefix if all(word.startswith(prefix) for word in words) else ""


def _sentences(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    sentence: list[_Row] = []
    for row in rows:
        if row.columns:
            sentence.append(row)
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence
