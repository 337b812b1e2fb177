"""Formats of parallel text, and errors in files."""

from __future__ import annotations

import gzip
import json
import logging
import lzma
import unicodedata

import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.bitext import Bitext, encode_bitext, looks_swapped
from tests import pico

PAIRS = [("the house", "das Haus"), ("a door", "eine Tür")]
TABS = "".join(f"{left}\t{right}\n" for left, right in PAIRS)


def test_two_columns_are_read_also_compressed_and_from_several_files(tmp_path):
    (tmp_path / "a.tsv").write_text(TABS)
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(TABS.encode()))
    (tmp_path / "c.tsv.xz").write_bytes(lzma.compress(TABS.encode()))
    bitext = Bitext.open([tmp_path / "a.tsv", str(tmp_path / "b.tsv.gz"), tmp_path / "c.tsv.xz"])
    assert list(bitext) == PAIRS * 3 == list(bitext), "it can be read twice"
    assert bitext.ensure_pairs() == 6
    assert Bitext.open(bitext) is bitext


def test_what_follows_a_second_tab_is_not_taken_for_the_translation(tmp_path):
    (tmp_path / "a.tsv").write_text("the house\tdas Haus\tCC-BY 2.0 (someone)\n")
    assert list(Bitext.open(tmp_path / "a.tsv")) == PAIRS[:1]


@pytest.mark.parametrize("spelling", ["news.{en,de}", "{news.en,news.de}", "two"])
def test_two_files_of_equal_length_are_read_side_by_side(tmp_path, spelling):
    for side, name in enumerate(("news.en", "news.de")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    if spelling == "two":
        bitext = Bitext.open(tmp_path / "news.en", tmp_path / "news.de")
    else:
        bitext = Bitext.open(str(tmp_path / spelling))
    assert list(bitext) == PAIRS


def test_json_lines_are_read_by_two_fields_also_within_objects(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({"translation": {"en": a, "de": b}}) + "\n" for a, b in PAIRS))
    assert list(Bitext.open(file, fields=("translation.en", "translation.de"))) == PAIRS
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"line 1, is not json \(it nests too many"):
        list(Bitext.open(tmp_path / "deep.jsonl"))
    (tmp_path / "list.jsonl").write_text('\n["the house", "das Haus"]\n')
    with pytest.raises(InputError, match=r"line 2, holds a list: each line must be one json object"):
        list(Bitext.open(tmp_path / "list.jsonl"))
    with pytest.raises(InputError, match=r"a\.jsonl, line 1, has no field 'source', only translation"):
        list(Bitext.open(file))


def test_swapped_columns_are_yielded_in_order(tmp_path):
    (tmp_path / "a.tsv").write_text(TABS)
    assert list(Bitext.open(tmp_path / "a.tsv", swapped=True)) == [(b, a) for a, b in PAIRS]


def test_the_fingerprint_follows_content_and_order_and_not_names(tmp_path):
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text(TABS)
    (tmp_path / "c.tsv").write_text(TABS + "one\teins\n")
    prints = [Bitext.open(tmp_path / name).fingerprint() for name in ("a.tsv", "b.tsv", "c.tsv")]
    assert prints[0] == prints[1] != prints[2]
    assert Bitext.open(tmp_path / "a.tsv", swapped=True).fingerprint() != prints[0]


def test_a_line_without_a_tab_is_rejected_with_its_number(tmp_path):
    (tmp_path / "a.tsv").write_text(TABS + "no translation here\n")
    with pytest.raises(InputError, match=r"a\.tsv, line 3, has no tab"):
        Bitext.open(tmp_path / "a.tsv").ensure_pairs()


@pytest.mark.parametrize(("longer", "shorter"), [("en", "de"), ("de", "en")])
def test_files_of_unequal_length_are_rejected_with_the_line_where_one_ends(tmp_path, longer, shorter):
    (tmp_path / f"news.{longer}").write_text("a\nb\nc\n")
    (tmp_path / f"news.{shorter}").write_text("a\nb\n")
    with pytest.raises(InputError, match=rf"news\.{shorter} ends after line 2, but .*news\.{longer} continues"):
        Bitext.open(str(tmp_path / "news.{en,de}")).ensure_pairs()


