"""Predicates with their senses and arguments, from the columns of CoNLL-2009.

Of the first 14 columns, three are read: the word (2), the mark of predicates (13, `FILLPRED`), and the predicate with
its sense (14, `PRED`). Column 14 + n has the roles of all words for the n-th predicate of the sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from relexify.errors import InputError
from relexify.evaluation.data.treebank import sentence_lines
from relexify.text.decoding import read_blocks
from relexify.text.words import is_unspaced

__all__ = ["PredicateSentence", "Proposition", "read_propositions"]

COLUMNS = 14
NOTHING = "_"


@dataclass(frozen=True)
class Proposition:
    """A predicate.

    Attributes:
        predicate: Index of its word, from 0.
        sense: Its sense, without the lemma: `01` of `give.01`.
        arguments: The index of each argument's word, with its role.
    """

    predicate: int
    sense: str
    arguments: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class PredicateSentence:
    """A sentence and its predicates.

    Attributes:
        words: The words.
        propositions: The predicates, in the order of their words.
    """

    words: tuple[str, ...]
    propositions: tuple[Proposition, ...]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def spaces(self) -> tuple[bool, ...]:
        """Whether there is a space before each word: not between words of scripts that are written without spaces.

        This is a guess, because the columns do not contain this information.
        """
        ends = (word[-1:] for word in ("", *self.words))
        return tuple(
            not all(character and is_unspaced(character) for character in (end, word[:1]))
            for end, word in zip(ends, self.words, strict=False)
        )


def read_propositions(path: str | Path) -> list[PredicateSentence]:
    """Read the sentences of a file in the format of CoNLL-2009, plain or compressed.

    Raises:
        InputError: The file cannot be read, has no sentence, or a line is invalid.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"{path} cannot be read (there is no such file): give a file in the format of CoNLL-2009")
    sentences = [
        _parse_sentence({number: line.split("\t") for number, line in lines.items()}, path)
        for lines in sentence_lines(chain.from_iterable(read_blocks(file)))
    ]
    if not sentences:
        raise InputError(f"{path} holds no sentences: give a file in the format of CoNLL-2009")
    return sentences


def _parse_sentence(rows: dict[int, list[str]], path: str | Path) -> PredicateSentence:
    """Validate the columns of a sentence, by line number, and return its predicates."""
    predicates = [word for word, columns in enumerate(rows.values()) if columns[COLUMNS - 2 : COLUMNS - 1] == ["Y"]]
    for expected, (line, columns) in enumerate(rows.items(), 1):
        where = f"{path}, line {line}"
        if len(columns) != COLUMNS + len(predicates):
            raise InputError(
                f"{where}, has {len(columns)} columns, but CoNLL-2009 has {COLUMNS} and one more for each of the "
                f"{len(predicates)} predicates of the sentence, separated by tabs: correct the line"
            )
        if columns[0] != str(expected):
            raise InputError(f"{where}: found word {columns[0]!r}, but expected word {expected}; number words from 1")
        if expected - 1 in predicates and columns[COLUMNS - 1] == NOTHING:
            raise InputError(f"{where}: the predicate {columns[1]!r} has no sense ('_'); give annotated sentences")
    table = list(rows.values())
    propositions = []
    for number, predicate in enumerate(predicates):
        sense = table[predicate][COLUMNS - 1].rpartition(".")[2]
        roles = [columns[COLUMNS + number] for columns in table]
        arguments = tuple((word, role) for word, role in enumerate(roles) if role != NOTHING)
        propositions.append(Proposition(predicate, sense, arguments))
    return PredicateSentence(tuple(columns[1] for columns in table), tuple(propositions))
