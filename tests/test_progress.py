"""The current reporter: who hears of which task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from relexify.progress import report_to, report_under, track


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
