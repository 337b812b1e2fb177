"""The current reporter: who hears of which task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from relexify.progress import count_of, describe_estimate, format_duration, report_to, report_under, runs_follow, track


def recorder(heard: list[Any]) -> Any:
    @contextmanager
    def reporter(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
        heard.append((description, total))
        yield heard.append

    return reporter


def work(description: str) -> None:
    with track(description, total=2) as advance:
        advance(2)


def test_tasks_go_to_the_innermost_reporter_and_are_silent_without_one():
    outer: list[Any] = []
    inner: list[Any] = []
    work("before")
    with report_to(recorder(outer)):
        with report_to(recorder(inner)):
            work("a")
        work("b")
    work("after")
    assert inner == [("a", 2), 2]
    assert outer == [("b", 2), 2]


def test_a_failure_restores_the_reporter():
    heard: list[Any] = []
    with pytest.raises(ValueError, match="failed"), report_to(recorder(heard)):
        raise ValueError("failed")
    work("after")
    assert not heard


def test_a_name_is_appended_to_descriptions():
    heard: list[Any] = []
    with report_to(recorder(heard)):
        with report_under("new language"):
            work("counting words")
        work("aligning")
    assert heard == [("counting words: new language", 2), 2, ("aligning", 2), 2]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (59.7, "1 min"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3_599.9, "1 h"),
        (18_600, "5 h 10 min"),
        (84_720, "23 h 32 min"),
        (86_390, "1 day"),
        (86_400, "1 day"),
        (442_900, "5 days 3 h"),
    ],
)
def test_durations_have_two_units(seconds, text):
    assert format_duration(seconds) == text


def test_an_estimate_counts_the_runs_that_follow():
    assert describe_estimate(3_600) == "about 1 h"
    with runs_follow(3):
        assert describe_estimate(3_600) == "about 1 h, and 3 h for the 3 runs after this one"
    assert describe_estimate(3_600) == "about 1 h"


def test_what_is_counted_agrees_with_its_number():
    assert [count_of(number, "word") for number in (0, 1, 1_204)] == ["0 words", "1 word", "1,204 words"]
    assert [count_of(number, "entry is", "entries are") for number in (1, 2)] == ["1 entry is", "2 entries are"]
