"""Questions that a part of a text answers, from json of SQuAD's form and from records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relexify.errors import InputError
from relexify.evaluation.data.answers import Passage, read_passages

ANSWERS = {"text": ["Paris", "in Paris"], "answer_start": [7, 4]}
RECORD = {"context": "It is  Paris. Not Paris!", "question": "Where?", "answers": ANSWERS}
PASSAGE = Passage("It is  Paris. Not Paris!", "Where?", ("Paris", "in Paris"), 7)


def write(folder: Path, *records: Any) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_records_and_the_nested_form_are_read_alike(tmp_path):
    assert read_passages(write(tmp_path, RECORD)) == [PASSAGE]
    answers = [{"text": text, "answer_start": start} for text, start in zip(*ANSWERS.values(), strict=True)]
    question = {"id": "q1", "question": "Where?", "answers": answers}
    nested = {"version": "1", "data": [{"paragraphs": [{"context": RECORD["context"], "qas": [question]}]}]}
    (tmp_path / "dev.json").write_text(json.dumps(nested), encoding="utf-8")
    assert read_passages(tmp_path / "dev.json") == [PASSAGE]


@pytest.mark.parametrize("starts", [[-1], [3], [900], [], 7, None])
def test_a_position_that_is_off_or_missing_is_found(tmp_path, starts):
    answers = {"text": ["Paris"], "answer_start": starts}
    assert read_passages(write(tmp_path, RECORD | {"answers": answers}))[0].start == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": {"text": ["Rome"], "answer_start": [0]}}, "'Rome', which is no part of its context"),
        ({"answers": {"text": [], "answer_start": []}}, "line 1, has no answers"),
        ({"answers": "Paris"}, "line 1, has no answers"),
        ({"question": 3}, "something else than text"),
    ],
)
def test_invalid_records_are_rejected(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        read_passages(write(tmp_path, RECORD | change))


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(InputError, match=r"dev\.json does not exist"):
        read_passages(tmp_path / "dev.json")


def test_another_json_file_is_rejected(tmp_path):
    (tmp_path / "other.json").write_text('{"data": [{"title": "a"}]}', encoding="utf-8")
    with pytest.raises(InputError, match="is not of SQuAD's form"):
        read_passages(tmp_path / "other.json")
    (tmp_path / "none.json").write_text('{"data": []}', encoding="utf-8")
    with pytest.raises(InputError, match="is empty"):
        read_passages(tmp_path / "none.json")
