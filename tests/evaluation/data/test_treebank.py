"""Reading CoNLL-U, right and wrong."""

from __future__ import annotations

import gzip
import sys
import time

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.evaluation.data.treebank import ParsedSentence, read_treebank


def line(*fields: str) -> str:
    """One word: id, form, upos, head, deprel, misc; the rest is left open."""
    id, form, upos, head, relation, misc = (*fields, "_")[:6]
    return "\t".join([id, form, "_", upos, "_", "_", head, relation, "_", misc])


GOOD = [
    "# sent_id = 1",
    "# text = We don't see Ann's house.",
    line("1", "We", "PRON", "4", "nsubj"),
    line("2-3", "don't", "_", "_", "_"),
    line("2", "do", "AUX", "4", "aux"),
    line("3", "n't", "PART", "4", "advmod"),
    line("4", "see", "VERB", "0", "root"),
    line("4.1", "maybe", "ADV", "_", "_"),
    line("5", "Ann", "PROPN", "7", "nmod:poss", "SpaceAfter=No"),
    line("6", "'s", "PART", "5", "case"),
    line("7", "house", "NOUN", "4", "obj", "Gloss=x|SpaceAfter=No"),
    line("8", ".", "PUNCT", "4", "punct"),
    "",
    "# a second one",
    line("1-2", "du", "_", "_", "_", "SpaceAfter=No"),
    line("1", "de", "ADP", "3", "case"),
    line("2", "le", "DET", "3", "det"),
    line("3", "10  000", "NUM", "0", "root"),
]


def write(path, lines, ending="\n"):
    path.write_bytes(("\n".join(lines) + ending).encode())
    return path


def test_words_heads_relations_and_tags(tmp_path):
    first, second = read_treebank(write(tmp_path / "good.conllu", GOOD, ending=""))
    assert first.words == ("We", "do", "n't", "see", "Ann", "'s", "house", ".")
    assert first.heads == (4, 4, 4, 0, 7, 5, 4, 4)
    assert first.relations == ("nsubj", "aux", "advmod", "root", "nmod:poss", "case", "obj", "punct")
    assert first.upos[-1] == "PUNCT"
    assert first.spaces == (True, True, False, True, True, False, True, False)
    assert second.words == ("de", "le", "10 000")
    assert second.spaces == (True, True, False)
    assert len(first) == 8


def test_windows_line_ends_and_a_byte_order_mark(tmp_path):
    plain = read_treebank(write(tmp_path / "plain.conllu", GOOD))
    (tmp_path / "windows.conllu").write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*GOOD, ""]).encode())
    assert read_treebank(tmp_path / "windows.conllu") == plain