def test_incomplete_lines_are_skipped_counted_and_reported_once(tmp_path, caplog):
    (tmp_path / "a.tsv").write_text(f"{TABS}\nleft alone\t\n{TABS}")
    bitext = Bitext.open(tmp_path / "a.tsv")
    with caplog.at_level(logging.WARNING):
        assert bitext.ensure_pairs() == 4
    assert [record.message for record in caplog.records if "2 of 6 lines lack a side" in record.message]
    assert list(bitext)[2:4] == [("", ""), ("", "")], "lines keep their numbers"


@pytest.mark.parametrize("text", ["", "\n\n", "a\tb\nc\t\n\t d\n"])
def test_text_whose_lines_mostly_lack_a_side_is_rejected(tmp_path, text):
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(InputError, match="lack a sentence or its translation"):
        Bitext.open(tmp_path / "a.tsv").ensure_pairs()


def test_missing_files_are_rejected_when_they_are_opened(tmp_path):
    (tmp_path / "news.en").write_text("a\n")
    with pytest.raises(InputError, match=r"news\.de does not exist"):
        Bitext.open(str(tmp_path / "news.{en,de}"))
    with pytest.raises(InputError, match="is a folder"):
        Bitext.open(tmp_path)


# Two languages, and the tokenizers of both.

ENGLISH = pico.sentences(300, seed=1)
FOREIGN = pico.sentences(300, seed=1, words=pico.foreign_words())
SOURCE, TARGET = pico.byte_level(ENGLISH), pico.byte_level(FOREIGN)


@pytest.fixture
def bitext(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(ENGLISH, FOREIGN, strict=True)))
    return lambda **options: Bitext.open(tmp_path / "a.tsv", **options)


def test_swapped_languages_are_suspected_and_languages_in_order_are_not(bitext):
    assert not looks_swapped(bitext(), SOURCE, TARGET)
    assert looks_swapped(bitext(swapped=True), SOURCE, TARGET)


def test_tokenizers_of_one_language_suspect_nothing(bitext):
    assert not looks_swapped(bitext(), SOURCE, SOURCE)
    assert not looks_swapped(bitext(swapped=True), SOURCE, SOURCE)


def test_a_text_without_pairs_cannot_be_suspected(tmp_path):
    (tmp_path / "a.tsv").write_text("\n")
    with pytest.raises(EvidenceError, match="no pair"):
        looks_swapped(Bitext.open(tmp_path / "a.tsv"), SOURCE, TARGET)


def test_both_sides_are_encoded_by_their_own_tokenizer_line_by_line(bitext):
    encoded = encode_bitext(bitext(), SOURCE, TARGET)
    assert len(encoded) == 300
    for side, tokenizer, texts in ((encoded.source, SOURCE, ENGLISH), (encoded.target, TARGET, FOREIGN)):
        for line in (0, 7, 299):
            ids = side.ids[side.units[side.lines[line]] : side.units[side.lines[line + 1]]]
            assert ids.tolist() == tokenizer(texts[line]).input_ids
        assert side.lengths.sum() == len(side.ids)


@pytest.mark.parametrize("make", [pico.byte_level, pico.wordpiece, pico.unigram])
def test_every_word_has_the_tokens_that_write_it_and_only_those(bitext, make):
    tokenizer = make(FOREIGN)
    side = encode_bitext(bitext(), SOURCE, tokenizer, units="words").target
    for line in (0, 42):
        words = FOREIGN[line].split()
        assert side.lengths[line] == len(words)
        for index, word in enumerate(words, start=side.lines[line]):
            ids = side.ids[side.units[index] : side.units[index + 1]]
            assert _plain(tokenizer.decode(ids)) == _plain(word)


def test_lines_that_lack_a_side_have_no_words(tmp_path):
    (tmp_path / "pairs.tsv").write_text("the river\tla rivero\n\tla domo\nthe house\t\n" * 5)
    encoded = encode_bitext(Bitext.open(tmp_path / "pairs.tsv"), SOURCE, TARGET, units="words")
    assert set(encoded.source.lengths) <= {0, 2}
    assert encoded.source.lengths.sum() > 0


def _plain(text):
    """Without what some tokenizers take away: case, accents, spaces."""
    letters = unicodedata.normalize("NFD", text.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter) and letter != " ")


def test_fewer_pairs_are_spread_evenly_over_the_text(bitext):
    encoded = encode_bitext(bitext(), SOURCE, TARGET, most_pairs=3)
    kept = [
        SOURCE.decode(encoded.source.ids[slice(*encoded.source.units[encoded.source.lines[i : i + 2]])])
        for i in range(3)
    ]
    assert kept == [ENGLISH[99], ENGLISH[199], ENGLISH[299]]
