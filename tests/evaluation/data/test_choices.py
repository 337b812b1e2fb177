"""Questions are read from records as data sets have them, and invalid ones are rejected with their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relexify.errors import InputError
from relexify.evaluation.data.choices import Question, read_questions

RECORD = {"context": "It rains.", "question": "What falls?", "choices": ["rain", "snow"], "answer": "rain"}


def write(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("answer", ["snow", 1, "1", "B"])
@pytest.mark.parametrize("options", ["choices", "choice", "options", "candidates"])
def test_the_right_answer_is_its_text_its_position_or_its_letter(tmp_path, options, answer):
    record = {"context": ["It is cold.", "It falls."], "question": "What?", options: ["rain", "snow"], "label": answer}
    assert read_questions(write(tmp_path, record)) == [Question("It is cold. It falls.", "What?", ("rain", "snow"), 1)]


def test_a_text_to_complete_has_no_question(tmp_path):
    (question,) = read_questions(write(tmp_path, {"context": "a ___", "candidates": ["b", "c", "d"], "answer": 2}))
    assert question == Question("a ___", "", ("b", "c", "d"), 2)
    assert read_questions(write(tmp_path, RECORD | {"question": None}))[0].second == ""


def test_an_answer_that_is_a_number_is_found_by_its_text_first(tmp_path):
    (question,) = read_questions(write(tmp_path, RECORD | {"choices": ["2", "1", "0"], "answer": "0"}))
    assert question.label == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": "hail"}, "line 2, has the right answer 'hail', which is not one of the 2"),
        ({"answer": 2}, "which is not one of the 2"),
        ({"answer": "2"}, "which is not one of the 2"),
        ({"answer": True}, "has the right answer 'True', which is not one of the 2"),
        ({"answer": "C"}, "which is not one of the 2"),
        ({"choices": ["rain", "rain"]}, "which is not one of the 2"),
        ({"choices": ["rain"]}, "give a list of two or more"),
        ({"choices": "rain"}, "give a list of two or more"),
        ({"choices": ["rain", 1]}, "has a context, question or answer that is not text"),
        ({"context": None}, "has a context, question or answer that is not text"),
    ],
)
def test_an_invalid_question_is_rejected_with_its_place(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_questions(write(tmp_path, RECORD, RECORD | changes))


def test_missing_fields_and_empty_files_are_rejected(tmp_path):
    without = {name: value for name, value in RECORD.items() if name != "choices"}
    with pytest.raises(InputError, match="no field choices or choice or options or candidates, only context, question"):
        read_questions(write(tmp_path, without))
    with pytest.raises(InputError, match="is empty"):
        read_questions(write(tmp_path))


HUB_RECORD = {
    "content": ["a #idiom01# b #idiom02# c", "x #idiom07#"],
    "candidates": ["one", "two", "three"],
    "answers": {"text": ["#idiom02#", "#idiom01#", "#idiom07#"], "candidate_id": [2, 0, 1]},
}
FIRST_RECORD = {
    "content": "a #idiom# b #idiom# c",
    "realCount": 2,
    "groundTruth": ["one", "four"],
    "candidates": [["one", "two"], ["three", "four"]],
}


def test_every_blank_is_a_question(tmp_path):
    shared = ("one", "two", "three")
    assert read_questions(write(tmp_path, HUB_RECORD, FIRST_RECORD | {"answers": None})) == [
        Question("a ____ b …… c", "", shared, 0),
        Question("a …… b ____ c", "", shared, 2),
        Question("x ____", "", shared, 1),
        Question("a ____ b …… c", "", ("one", "two"), 0),
        Question("a …… b ____ c", "", ("three", "four"), 1),
    ]


def test_a_question_may_have_other_fields_with_text(tmp_path):
    (question,) = read_questions(write(tmp_path, RECORD | {"content": "elsewhere"}))
    assert question.first == "It rains."


def test_the_text_around_a_blank_is_kept_when_the_rest_is_too_long(tmp_path):
    record = FIRST_RECORD | {"content": f"{'l' * 500}#idiom#{'r' * 500}", "groundTruth": ["two"]}
    (question,) = read_questions(write(tmp_path, record | {"candidates": ["one", "two"]}))
    assert question.first == f"{'l' * 60}____{'r' * 60}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content": 3}, "line 1, has a content that is not text"),
        ({"content": ["no blank"]}, "line 1, has no blank such as #idiom000378#"),
        ({"answers": {"text": ["#idiom01#"], "candidate_id": [0]}}, "no answer for the blank #idiom02#"),
        ({"answers": {"text": HUB_RECORD["answers"]["text"], "candidate_id": [0, 1, 3]}}, "blank 3, has the right ans"),
        ({"answers": None}, "line 1, has no answers"),
        ({"answers": [0, 1]}, "3 blanks, 3 lists of candidates and 2 answers"),
        ({"candidates": [["one", "two"]]}, "3 blanks, 1 lists of candidates and 3 answers"),
        ({"candidates": "one"}, "blank 1, has 'one' as answers to choose from"),
        ({"candidates": 5}, "has '5' as candidates: give a list"),
    ],
)
def test_an_invalid_text_with_blanks_is_rejected_with_its_place(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_questions(write(tmp_path, HUB_RECORD | changes))
