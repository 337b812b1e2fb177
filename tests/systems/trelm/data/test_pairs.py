"""Sentence pairs: the position of every token in the other sentence, and when an aligner is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError, MissingExtra
from relexify.evidence.bitext import Bitext, DirectedLinks, EncodedBitext, Links, Side, encode_bitext
from relexify.evidence.bitext.aligned_tokens import count_aligned_tokens
from relexify.systems.trelm.data.pairs import AlignedPairs, align_pairs, check_bitext, load_pairs
from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.systems.trelm.options import Trelm
from tests import pico

ENGLISH, FOREIGN = pico.sentences(50, seed=1), pico.sentences(50, seed=1, words=pico.foreign_words())
JOINT = pico.wordpiece(pico.sentences() + pico.sentences(words=pico.foreign_words()), size=400)
TOKENIZERS = pico.wordpiece(ENGLISH, size=150), pico.wordpiece(FOREIGN, size=220)


def side(*lines: list[int]) -> Side:
    """Every token a unit of its own."""
    ids = np.array([id for line in lines for id in line], np.int32)
    return Side(ids, np.arange(len(ids) + 1), np.cumsum([0, *map(len, lines)]))


def links(*points: tuple[int, int, int]) -> Links:
    return Links.from_points(np.array(points, np.int32))


def three_pairs(**options: Any) -> AlignedPairs:
    source = side([10, 11, 12], [], [20, 21, 22, 23])
    target = side([30, 31], [40], [50, 51, 52])
    forward = links((0, 2, 0), (0, 0, 1), (2, 3, 0), (2, 0, 2))
    reverse = links((0, 0, 1), (0, 1, 1), (2, 3, 0))
    return align_pairs(EncodedBitext(source, target), DirectedLinks(forward, reverse), **({"max_tokens": 8} | options))


def test_every_token_has_its_position_in_the_other_sentence() -> None:
    pairs = three_pairs()
    assert pairs.lines.tolist() == [0, 2]
    source, target = pairs.pair(0)
    assert (source.ids.tolist(), source.positions.tolist()) == ([10, 11, 12], [1, 1, UNALIGNED])
    assert (target.ids.tolist(), target.positions.tolist()) == ([30, 31], [2, 0])
    source, target = pairs.pair(1)
    assert source.positions.tolist() == [UNALIGNED, UNALIGNED, UNALIGNED, 0]
    assert target.positions.tolist() == [3, UNALIGNED, 0]


def test_the_first_of_several_links_counts_in_either_direction() -> None:
    both = EncodedBitext(side([1, 2, 3]), side([4, 5]))
    source, target = align_pairs(both, links((0, 2, 0), (0, 1, 0), (0, 1, 1)), max_tokens=8).pair(0)
    assert target.positions.tolist() == [1, 1]
    assert source.positions.tolist() == [UNALIGNED, 0, 0]


def test_tokens_of_linked_words_are_aligned_one_by_one() -> None:
    # Words of two, one and three pieces against words of three pieces and one.
    source = Side(np.arange(6, dtype=np.int32), np.array([0, 2, 3, 6]), np.array([0, 3]))
    target = Side(np.arange(4, dtype=np.int32), np.array([0, 3, 4]), np.array([0, 2]))
    first, second = align_pairs(EncodedBitext(source, target), links((0, 0, 0), (0, 2, 1)), max_tokens=8).pair(0)
    assert second.positions.tolist() == [0, 1, 1, 3]
    assert first.positions.tolist() == [0, 1, UNALIGNED, 3, 3, 3]


def test_long_pairs_are_left_out_and_having_none_left_is_an_error() -> None:
    assert three_pairs(max_tokens=3).lines.tolist() == [0]
    assert three_pairs(max_together=6).lines.tolist() == [0]
    with pytest.raises(EvidenceError, match="none of the 3 pairs"):
        three_pairs(max_tokens=1)
    with pytest.raises(EvidenceError, match="no token of the parallel text is aligned"):
        align_pairs(EncodedBitext(side([1]), side([2])), links(), max_tokens=8)


def test_the_fingerprint_changes_with_a_link() -> None:
    both = EncodedBitext(side([1, 2]), side([3, 4]))
    first, second = (align_pairs(both, links((0, 0, index)), max_tokens=8).fingerprint() for index in (0, 1))
    assert first != second
    assert first == align_pairs(both, links((0, 0, 0)), max_tokens=8).fingerprint()


def test_real_sentences_keep_their_tokens(tmp_path: Any) -> None:
    lines = pico.sentences(6)
    others = pico.sentences(6, words=pico.foreign_words())
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in zip(lines, others, strict=True)))
    encoded = encode_bitext(Bitext.open(file), JOINT, JOINT)
    pairs = align_pairs(encoded, links((0, 0, 0)), max_tokens=60)
    for number in range(6):
        for found, text in zip(pairs.pair(number), (lines[number], others[number]), strict=True):
            assert found.ids.tolist() == JOINT(text, add_special_tokens=False).input_ids


@pytest.fixture
def options(tmp_path, cache):
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(ENGLISH, FOREIGN, strict=True)))
    (tmp_path / "links.txt").write_text("0-0\n" * 50)
    return Trelm(bitext=str(tmp_path / "pairs.tsv"))


def forget_eflomal(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "eflomal", None)


def test_a_missing_aligner_is_reported_early_and_only_if_it_is_needed(options, tmp_path, monkeypatch):
    forget_eflomal(monkeypatch)
    check_bitext(replace(options, alignment=tmp_path / "links.txt"))
    with pytest.raises(MissingExtra, match="eflomal"):
        check_bitext(options)
    with pytest.raises(InputError, match="does not exist"):
        check_bitext(replace(options, bitext="nowhere.tsv"))


def test_no_aligner_is_needed_if_an_earlier_run_aligned_the_pairs(options, tmp_path, monkeypatch):
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    found = load_pairs(TOKENIZERS, options)
    forget_eflomal(monkeypatch)
    check_bitext(options)
    assert load_pairs(TOKENIZERS, options).fingerprint() == found.fingerprint()
    (tmp_path / "pairs.tsv").write_text("one\teins\n")
    with pytest.raises(MissingExtra, match="eflomal"):
        check_bitext(options)


def test_pairs_that_a_transfer_aligned_are_not_aligned_again(options, tmp_path, monkeypatch):
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    count_aligned_tokens(Bitext.open(options.bitext), *TOKENIZERS)
    forget_eflomal(monkeypatch)
    check_bitext(options)
    assert len(load_pairs(TOKENIZERS, options)) == 50


def test_pairs_in_text_to_score_on_are_left_out(options, tmp_path, caplog):
    options = replace(options, alignment=tmp_path / "links.txt")
    everything = load_pairs(TOKENIZERS, options)
    (tmp_path / "test.tsv").write_text(f"{ENGLISH[7]}\tanother translation\nanother sentence\t{FOREIGN[9].upper()}\n")
    held_out = ([f"Before it. {ENGLISH[3]} After it."], [FOREIGN[4]])
    found = load_pairs(TOKENIZERS, replace(options, test_bitext=str(tmp_path / "test.tsv")), held_out=held_out)
    assert sorted(set(everything.lines) - set(found.lines)) == [3, 4, 7, 9]
    assert found.left_out == 4
    assert "4 of 50 sentence pairs" in caplog.text
    with pytest.raises(EvidenceError, match="all pairs"):
        load_pairs(TOKENIZERS, options, held_out=(ENGLISH, []))
