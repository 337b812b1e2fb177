"""Questions that a part of a text answers, from json of SQuAD's form and from records."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relexify.errors import InputError
from relexify.evaluation.data.answers import Passage, read_passages
from relexify.evaluation.data.files import TaskData

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
    (tmp_path / "dev.json").write_text(json.dumps(nested, indent=1), encoding="utf-8")
    assert read_passages(tmp_path / "dev.json") == [PASSAGE]
    (tmp_path / "dev.json.gz").write_bytes(gzip.compress(json.dumps(nested).encode()))
    assert read_passages(tmp_path / "dev.json.gz") == [PASSAGE]


@pytest.mark.parametrize("count", [1, 2])
def test_a_json_file_may_have_one_record_per_line(tmp_path, count):
    path = write(tmp_path, *[RECORD] * count).rename(tmp_path / "dev.json")
    assert read_passages(path) == [PASSAGE] * count


def test_test_passages_that_are_trained_on_are_counted():
    assert TaskData([PASSAGE], [PASSAGE, replace(PASSAGE, question="Who?")]).repeated_tests == 1


@pytest.mark.parametrize("starts", [[-1], [3], [900], [], 7, None])
def test_a_position_that_is_off_or_missing_is_found(tmp_path, starts):
    answers = {"text": ["Paris"], "answer_start": starts}
    assert read_passages(write(tmp_path, RECORD | {"answers": answers}))[0].start == 7


@pytest.mark.parametrize(("start", "found"), [(0, 0), (1, 0), (4, 3), (7, 8), (11, 8), (12, 0)])
def test_of_several_occurrences_the_nearest_is_the_answer(tmp_path, start, found):
    record = {"context": "ab ab Paab s", "question": "What?", "answers": {"text": ["ab"], "answer_start": [start]}}
    assert read_passages(write(tmp_path, record))[0].start == found


def test_spaces_around_an_answer_are_no_part_of_it(tmp_path):
    record = {"context": "ab ab ", "question": "What?", "answers": {"text": [" ab "], "answer_start": [2]}}
    assert read_passages(write(tmp_path, record)) == [Passage("ab ab ", "What?", ("ab",), 3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": {"text": ["Rome"], "answer_start": [0]}}, "'Rome', which is not a part of its context"),
        ({"answers": {"text": [], "answer_start": []}}, "line 1, has no answers.*SQuAD 2.0.*not supported"),
        ({"answers": {"text": [" "], "answer_start": [0]}}, "answer that is not text, or is empty"),
        ({"answers": "Paris"}, "line 1, has no answers"),
        ({"question": 3}, "question or answer that is not text"),
    ],
)
def test_invalid_records_are_rejected(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        read_passages(write(tmp_path, RECORD | change))


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(InputError, match=r"dev\.json does not exist"):
        read_passages(tmp_path / "dev.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"data": [{"title": "a"}]}', r"other\.json is not in SQuAD's format: give a file"),
        ('[{"context_text": "a", "qas": []}]', "is not in SQuAD's format"),
        ('{"data": []}', "is empty"),
        ("", "is empty"),
        ("no json", "line 1, is not json"),
    ],
)
def test_another_json_file_is_rejected(tmp_path, text, message):
    (tmp_path / "other.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_passages(tmp_path / "other.json")
