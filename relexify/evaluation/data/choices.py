"""Questions with several answers to choose from: json records and Hub data sets, such as C³ and ChID of CLUE."""

from __future__ import annotations

import re
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
_BLANK = re.compile(r"#idiom\d*#")
_THIS_BLANK, _OTHER_BLANK = "____", "……"
_CHARACTERS_AROUND = 60
"""Number of characters kept before and after a blank, so that a blank at the end of a long text is not truncated."""


@dataclass(frozen=True)
class Question:
    """A question about a text, with answers to choose from.

    Attributes:
        first: The text.
        second: The question; empty if the answers continue or complete the text.
        options: The answers, two or more.
        label: The position of the right answer, from 0.
    """

    first: str
    second: str
    options: tuple[str, ...]
    label: int


def read_questions(source: str | Path) -> list[Question]:
    """Read a file with one json object per line, or a Hub data set.

    A record has `context` (a text, or a list of its parts), optionally `question`, the answers as `choices`, `choice`,
    `options` or `candidates`, and the right answer as `answer` or `label`: its text, its position from 0, or its
    letter.

    A record of ChID has `content` (a text, or a list of its parts) with blanks such as `#idiom000378#`. Every blank is
    one question: which of the `candidates` belongs there? There are two formats. On the Hub, all blanks have the same
    candidates, and `answers` has the names of the blanks as `text` and the positions of the right answers as
    `candidate_id`. In the first version of the data, every blank has its own list of candidates, and `groundTruth` has
    the right answers.

    Args:
        source: The file, plain or compressed, or `hf:NAME[:CONFIG[:SPLIT]]`.

    Raises:
        InputError: The source cannot be read, is empty, or a record is invalid.
        MissingExtra: A package that reading needs is not installed.
    """
    questions = [question for where, record in iterate_records(source) for question in _parse_record(record, where)]
    if not questions:
        raise InputError(f"{source} is empty: give a file with questions")
    return questions


def _parse_record(record: Mapping[str, Any], where: str) -> list[Question]:
    """Validate a record, and return its questions; `where` is its location for messages."""
    is_cloze = "content" in record and "context" not in record
    return _parse_blanks(record, where) if is_cloze else [_parse_question(record, where)]


def _parse_question(record: Mapping[str, Any], where: str) -> Question:
    options = record[_read_field(record, _OPTIONS, where)]
    if not isinstance(options, Sequence) or isinstance(options, str) or len(options) < 2:
        raise InputError(f"{where} has {str(options)[:80]!r} as answers to choose from: give a list of two or more")
    parts = record[_read_field(record, ("context",), where)]
    texts = [parts] if isinstance(parts, str) else parts
    given = record.get("question")
    question_and_options = ["" if given is None else given, *options]
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in (*texts, *question_and_options)):
        raise InputError(f"{where} has a context, question or answer that is not text: give texts")
    question, *answers = (make_encodable(text) for text in question_and_options)
    label = _find_position(record[_read_field(record, _ANSWERS, where)], options, where)
    return Question(make_encodable(" ".join(texts)), question, tuple(answers), label)


def _parse_blanks(record: Mapping[str, Any], where: str) -> list[Question]:
    """Return one question for every blank in a text."""
    parts = record["content"]
    texts = [parts] if isinstance(parts, str) else parts
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where} has a content that is not text: give a text, or a list of texts")
    found = [(text, blank) for text in texts for blank in _BLANK.finditer(text)]
    if not found:
        raise InputError(f"{where} has no blank such as #idiom000378# in its content: leave it out")
    candidates = record[_read_field(record, ("candidates",), where)]
    if not isinstance(candidates, Sequence):
        raise InputError(f"{where} has {str(candidates)[:80]!r} as candidates: give a list")
    is_shared = all(isinstance(option, str) for option in candidates)
    options = [candidates] * len(found) if is_shared else candidates
    answers = _read_answers(record, [blank.group() for _, blank in found], where)
    if not len(options) == len(answers) == len(found):
        raise InputError(
            f"{where} has {len(found)} blanks, {len(options)} lists of candidates and {len(answers)} answers: give one "
            "list and one answer for each blank"
        )
    questions: list[Question] = []
    for (text, blank), given, answer in zip(found, options, answers, strict=True):
        before, after = (_BLANK.sub(_OTHER_BLANK, side) for side in (text[: blank.start()], text[blank.end() :]))
        shown = before[-_CHARACTERS_AROUND:] + _THIS_BLANK + after[:_CHARACTERS_AROUND]
        filled = {"context": shown, "choices": given, "answer": answer}
        questions.append(_parse_question(filled, f"{where} blank {len(questions) + 1},"))
    return questions


def _read_answers(record: Mapping[str, Any], blanks: Sequence[str], where: str) -> list[object]:
    """Return the right answer of every blank: its text, or its position among the candidates."""
    given = record.get("answers") or record.get("groundTruth")
    if isinstance(given, Mapping):
        names, positions = given.get("text"), given.get("candidate_id")
        if isinstance(names, Sequence) and isinstance(positions, Sequence):
            answer_of = dict(zip(map(str, names), positions, strict=False))
            missing = [blank for blank in blanks if blank not in answer_of]
            if not missing:
                return [answer_of[blank] for blank in blanks]
            raise InputError(f"{where} has no answer for the blank {missing[0]}: give one, or leave the record out")
    elif isinstance(given, Sequence) and not isinstance(given, str):
        return list(given)
    raise InputError(
        f"{where} has no answers: give `answers` with `text` and `candidate_id`, or `groundTruth` (CLUE has answers "
        "in a separate file; hf:clue/clue:chid has questions and answers together)"
    )


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
