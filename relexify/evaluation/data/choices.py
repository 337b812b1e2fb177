"""Questions with several answers to choose from: json records and Hub data sets, such as C³ of CLUE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.evaluation.data.records import iterate_records
from relexify.text import make_encodable

__all__ = ["Question", "read_questions"]

_OPTIONS = ("choices", "choice", "options", "candidates")
_ANSWERS = ("answer", "label")
_LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Question:
    """A question about a text, with answers to choose from.

    Attributes:
        first: The text.
        second: The question; empty if the answers continue or complete the text.
        options: The answers, two or more.
        label: The position of the right one, from 0.
    """

    first: str
    second: str
    options: tuple[str, ...]
    label: int


def read_questions(source: str | Path) -> list[Question]:
    """Read a file with one json object per line, or a Hub data set.

    A record has `context` (a text, or a list of its parts), `question` or not, the answers as `choices`, `choice`,
    `options` or `candidates`, and the right one as `answer` or `label`: its text, its position from 0, or its letter.

    Args:
        source: The file, plain or compressed, or `hf:NAME[:CONFIG[:SPLIT]]`.

    Raises:
        InputError: The source cannot be read, is empty, or a record is invalid.
        MissingExtra: A package is needed to read it.
    """
    questions = [_parse_question(record, where) for where, record in iterate_records(source)]
    if not questions:
        raise InputError(f"{source} is empty: give a file with questions")
    return questions


def _parse_question(record: Mapping[str, Any], where: str) -> Question:
    """Validate a record, and return it as a question; `where` names it in messages."""
    options = record[_read_field(record, _OPTIONS, where)]
    if not isinstance(options, Sequence) or isinstance(options, str) or len(options) < 2:
        raise InputError(f"{where} has {str(options)[:80]!r} as answers to choose from: give a list of two or more")
    parts = record[_read_field(record, ("context",), where)]
    texts = [parts] if isinstance(parts, str) else parts
    given = record.get("question")
    question_and_options = ["" if given is None else given, *options]
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in (*texts, *question_and_options)):
        raise InputError(f"{where} has something else than text in its context, question or answers: give texts")
    question, *answers = (make_encodable(text) for text in question_and_options)
    label = _find_position(record[_read_field(record, _ANSWERS, where)], options, where)
    return Question(make_encodable(" ".join(texts)), question, tuple(answers), label)


def _read_field(record: Mapping[str, Any], names: Sequence[str], where: str) -> str:
    for name in names:
        if name in record:
            return name
    raise InputError(
        f"{where} has no field {' or '.join(names)}, only {', '.join(map(str, record))}: rename the fields"
    )


def _find_position(answer: object, options: Sequence[str], where: str) -> int:
    """Return the position of the right answer, which is given as its text, its position or its letter."""
    positions = range(len(options))
    if isinstance(answer, int) and not isinstance(answer, bool) and answer in positions:
        return answer
    if isinstance(answer, str) and list(options).count(answer) == 1:
        return options.index(answer)
    for names in (list(map(str, positions)), list(_LETTERS[: len(options)])):
        if answer in names:
            return names.index(answer)
    raise InputError(
        f"{where} has the right answer {str(answer)[:80]!r}, which is not one of the {len(options)} to choose from: "
        "give its text, its position from 0, or its letter"
    )
