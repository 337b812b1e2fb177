"""Treebanks: sentences with their dependency trees, from CoNLL-U.

Words are syntactic words: `1-2` (a written token that consists of several words) and `1.1` (a word that is not written)
are skipped. Sentences whose heads are not a tree with one root are rejected, as in the official evaluation of CoNLL
2018.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from relexify.errors import InputError, importing
from relexify.text.decoding import read_blocks

__all__ = ["ParsedSentence", "read_treebank", "sentence_lines"]

COLUMNS = 10


@dataclass(frozen=True)
class ParsedSentence:
    """A sentence and its dependency tree.

    Attributes:
        words: Syntactic words.
        heads: The number of each word's head, counted from 1; 0 for the root.
        relations: The relation of each word to its head.
        upos: Universal part-of-speech tags.
        spaces: Whether there is a space before each word; empty if unknown, which means everywhere.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    upos: tuple[str, ...]
    spaces: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        counts = {len(self.words), len(self.heads), len(self.relations), len(self.upos)}
        if len(counts) > 1 or len(self.spaces) not in {0, len(self.words)}:
            raise InputError(
                f"a sentence of {len(self.words)} words has {len(self.heads)} heads, {len(self.relations)} relations, "
                f"{len(self.upos)} tags and {len(self.spaces)} spaces: give one of each for every word"
            )

    def __len__(self) -> int:
        return len(self.words)


def read_treebank(path: str | Path) -> list[ParsedSentence]:
    """Read the sentences of a CoNLL-U file.

    Raises:
        InputError: The file cannot be read, has no sentence, or a line is invalid.
        MissingExtra: The package `conllu` is not installed.
    """
    with importing("conllu", "reading treebanks", "evaluation"):
        from conllu.exceptions import ParseException
        from conllu.parser import DEFAULT_FIELD_PARSERS, DEFAULT_FIELDS, parse_line
    parsers = {name: DEFAULT_FIELD_PARSERS[name] for name in ("id", "head", "misc")}  # the columns that are needed
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"{path} cannot be read (there is no such file): give a treebank in CoNLL-U (.conllu)")
    sentences = []
    for block in sentence_lines(chain.from_iterable(read_blocks(file))):
        lines = []
        for number, text in block.items():
            if text.startswith("#"):
                continue
            if (found := text.count("\t") + 1) != COLUMNS:
                raise InputError(
                    f"{path}, line {number}, has {found} columns, but CoNLL-U has {COLUMNS}, separated by tabs: "
                    "correct the line"
                )
            try:
                # conllu also splits at two spaces, which a word may contain.
                lines.append(_Line(number, parse_line(re.sub(" {2,}", " ", text), DEFAULT_FIELDS, parsers)))
            except (ParseException, ValueError) as error:  # ValueError: a number of thousands of digits
                raise InputError(f"{path}, line {number}, is not CoNLL-U ({error}): correct the line") from error
        if lines:
            sentences.append(_parse_sentence(lines, path))
    if not sentences:
        raise InputError(f"{path} holds no sentences: give a treebank in CoNLL-U (.conllu)")
    return sentences


def sentence_lines(lines: Iterable[str]) -> Iterator[dict[int, str]]:
    """Yield the lines of each sentence by their number, from 1; blank lines separate sentences."""
    sentence: dict[int, str] = {}
    for number, line in enumerate(chain(lines, [""]), start=1):
        if line.strip():
            sentence[number] = line
        elif sentence:
            yield sentence
            sentence = {}


@dataclass(frozen=True)
class _Line:
    """A line as parsed by `conllu`, with its number."""

    number: int
    token: Any = field(repr=False)


def _parse_sentence(lines: list[_Line], path: str | Path) -> ParsedSentence:
    """Validate the lines of a sentence, and return its syntactic words with their tree."""
    words = [line for line in lines if isinstance(line.token["id"], int)]
    for expected, line in enumerate(words, 1):
        id, head, where = line.token["id"], line.token["head"], f"{path}, line {line.number}"
        if id != expected:
            raise InputError(f"{where}: found word {id}, but expected word {expected}; number the words from 1")
        if head is None:
            raise InputError(f"{where}: word {id} has no head ('_'), so the file is not annotated; give a treebank")
        if not 0 <= head <= len(words):
            raise InputError(
                f"{where}: the head of word {id} is {head}, but the sentence has {len(words)} words; correct the line"
            )
        if line.token["deprel"] == "_":
            raise InputError(f"{where}: word {id} has no relation ('_') to its head; give a treebank with relations")
    if any(line.token["id"] is None for line in lines):
        number = next(line.number for line in lines if line.token["id"] is None)
        raise InputError(f"{path}, line {number}: the word has no number; number the words of a sentence from 1")
    if not words:
        raise InputError(f"{path}, line {lines[0].number}: the sentence has no words, only ranges or empty nodes")
    heads = [line.token["head"] for line in words]
    _check_tree(heads, words, path)
    return ParsedSentence(
        tuple(line.token["form"] for line in words),
        tuple(heads),
        tuple(line.token["deprel"] for line in words),
        tuple(line.token["upos"] for line in words),
        _find_spaces(lines, [line.token["form"] for line in words], path),
    )


def _check_tree(heads: list[int], words: list[_Line], path: str | Path) -> None:
    """Validate that there is exactly one root, and that every word has a path to it."""
    roots = [line for line, head in zip(words, heads, strict=True) if head == 0]
    if not roots:
        raise InputError(f"{path}, line {words[0].number}: the sentence has no root; one word must have the head 0")
    if len(roots) > 1:
        raise InputError(
            f"{path}, line {roots[1].number}: the sentence has {len(roots)} roots; exactly one word may have the head 0"
        )
    reaches_root = {0}
    for start in range(1, len(heads) + 1):
        visited, word = set(), start
        while word not in reaches_root:
            if word in visited:
                raise InputError(
                    f"{path}, line {words[word - 1].number}: the heads from word {word} on lead back to it (a cycle); "
                    "correct them so that they lead to the root"
                )
            visited.add(word)
            word = heads[word - 1]
        reaches_root.update(visited)


def _find_spaces(lines: list[_Line], forms: list[str], path: str | Path) -> tuple[bool, ...]:
    """Return whether there is a space before each word.

    Between the words of one written token, there is no space if they spell the token (`do` + `n't`), and a space if
    they do not (`de` + `le` for `du`).
    """
    spaces = [True] * (len(forms) + 1)
    covered = 0  # the last word that a range has covered so far
    for line in lines:
        id = line.token["id"]
        close = (line.token["misc"] or {}).get("SpaceAfter") == "No"
        if isinstance(id, int) and id > covered:
            spaces[id] = not close
        elif isinstance(id, tuple) and id[1] == "-":
            first, last = id[0], min(id[2], len(forms))
            if not covered < first <= last:
                raise InputError(
                    f"{path}, line {line.number}: the range {first}-{id[2]} is empty, overlaps another one, or is out "
                    "of order; ranges must not overlap, and must be in the order of the words"
                )
            spells = "".join(forms[first - 1 : last]) == line.token["form"]
            spaces[first:last] = [not spells] * (last - first)
            spaces[last] = not close
            covered = last
    return tuple(spaces[: len(forms)])
