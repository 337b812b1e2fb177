"""Tagged words, one per line: the columns of CoNLL, in which named entities and parts of speech are distributed.

    Anton   B-PER
    lacht   O

A blank line ends a sentence. The columns are separated by tabs if the file has any, else by spaces.
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
    """A sentence of words with tags.

    Attributes:
        words: The words.
        tags: The tag of each word.
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
    """The number and the columns of a line; no columns for an empty line, which ends a sentence."""

    number: int
    columns: tuple[str, ...]


def read_tagged(path: str | Path) -> list[TaggedSentence]:
    """Read tagged words from columns, or the universal part-of-speech tags of a treebank (`.conllu`)."""
    if ".conllu" in Path(path).suffixes:
        return [TaggedSentence(sentence.words, sentence.upos) for sentence in read_treebank(path)]
    return read_columns(path)


def read_columns(path: str | Path) -> list[TaggedSentence]:
    """Read sentences of tagged words: the word is the first column, its tag the last one.

    Lines that begin with `#` are comments, unless they have all columns and a tag that other words have. `-DOCSTART-`
    lines are skipped, and the language that WikiANN writes before every word (`en:Anton`) is removed.

    Args:
        path: The file, plain or compressed.

    Raises:
        InputError: The file cannot be read, is empty, or a line is invalid.
    """
    path = Path(path).expanduser()
    lines = list(chain.from_iterable(read_blocks(path)))
    has_tabs = any("\t" in line for line in lines)
    rows = [
        _Row(number, _split(line, has_tabs=has_tabs))
        for number, line in enumerate(lines, start=1)
        if not line.startswith(_DOCUMENT_START)
    ]
    # The number of columns is that of the first line that cannot be a comment.
    width = next((len(row.columns) for row in rows if row.columns and not row.columns[0].startswith("#")), 2)
    rows = _without_comments(rows, width)
    for row in rows:
        if row.columns:
            _check(row, width, path)
    prefix = _language_prefix([row.columns[0] for row in rows if row.columns])
    sentences = [
        TaggedSentence(
            tuple(row.columns[0].removeprefix(prefix) or prefix for row in sentence),
            tuple(row.columns[-1] for row in sentence),
        )
        for sentence in _sentences(rows)
    ]
    if not sentences:
        raise InputError(f"{path} holds no tagged words: give a file with a word and its tag on each line")
    return sentences


def _split(line: str, *, has_tabs: bool) -> tuple[str, ...]:
    if not line.strip():
        return ()
    if has_tabs:
        return tuple(line.split("\t"))
    return tuple(_SPACES.split(line.strip(" ")))  # not other white space: a word may contain a no-break space


def _without_comments(rows: Sequence[_Row], width: int) -> list[_Row]:
    """Remove comments. `# O` is a word if `O` is a tag of other words, which is frequent in WikiANN's Chinese."""
    hashes = [row for row in rows if row.columns and row.columns[0].startswith("#")]
    if not hashes:
        return list(rows)
    others = [row for row in rows if row.columns and not row.columns[0].startswith("#")]
    known = {row.columns[-1] for row in others if len(row.columns) == width}
    comments = {row.number for row in hashes if len(row.columns) != width or row.columns[-1] not in known}
    return [row for row in rows if row.number not in comments]


def _check(row: _Row, width: int, path: Path) -> None:
    where, found = f"{path}, line {row.number},", len(row.columns)
    if found < 2:
        raise InputError(f"{where} has one column ({row.columns[0][:40]!r}): each line must be a word and its tag")
    if found != width:
        raise InputError(
            f"{where} has {found} columns, the lines before it have {width}: correct the line (a word cannot "
            "contain the tab or space that separates columns)"
        )
    if not row.columns[0]:
        raise InputError(f"{where} has a tag without a word: correct the line, or leave it out")
    if not row.columns[-1].strip():
        raise InputError(f"{where} has no tag for {row.columns[0][:40]!r}: correct the line, or leave it out")


def _language_prefix(words: Sequence[str]) -> str:
    """Return the language before every word; empty unless all words have it."""
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
