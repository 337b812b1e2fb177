"""Damaged files are read or rejected; `python -m benchmarks.fuzz` does the same for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz import READERS, run_case, write

CASES = 40
"""For each reader: one or two seconds."""


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_rejected(name: str, tmp_path: Path) -> None:
    found = {number: run_case(name, number, tmp_path) for number in range(CASES)}
    assert not {number: kind for number, (outcome, kind) in found.items() if outcome == "unexpected"}
    assert any(outcome == "rejected" for outcome, _ in found.values()), "nothing was damaged"


@pytest.mark.parametrize("name", READERS)
def test_the_files_that_are_damaged_were_valid(name: str, tmp_path: Path) -> None:
    for number, files in enumerate(READERS[name].examples()):
        first = write(files, tmp_path / str(number))
        READERS[name].read(first.parent if READERS[name].is_folder else first)
