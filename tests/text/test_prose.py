"""Prose from Python itself: enough of it, clean, and without repetition."""

from __future__ import annotations

import re

import pytest

from relexify.text import english_from_python
from relexify.text.prose import clean_prose


@pytest.fixture(scope="module")
def prose() -> list[str]:
    return english_from_python()


def test_there_is_enough_prose_for_a_demo(prose: list[str]) -> None:
    assert sum(len(paragraph.encode()) for paragraph in prose) > 1_000_000
    assert len(set(prose)) == len(prose)


def test_a_limit_gives_the_beginning_of_the_whole(prose: list[str]) -> None:
    some = english_from_python(100_000)
    assert some == prose[: len(some)]
    assert 95_000 < sum(len(paragraph.encode()) + 1 for paragraph in some) <= 100_000


def test_paragraphs_are_single_lines_of_mostly_letters(prose: list[str]) -> None:
    assert not any("\n" in paragraph or ">>>" in paragraph for paragraph in prose)
    text = "".join(prose)
    assert len(re.findall(r"[A-Za-z\s]", text)) / len(text) > 0.94


PROSE = "This sentence is long enough to be taken for prose by everyone."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PROSE.replace(" to ", "\n    to "), [PROSE]),
        (f"{PROSE}\n\n>>> {PROSE}", [PROSE]),
        (f"See the following::\n\n    {PROSE}\n\n    {PROSE}\n\n{PROSE[:-1]} again.", [f"{PROSE[:-1]} again."]),
        (f"A heading\n*********\n{PROSE}", [PROSE]),
        (f"* {PROSE}\n* {PROSE[:-1]} too.", [PROSE, f"{PROSE[:-1]} too."]),
        (PROSE.replace("prose", ":func:`prose`").replace("everyone", "``everyone``"), [PROSE]),
        (PROSE.replace("prose", "`prose <target>`_").replace("everyone", "*everyone*"), [PROSE]),
        ("x = call(a, b)\ny = [x for x in range(10)]", []),
        ("+-----+-----+\n| One | Two |\n+-----+-----+", []),
        (".. note:: " + PROSE, []),
        ("Too short.", []),
    ],
)
def test_markup_and_code_are_dropped_and_words_kept(text: str, expected: list[str]) -> None:
    assert list(clean_prose(text)) == expected
