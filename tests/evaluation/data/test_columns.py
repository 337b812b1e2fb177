"""Tagged words in columns, and every invalid line rejected with its number."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from relexify.errors import InputError
from relexify.evaluation.data.columns import TaggedSentence, read_columns


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(text: str) -> list[TaggedSentence]:
        path = tmp_path / "data.txt"
        path.write_bytes(text.encode())
        return read_columns(path)

    return read


EXPECTED = [TaggedSentence(("Anton", "lacht"), ("B-PER", "O")), TaggedSentence(("Ja",), ("O",))]


@pytest.mark.parametrize("separator", ["\t", " ", "   "])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_tabs_and_spaces(read, separator, end):
    assert read(f"Anton{separator}B-PER\nlacht{separator}O\n\n\nJa{separator}O{end}") == EXPECTED


@pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "a.gz"), (lzma.compress, "a.xz")])
def test_compressed_files(tmp_path, pack, name):
    (tmp_path / name).write_bytes(pack(b"Anton\tB-PER\r\nlacht\tO\r\n\r\nJa\tO\r\n"))
    assert read_columns(tmp_path / name) == EXPECTED


def test_four_columns_with_documents(read):
    text = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n"
    assert read(text) == [TaggedSentence(("EU", "rejects"), ("B-ORG", "O"))]


def test_documents_that_start_with_spaces_among_tabs(read):
    assert read("-DOCSTART- -X- O O\n\nAnton\tB-PER\nlacht\tO\n\nJa\tO\n") == EXPECTED


def test_languages_before_every_word_are_cut_off(read):
    assert read("en:Anton\tB-PER\nen:lacht\tO\n\nen:Ja\tO\n") == EXPECTED
    assert read("be-x-old:a O\nbe-x-old:: O\nbe-x-old: O\n")[0].words == ("a", ":", "be-x-old:")
    assert read("en:Anton\tB-PER\nlacht\tO\n")[0].words == ("en:Anton", "lacht")


def test_comments_and_words_that_look_like_them(read):
    text = "# id = 1\n# text = # O\nAnton B-PER\n# O\n#1 O\n\n# a note\nJa O\n#alone\n"
    assert read(text) == [TaggedSentence(("Anton", "#", "#1"), ("B-PER", "O", "O")), TaggedSentence(("Ja",), ("O",))]
    assert read("# a comment\n#\tO\nJa\tO\n")[0].words == ("#", "Ja")


def test_white_space_that_is_no_separator_belongs_to_words(read):
    assert read("a\u00a0b O\n\u200b O\n\u3000x O\n")[0].words == ("a\u00a0b", "\u200b", "\u3000x")
    assert read("a b\tO\n\u200b\tO\n \tO\n")[0].words == ("a b", "\u200b", " ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Anton\n", r"line 1, has one column \('Anton'\): each line must be a word and its tag"),
        ("Anton B-PER\nlacht\n", r"line 2, has one column \('lacht'\)"),
        ("Anton\tB-PER\nlacht\tx\tO\n", "line 2, has 3 columns, but the lines before it have 2"),
        ("Anton B-PER\n\nlacht x O\n", "line 3, has 3 columns"),
        ("Anton\tB-PER\n\tO\n", "line 2, has a tag without a word"),
        ("Anton\tB-PER\nlacht\t\n", "line 2, has no tag for 'lacht'"),
        ("", "holds no tagged words"),
        ("\n \n# comment\n", "holds no tagged words"),
    ],
)
def test_invalid_files_are_rejected(read, text, message):
    with pytest.raises(InputError, match=message):
        read(text)


def test_as_many_tags_as_words():
    with pytest.raises(InputError, match="2 words and 1 tags"):
        TaggedSentence(("a", "b"), ("O",))
