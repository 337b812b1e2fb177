"""Tagged words, one per line: the CoNLL format in which named entities and parts of speech are distributed.

    Anton   B-PER
    lacht   O

A blank line ends a sentence. Columns are separated by tabs if the file contains tabs, else by spaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from relexify.errors import InputError
from relexify.evaluation.data.treebank import read_treebank, sentence_lines
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


def read_tagged(path: str | Path) -> list[TaggedSentence]:
    """Read tagged words from columns, or the universal part-of-speech tags of a treebank (`.conllu`)."""
    if ".conllu" in Path(path).suffixes:
        return [TaggedSentence(sentence.words, sentence.upos) for sentence in read_treebank(path)]
    return read_columns(path)


def read_columns(path: str | Path) -> list[TaggedSentence]:
    """Read sentences of tagged words: the word is in the first column, its tag in the last.

    Lines that begin with `#` are comments, unless they have all columns and the tag of another word. `-DOCSTART-` lines
    are skipped, and the language that WikiANN writes before every word (`en:Anton`) is removed.

    Args:
        path: The file, plain or compressed.

    Raises:
        InputError: The file cannot be read, is empty, or a line is invalid.
    """
    path = Path(path).expanduser()
    lines = list(chain.from_iterable(read_blocks(path)))
    has_tabs = any("\t" in line for line in lines)
    sentences = [
        {
            # Split only at these spaces, because a word may contain other white space, such as a no-break space.
            number: line.split("\t") if has_tabs else _SPACES.split(line.strip(" "))
            for number, line in sentence.items()
            if not line.startswith(_DOCUMENT_START)
        }
        for sentence in sentence_lines(lines)
    ]
    rows = {number: columns for sentence in sentences for number, columns in sentence.items()}
    certain = [columns for columns in rows.values() if not columns[0].startswith("#")]  # certainly not comments
    width = len(certain[0]) if certain else 2
    # `# O` is a word if `O` is also the tag of other words; such lines are frequent in WikiANN's Chinese.
    tags = {columns[-1] for columns in certain if len(columns) == width}
    rows = {
        number: columns
        for number, columns in rows.items()
        if not columns[0].startswith("#") or (len(columns) == width and columns[-1] in tags)
    }
    for number, columns in rows.items():
        _check(columns, width, f"{path}, line {number},")
    if not rows:
        raise InputError(f"{path} holds no tagged words: give a file with a word and its tag on each line")
    words = [columns[0] for columns in rows.values()]
    match = _LANGUAGE.match(words[0])
    prefix = match.group() if match and all(word.startswith(match.group()) for word in words) else ""
    kept = ([rows[number] for number in sentence if number in rows] for sentence in sentences)
    return [
        TaggedSentence(
            tuple(columns[0].removeprefix(prefix) or prefix for columns in sentence),
            tuple(columns[-1] for columns in sentence),
        )
        for sentence in kept
        if sentence
    ]


def _check(columns: list[str], width: int, where: str) -> None:
    """Validate a line: the same number of columns as the others, a word in the first, and a tag in the last."""
    if len(columns) < 2:
        raise InputError(f"{where} has one column ({columns[0][:40]!r}): each line must be a word and its tag")
    if len(columns) != width:
        raise InputError(
            f"{where} has {len(columns)} columns, but the lines before it have {width}: correct the line (a word "
            "cannot contain the tab or space that separates columns)"
        )
    if not columns[0]:
        raise InputError(f"{where} has a tag without a word: correct the line, or leave it out")
    if not columns[-1].strip():
        raise InputError(f"{where} has no tag for {columns[0][:40]!r}: correct the line, or leave it out")
