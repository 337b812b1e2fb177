"""Questions that a part of a text answers: json in the format of SQuAD, json records, and Hub data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.evaluation.data.records import iterate_records
from relexify.storage.files import missing_file
from relexify.storage.json import parse_json
from relexify.text import make_encodable
from relexify.text.decoding import format_suffix, read_blocks
from relexify.text.remote import is_hub_data_set

__all__ = ["Passage", "read_passages"]


@dataclass(frozen=True)
class Passage:
    """A text with a question that a part of it answers.

    Attributes:
        context: The text.
        question: The question.
        answers: The right answers, one or more, without surrounding spaces; the first one is used for training.
        start: Position of the first answer in the text, in characters.
    """

    context: str
    question: str
    answers: tuple[str, ...]
    start: int


def read_passages(source: str | Path) -> list[Passage]:
    """Read questions with their texts.

    Records have `context`, `question`, and `answers` with the lists `text` and `answer_start`.

    Args:
        source: A `.json` file in the nested format of SQuAD 1.1 (`data`, `paragraphs`, `qas`), or a file with one json
            object per line, both plain or compressed; or `hf:NAME[:CONFIG[:SPLIT]]`.

    Raises:
        InputError: The source cannot be read, is empty, or a record is invalid.
        MissingExtra: A package that reading needs is not installed.
    """
    content = None
    if not is_hub_data_set(source) and format_suffix(Path(source)) == ".json":
        path = Path(source).expanduser()
        if not path.is_file():
            raise missing_file(path)
        with suppress(ValueError):  # not a single json value, but one per line
            content = parse_json("\n".join(chain.from_iterable(read_blocks(path))))
    is_record = isinstance(content, dict) and "data" not in content
    records = iterate_records(source) if content is None or is_record else _nested_records(content, source)
    passages = [_parse_passage(record, where) for where, record in records]
    if not passages:
        raise InputError(f"{source} is empty: give a file with questions")
    return passages


def _nested_records(content: Any, source: str | Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the questions of a file in SQuAD's format as flat records, each with its location for messages."""
    try:
        paragraphs = [paragraph for article in content["data"] for paragraph in article["paragraphs"]]
        for paragraph in paragraphs:
            for number, each in enumerate(paragraph["qas"], start=1):
                answers = {name: [answer[name] for answer in each["answers"]] for name in ("text", "answer_start")}
                record = {"context": paragraph["context"], "question": each["question"], "answers": answers}
                yield f"{source}, question {each.get('id', number)},", record
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{source} is not in SQuAD's format: give a file with data, paragraphs, context, qas, question and "
            "answers with text and answer_start, or one record per line (.jsonl)"
        ) from error


def _parse_passage(record: Mapping[str, Any], where: str) -> Passage:
    """Validate a record, and return its first answer at the occurrence nearest to the given position."""
    texts = [record.get("context"), record.get("question")]
    answers = record.get("answers")
    given = answers.get("text") if isinstance(answers, Mapping) else None
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise InputError(
            f"{where} has no answers: give them as two lists, answers.text and answers.answer_start; remove questions "
            "without an answer (SQuAD 2.0), because they are not supported"
        )
    if not all(isinstance(text, str) and text.strip() for text in (*texts, *given)):
        raise InputError(f"{where} has a context, question or answer that is not text, or is empty: give texts")
    context, question, *found = (make_encodable(str(text)) for text in (*texts, *given))
    starts = answers.get("answer_start") if isinstance(answers, Mapping) else None
    given_start = starts[0] if isinstance(starts, list) and starts else None
    # Strip spaces, because a window may have no tokens for them, and would then not seem to hold the whole answer.
    trained, *others = (answer.strip() for answer in found)
    if isinstance(given_start, int) and given_start in range(len(context)):
        expected = given_start + len(found[0]) - len(found[0].lstrip())
    else:  # some data sets have -1
        expected = 0
    # Positions in some data sets are wrong: take the nearest occurrence, before or after.
    nearest = context.rfind(trained, 0, expected + len(trained)), context.find(trained, expected)
    occurrences = [start for start in nearest if start >= 0]
    if not occurrences:
        raise InputError(f"{where} has the answer {trained[:80]!r}, which is not a part of its context: correct it")
    start = min(occurrences, key=lambda start: abs(start - expected))
    return Passage(context, question, (trained, *others), start)
