"""Questions that a part of a text answers: json as SQuAD and CMRC ship it, json records, and Hub data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.evaluation.data.examples import iterate_records
from relexify.storage.files import missing_file
from relexify.storage.json import read_json
from relexify.tokens import make_encodable

__all__ = ["Passage", "read_passages"]


@dataclass(frozen=True)
class Passage:
    """A text with a question that a part of it answers.

    Attributes:
        first: The text.
        second: The question.
        answers: The right answers, one or more; the first one is trained on.
        start: Where the first answer starts in the text, in characters.
    """

    first: str
    second: str
    answers: tuple[str, ...]
    start: int


def read_passages(source: str | Path) -> list[Passage]:
    """Read questions with their texts.

    Records have `context`, `question`, and `answers` with the lists `text` and `answer_start`.

    Args:
        source: A `.json` file with the nested form of SQuAD (`data`, `paragraphs`, `qas`), a file with one json object
            per line, plain or compressed, or `hf:NAME[:CONFIG[:SPLIT]]`.

    Raises:
        InputError: The source cannot be read, is empty, or a record is invalid.
        MissingExtra: A package is needed to read it.
    """
    nested = not str(source).startswith("hf:") and Path(source).suffix == ".json"
    records = _nested_records(Path(source)) if nested else iterate_records(source)
    passages = [_passage(record, where) for where, record in records]
    if not passages:
        raise InputError(f"{source} is empty: give a file with questions")
    return passages


def _nested_records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the questions of a file of SQuAD's form as flat records, with their places for messages."""
    if not path.is_file():
        raise missing_file(path)
    try:
        paragraphs = [paragraph for article in read_json(path)["data"] for paragraph in article["paragraphs"]]
        for paragraph in paragraphs:
            for number, each in enumerate(paragraph["qas"], start=1):
                answers = {name: [answer[name] for answer in each["answers"]] for name in ("text", "answer_start")}
                record = {"context": paragraph["context"], "question": each["question"], "answers": answers}
                yield f"{path}, question {each.get('id', number)},", record
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not of SQuAD's form ({error!r}): give a file with data, paragraphs, context, qas, question and "
            "answers with text and answer_start, or one record per line (.jsonl)"
        ) from error


def _passage(record: Mapping[str, Any], where: str) -> Passage:
    texts = [record.get("context"), record.get("question")]
    answers = record.get("answers")
    given = answers.get("text") if isinstance(answers, Mapping) else None
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise InputError(f"{where} has no answers: give them as answers.text and answers.answer_start, two lists")
    if not all(isinstance(text, str) and text for text in (*texts, *given)):
        raise InputError(f"{where} has something else than text in its context, question or answers: give texts")
    context, question, *found = (make_encodable(str(text))[0] for text in (*texts, *given))
    starts = answers.get("answer_start") if isinstance(answers, Mapping) else None
    start = starts[0] if isinstance(starts, list) and starts else None
    if not isinstance(start, int) or start < 0 or not context.startswith(found[0], start):
        start = context.find(found[0])  # positions of some data sets are off, or -1
    if start < 0:
        raise InputError(f"{where} has the answer {found[0][:80]!r}, which is no part of its context: correct it")
    return Passage(context, question, tuple(found), start)
