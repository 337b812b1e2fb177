"""The page that lists every file says what the files say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

MAKER = Path(__file__).parents[1] / "docs" / "make_house.py"


def test_the_list_of_files_is_up_to_date():
    specification = importlib.util.spec_from_file_location("make_house", MAKER)
    maker = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(maker)
    assert maker.PAGE.read_text() == maker.page(), "docs/house.md is out of date: run make house"
    assert "`mixture.py`" in maker.page()
