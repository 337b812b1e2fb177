"""Tables in Markdown: alignment, escapes, and rows that do not fit."""

from __future__ import annotations

import pytest

from relexify.errors import InputError
from relexify.markdown import markdown_table


def test_markdown_is_aligned_and_escapes_what_would_end_a_cell():
    assert markdown_table(["run", "score"], [["a|b", "1.0"], ["c\\|d\ne", "10.0 ± 0.5"]]) == (
        "| run      |      score |\n"
        "| -------- | ---------: |\n"
        "| a\\|b     |        1.0 |\n"
        "| c\\\\\\|d e | 10.0 ± 0.5 |\n"
    )


def test_markdown_of_no_rows_is_a_header():
    assert markdown_table(["a", "b"], []) == "| a   |   b |\n| --- | --: |\n"


def test_markdown_rejects_rows_that_do_not_fit():
    with pytest.raises(InputError, match=r"does not fit the 2 columns"):
        markdown_table(["a", "b"], [["1"]])
    with pytest.raises(InputError, match=r"does not fit the 1 columns"):
        markdown_table(["a"], [["1", "2"]])
    with pytest.raises(InputError, match=r"does not fit the 1 columns"):
        markdown_table(["a"], [[]])
