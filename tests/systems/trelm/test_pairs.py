"""Parallel text of TreLM: when an aligner is asked for, and whose alignments are found again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.evidence.bitext import Bitext
from relexify.evidence.bitext.aligned_tokens import count_aligned_tokens
from relexify.systems.trelm.options import Trelm
from relexify.systems.trelm.pairs import check_bitext, load_pairs
from tests import pico

ENGLISH, FOREIGN = pico.sentences(50, seed=1), pico.sentences(50, seed=1, words=pico.foreign_words())
TOKENIZERS = pico.wordpiece(ENGLISH, size=150), pico.wordpiece(FOREIGN, size=220)


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(ENGLISH, FOREIGN, strict=True)))
    (tmp_path / "links.txt").write_text("0-0\n" * 50)
    return Trelm(bitext=str(tmp_path / "pairs.tsv"))


def forget_eflomal(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "eflomal", None)


def test_a_missing_aligner_is_told_early_and_only_where_it_is_needed(options, tmp_path, monkeypatch):
    forget_eflomal(monkeypatch)
    check_bitext(replace(options, alignment=tmp_path / "links.txt"))
    with pytest.raises(MissingExtra, match="eflomal"):
        check_bitext(options)
    with pytest.raises(InputError, match="does not exist"):
        check_bitext(replace(options, bitext="nowhere.tsv"))


def test_an_aligner_is_not_missed_where_an_earlier_run_aligned_the_pairs(options, tmp_path, monkeypatch):
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    found = load_pairs(TOKENIZERS, options)
    forget_eflomal(monkeypatch)
    check_bitext(options)
    assert load_pairs(TOKENIZERS, options).fingerprint() == found.fingerprint()
    (tmp_path / "pairs.tsv").write_text("one\teins\n")
    with pytest.raises(MissingExtra, match="eflomal"):
        check_bitext(options)


def test_what_a_transfer_aligned_is_not_aligned_again(options, tmp_path, monkeypatch):
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    count_aligned_tokens(Bitext.open(options.bitext), *TOKENIZERS)
    forget_eflomal(monkeypatch)
    check_bitext(options)
    assert len(load_pairs(TOKENIZERS, options)) == 50
