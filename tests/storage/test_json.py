"""Results that an earlier run wrote as json are read again, or reported as corrupt."""

from __future__ import annotations

from pathlib import Path

import pytest

from relexify.errors import InputError, check_number
from relexify.storage.json import read_result


def seed_of(notes: dict[str, int]) -> int:
    check_number("seed", notes["seed"], 0)
    return notes["seed"]


def test_a_result_is_read_again_and_one_that_is_not_there_needs_no_warning(tmp_path: Path, caplog):
    path = tmp_path / "seed.json"
    assert read_result(path, seed_of, otherwise="training it again") is None
    path.write_text('{"seed": 3}')
    assert read_result(path, seed_of, otherwise="training it again") == 3
    assert not caplog.messages


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"seed": "three"}', '{"seed": -1}', "[" * 10_000, b"\xff"], ids=repr
)
def test_a_damaged_result_is_reported_and_not_used(tmp_path: Path, caplog, text):
    path = tmp_path / "seed.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert read_result(path, seed_of, otherwise="training it again") is None
    assert f"{path} is corrupt; training it again" in caplog.text


def test_an_error_in_the_reader_itself_is_raised(tmp_path: Path):
    path = tmp_path / "seed.json"
    path.write_text('{"seed": 3}')
    with pytest.raises(ZeroDivisionError):
        read_result(path, lambda notes: notes["seed"] // 0, otherwise="training it again")
    with pytest.raises(InputError):
        check_number("seed", -1, 0)
