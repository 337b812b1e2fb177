"""Tables in Markdown: alignment, escapes, and rows that do not fit."""

from __future__ import annotations

import pytest

from relexify.errors import InputError
from relexify.markdown import markdown_table, plain_text


def test_markdown_is_aligned_and_escapes_what_would_end_a_cell():
    assert markdown_table(["run", "score"], [["a|b", "1.0"], ["c\\|d\ne", "10.0 ± 0.5"]]) == (
        "| run      |      score |\n"
        "| -------- | ---------: |\n"
        "| a\\|b     |        1.0 |\n"
        "| c\\\\\\|d e | 10.0 ± 0.5 |\n"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gpt2-swahili_v1.0 (best)", "gpt2-swahili_v1.0 (best)"),
        ("<img src=x onerror=alert(1)>", r"\<img src=x onerror=alert(1)\>"),
        ("[x](javascript:alert(1))", r"\[x\](javascript:alert(1))"),
        ("a\n# b\x1b[31m", r"a # b \[31m"),
        ("# a`id`", r"\# a\`id\`"),
    ],
)
def test_plain_text_is_shown_as_it_is(name, shown):
    assert plain_text(name) == shown
    assert "<" not in markdown_table(["a"], [[name]])


def test_markdown_of_no_rows_is_a_header():
    assert markdown_table(["a", "b"], []) == "| a   |   b |\n| --- | --: |\n"


def test_markdown_rejects_rows_that_do_not_fit():
    with pytest.raises(InputError, match=r"does not fit the 2 columns"):
        markdown_table(["a", "b"], [["1"]])
    with pytest.raises(InputError, match=r"does not fit the 1 columns"):
        markdown_table(["a"], [["1", "2"]])
    with pytest.raises(InputError, match=r"does not fit the 1 columns"):
        markdown_table(["a"], [[]])
