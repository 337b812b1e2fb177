"""Windows of a text after its question, and the answers that scores of tokens stand for."""

from __future__ import annotations

import numpy as np
import pytest

from relexify.errors import InputError
from relexify.evaluation.data.answers import Passage
from relexify.evaluation.finetuning.windows import Window, encode_passages, find_answers
from tests import pico

TEXT = " ".join(["the old river reads slowly"] * 8 + ["green door"] + ["the water reads"] * 8)
LONG = Passage(TEXT, "which door", ("green door",), TEXT.index("green"))


@pytest.fixture(scope="module", params=["bert", "roberta"])
def tokenizer(request):
    return pico.pair(request.param)[1]


def test_windows_cover_the_text_overlap_and_point_at_the_answer(tokenizer):
    rows, windows = encode_passages([LONG], tokenizer, 32, token_types=2)
    covered = {index for window in windows for span in window.spans if span for index in range(*span)}
    assert {index for index, character in enumerate(TEXT) if character != " "} <= covered
    ends = [[span for span in window.spans if span][-1][1] for window in windows]
    starts = [next(span for span in window.spans if span)[0] for window in windows]
    assert all(start < end for start, end in zip(starts[1:], ends, strict=False)), "windows must overlap"
    pointing = [(row, window) for row, window in zip(rows, windows, strict=True) if row["end_positions"]]
    assert pointing
    for row, window in pointing:
        first, last = window.spans[row["start_positions"]], window.spans[row["end_positions"]]
        assert TEXT[first[0] : last[1]].strip() == "green door"
    outside = [row for row in rows if not row["end_positions"]]
    assert outside
    assert {row["start_positions"] for row in outside} == {0}
    assert all(len(row["input_ids"]) <= 32 for row in rows)


def test_a_long_question_leaves_room_for_the_text(tokenizer):
    rows, windows = encode_passages([Passage(TEXT, TEXT, ("green",), TEXT.index("green"))], tokenizer, 16, 2)
    assert any(row["end_positions"] for row in rows)
    assert all(sum(span is not None for span in window.spans) > 4 for window in windows[:-1])


def test_a_window_that_is_too_short_is_rejected(tokenizer):
    with pytest.raises(InputError, match="`length=8` is too short"):
        encode_passages([LONG], tokenizer, 8, token_types=2)


def test_the_answer_is_the_part_with_the_highest_sum_over_all_windows():
    spans = (None, (0, 1), (2, 3), (4, 5))
    windows = [Window(0, "a b c", spans), Window(0, "a b c", spans), Window(1, "d e f", spans)]
    quiet = np.zeros((4, 2))
    loud = np.array(
        [[9, 9], [0, 5], [3, 0], [0, 1.0]]
    )  # an end before its start, and no part of the text, are no answers
    other = np.array([[0, 0], [2, 0], [0, 0], [0, 3.0]])
    assert find_answers(windows, [quiet, loud, other]) == ["a", "d e f"]
    later = np.array([[0, 0], [0, 0], [5, 0], [0, 4.0]])
    assert find_answers(windows, [later, loud, other]) == ["b c", "d e f"]


@pytest.mark.parametrize("tokens", [1, 3])  # for each character
def test_the_longest_answer_is_counted_in_characters(tokens):
    scores = np.zeros((300 * tokens, 2))
    scores[10 * tokens, 0], scores[210 * tokens, 1], scores[209 * tokens, 1] = 5, 5, 1
    window = Window(0, "x" * 300, tuple((index, index + 1) for index in range(300) for _ in range(tokens)))
    assert find_answers([window], [scores]) == ["x" * 200]
