"""Progress in a log: lines with what is done, how it goes, and the time that is left."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from relexify.cli import progress


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.seconds)
    return now


def test_a_line_per_minute_has_status_and_time_left_not_counting_work_of_an_earlier_run(clock, capsys):
    with progress._log_lines("training: everything", 1_000) as advance:
        clock.seconds += 10
        advance(500, "loss 4.000")  # a resumed run: 499 of these steps took no time
        for _ in range(10):
            clock.seconds += 10
            advance(1, "loss 3.210, 2.810 bits per byte, 70 tokens/s")
    shown = capsys.readouterr().err.splitlines()
    assert shown == [
        "· training: everything: 506 of 1,000 (51%), loss 3.210, 2.810 bits per byte, 70 tokens/s, 1 h 22 min left",
        "· training: everything: done in 1 min 50 s",
    ]


def test_short_tasks_are_not_logged_and_tasks_without_a_total_count(clock, capsys):
    with progress._log_lines("short", 3) as advance:
        advance(3)
    with progress._log_lines("reading") as advance:
        clock.seconds += 61
        advance(5_000)
    assert capsys.readouterr().err.splitlines() == ["· reading: 5,000", "· reading: done in 1 min 1 s"]
