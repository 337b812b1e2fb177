"""Text that every tokenizer accepts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relexify.text import count_bytes, make_encodable


@given(st.text(st.characters(codec="utf-8")))
def test_ordinary_text_stays_as_it_is(text):
    assert make_encodable(text) == text
    assert count_bytes(text) == len(text.encode())


@given(st.text(st.characters()))
def test_any_text_can_be_encoded(text):
    assert count_bytes(make_encodable(text)) == len(make_encodable(text).encode())


def test_halves_of_surrogate_pairs_are_replaced_and_pairs_joined():
    assert make_encodable("a \ud83d b \ud83d\ude00") == "a \N{REPLACEMENT CHARACTER} b \N{GRINNING FACE}"
