"""Predicates and arguments from the columns of CoNLL-2009."""

from __future__ import annotations

import bz2

import pytest

from relexify.errors import InputError
from relexify.evaluation.data.propositions import PredicateSentence, Proposition, read_propositions


def row(number: int, word: str, predicate: str, *roles: str) -> str:
    """A line with the columns that are read, and others as in the shared task."""
    fill = "_" if predicate == "_" else "Y"
    syntax = ["_", "_", "N", "N", "_", "_", "2", "2", "OBJ", "OBJ"]
    return "\t".join([str(number), word, *syntax, fill, predicate, *roles]) + "\n"


# "gave" has three arguments and "gift" two, one of them itself.
GIFT = (
    row(1, "Ann", "_", "A0", "_")
    + row(2, "gave", "give.01", "_", "_")
    + row(3, "Bob", "_", "A2", "A1")
    + row(4, "gifts", "gift.02", "A1", "A0")
)


def test_senses_and_roles_are_read_from_the_columns_of_their_predicates(tmp_path):
    (tmp_path / "a.txt.bz2").write_bytes(bz2.compress((GIFT + "\n\n" + row(1, "Yes", "_")).encode()))
    first, second = read_propositions(tmp_path / "a.txt.bz2")
    assert first == PredicateSentence(
        ("Ann", "gave", "Bob", "gifts"),
        (
            Proposition(1, "01", ((0, "A0"), (2, "A2"), (3, "A1"))),
            Proposition(3, "02", ((2, "A1"), (3, "A0"))),
        ),
    )
    assert second == PredicateSentence(("Yes",), ())
    assert len(first) == 4


def test_words_of_scripts_without_spaces_are_not_separated():
    sentence = PredicateSentence(("我们", "喜欢", "GPT", "模型", "。"), ())
    assert sentence.spaces == (True, False, True, True, True)
    assert PredicateSentence((), ()).spaces == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GIFT.replace("\tA2\tA1", "\tA2"), "line 3, has 15 columns, but .* each of the 2 predicates"),
        (GIFT.replace("\n2\t", "\n7\t"), "line 2: found word '7', but expected word 2"),
        (GIFT.replace("give.01", "_"), "line 2: the predicate 'gave' has no sense"),
        ("\n\n", "holds no sentences"),
    ],
)
def test_invalid_lines_are_named(tmp_path, text, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read_propositions(tmp_path / "a.txt")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_propositions(tmp_path / "none.txt")
