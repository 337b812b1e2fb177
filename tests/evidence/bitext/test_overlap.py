"""Pairs whose sentences occur in other text."""

from __future__ import annotations

import pytest

from relexify.evidence.bitext import find_overlap

PAIRS = [
    ("The door is open.", "Die Tür ist offen."),
    ("She reads.", "Sie liest."),
    ("He said: “Come in!” Then he left.", "Er sagte: „Komm rein!“ Dann ging er."),
    ("你好。", "Hallo!"),
    ("…", "…"),
]


def test_either_side_counts_whatever_its_case_and_punctuation():
    assert list(find_overlap(PAIRS, ["THE DOOR IS OPEN"], [])) == [0]
    assert list(find_overlap(PAIRS, [], ["»Sie  liest«"])) == [1]
    assert list(find_overlap(PAIRS, ["Die Tür ist offen."], ["She reads."])) == []


def test_sentences_are_found_inside_paragraphs():
    assert list(find_overlap(PAIRS, ["It was late. The door is open. She reads. Nobody came."], [])) == [0, 1]
    assert list(find_overlap(PAIRS, ["她说：你好。再见。你好。"], [])) == [3]


@pytest.mark.parametrize("end", ["؟", "۔", "।", "።", "։", "។", "။", "｡"])
def test_sentences_end_as_their_script_ends_them(end):
    assert list(find_overlap([("new", f"ab cd{end}")], [], [f"xy zw{end} ab cd{end} uv{end}"])) == [0]


def test_the_unicode_form_does_not_matter():
    assert list(find_overlap(PAIRS, [], ["Die Tu\u0308r ist offen."])) == [0]


def test_a_semicolon_ends_a_sentence_in_greek_alone():
    assert list(find_overlap([("new", "Πού είναι;")], [], ["Ναι. Πού είναι; Εδώ."])) == [0]
    assert list(find_overlap([("new", "he left;")], [], ["Yes. He left; she stayed."])) == []


def test_a_pair_of_several_sentences_must_occur_with_all_of_them():
    assert list(find_overlap(PAIRS, ["Then he left."], [])) == []
    assert list(find_overlap(PAIRS, ["He said: “Come in!” Then he left. She stayed."], [])) == [2]


def test_parts_of_sentences_and_lines_without_words_do_not_count():
    assert list(find_overlap(PAIRS, ["The door is open, she reads a book, …"], ["…"])) == []