WRONG = {
    "columns": (line("2", "x", "X", "1", "dep").rsplit("\t", 1)[0], "9 columns"),
    "no tabs": ("2 x _ X", "1 columns"),
    "head is a word": (line("2", "x", "X", "one", "dep"), "'one'"),
    "head is missing": (line("2", "x", "X", "_", "dep"), "no head"),
    "head too high": (line("2", "x", "X", "3", "dep"), "the head of word 2 is 3, but the sentence has 2 words"),
    "head below zero": (line("2", "x", "X", "-1", "dep"), "the head of word 2 is -1"),
    "relation is missing": (line("2", "x", "X", "1", "_"), "no relation"),
    "number is wrong": (line("3", "x", "X", "1", "dep"), "found word 3, but expected word 2"),
    "invalid number": (line("b", "x", "X", "1", "dep"), "'b' is not a valid ID"),
    "number is missing": (line("_", "x", "X", "1", "dep"), "no number"),
    "two roots": (line("2", "x", "X", "0", "root"), "2 roots"),
    "own head": (line("2", "x", "X", "2", "dep"), "cycle"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_line_is_named(tmp_path, case):
    wrong, message = WRONG[case]
    path = write(tmp_path / "wrong.conllu", [*GOOD, "", "# third", line("1", "a", "X", "0", "root"), wrong])
    with pytest.raises(InputError, match=r"wrong.conllu, line 22") as error:
        read_treebank(path)
    assert message in str(error.value)


def test_a_sentence_without_a_root(tmp_path):
    path = write(tmp_path / "wrong.conllu", ["", line("1", "a", "X", "2", "dep"), line("2", "b", "X", "1", "dep")])
    with pytest.raises(InputError, match="line 2: the sentence has no root"):
        read_treebank(path)


def test_a_longer_cycle_beside_a_root(tmp_path):
    heads = ["0", "3", "4", "2", "4"]
    path = write(tmp_path / "wrong.conllu", [line(str(n), "a", "X", head, "dep") for n, head in enumerate(heads, 1)])
    with pytest.raises(InputError, match=r"line 2: .* cycle"):
        read_treebank(path)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only a comment\n"])
def test_an_empty_file(tmp_path, content):
    (tmp_path / "empty.conllu").write_bytes(content)
    with pytest.raises(InputError, match=r"empty.conllu holds no sentences"):
        read_treebank(tmp_path / "empty.conllu")


def test_a_sentence_with_only_empty_nodes_is_rejected(tmp_path):
    with pytest.raises(InputError, match="line 1: the sentence has no words"):
        read_treebank(write(tmp_path / "odd.conllu", [line("0.1", "a", "X", "_", "_")]))


def test_a_missing_file_and_wrong_bytes(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_treebank(tmp_path / "nowhere.conllu")
    (tmp_path / "latin.conllu").write_bytes(b"# fine\n# caf\xe9\n")
    with pytest.raises(InputError, match=r"latin.conllu is not UTF-8: line 2"):
        read_treebank(tmp_path / "latin.conllu")


def test_the_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "conllu.parser", None)
    with pytest.raises(MissingExtra, match=r"relexify\[evaluation\]"):
        read_treebank(write(tmp_path / "good.conllu", GOOD))


def test_a_sentence_has_one_of_each_for_every_word():
    with pytest.raises(InputError, match="2 words has 1 heads"):
        ParsedSentence(("a", "b"), (0,), ("root", "dep"), ("X", "X"))


def test_a_compressed_treebank_is_read_like_a_plain_one(tmp_path):
    plain = write(tmp_path / "good.conllu", GOOD)
    packed = tmp_path / "good.conllu.gz"
    packed.write_bytes(gzip.compress((tmp_path / "good.conllu").read_bytes()))
    assert read_treebank(packed) == read_treebank(plain)


def test_a_long_sentence_is_read_in_linear_time(tmp_path):
    size = 30_000
    chain = [line(str(word), "x", "X", str(word + 1) if word < size else "0", "dep") for word in range(1, size + 1)]
    pairs = [
        text
        for word in range(0, size, 2)
        for text in (line(f"{word + 1}-{word + 2}", "xx", "_", "_", "_"), *chain[word : word + 2])
    ]
    path = write(tmp_path / "long.conllu", pairs)
    start = time.process_time()
    (sentence,) = read_treebank(path)
    assert time.process_time() - start < 8  # quadratic: more than half a minute
    assert sentence.spaces == (True, False) * (size // 2)


@pytest.mark.parametrize("ranges", [("1-2", "2-3"), ("2-3", "1-2"), ("0-1", "2-3"), ("3-2", "3-3"), ("1-2", "4-5")])
def test_ranges_that_overlap_or_are_empty_are_rejected(tmp_path, ranges):
    words = [line(str(word), "x", "X", "0" if word == 1 else "1", "dep") for word in (1, 2, 3)]
    path = write(tmp_path / "ranges.conllu", [*(line(each, "xx", "_", "_", "_") for each in ranges), *words])
    with pytest.raises(InputError, match=r"line \d: the range .* is empty, overlaps another one|is not CoNLL-U"):
        read_treebank(path)


def test_a_number_of_thousands_of_digits_is_rejected(tmp_path):
    path = write(tmp_path / "long.conllu", [line("1", "x", "X", "9" * 5000, "dep")])
    with pytest.raises(InputError, match="line 1, is not CoNLL-U"):
        read_treebank(path)
