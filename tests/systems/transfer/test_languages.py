"""Transfers between any languages: a chain of two, and one to two languages at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.evidence.lexicon import BilingualLexicon
from relexify.pretrained.loading import load_tokenizer
from relexify.reports.model_card import render_card
from relexify.storage.notes import read_notes
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.training.options import Training
from relexify.training.run import train
from tests import pico

ENGLISH = pico._ENGLISH
FIRST = [f"{word[::-1]}o" for word in ENGLISH]
SECOND = [f"ба{word}š" for word in FIRST]
"""One distinct word of each language for every English one."""


def assert_translated(result, source, source_words, target_words):
    """Assert that words are mixed from the tokens of their translations, most of all."""
    tokenizer = result.graft.tokenizer
    encoded = {word: tokenizer.encode(f" {word}", add_special_tokens=False) for word in target_words}
    pairs = [(one, encoded[other]) for one, other in zip(source_words, target_words, strict=True)]
    whole = [(one, ids[0]) for one, ids in pairs if len(ids) == 1]
    assert len(whole) > len(target_words) / 2
    for word, id in whole:
        heaviest, _ = max(result.graft.mixture.sources(id), key=lambda each: each[1])
        assert heaviest in source.tokenize(f" {word}")


@pytest.fixture
def options(tmp_path, cache):
    pico.saved("gpt2", tmp_path / "english")
    for name, words in (("first", FIRST), ("second", SECOND)):
        (tmp_path / f"{name}.txt").write_text("\n".join(pico.sentences(400, words=words)))
    return Transfer(
        model=str(tmp_path / "english"),
        output=tmp_path / "first",
        corpus=tmp_path / "first.txt",
        dictionary=BilingualLexicon(tuple(zip(ENGLISH, FIRST, strict=True))),
        vocab_size=400,
        unigram_prior=False,
        score=False,
        language="xx",
    )


def test_a_chain_of_two_transfers_builds_on_the_model_between_and_records_both(options, tmp_path):
    run_transfer(options)
    training = Training(steps=2, batch=2, length=16, evaluate_every=2, report_to=[])
    train(str(tmp_path / "first"), tmp_path / "trained", tmp_path / "first.txt", training)
    # A dictionary between the two, over the language that both have one with.
    to_first, to_second = (BilingualLexicon(tuple(zip(ENGLISH, words, strict=True))) for words in (FIRST, SECOND))
    second = replace(
        options,
        model=str(tmp_path / "trained"),
        output=tmp_path / "second",
        corpus=tmp_path / "second.txt",
        dictionary=to_first.swapped().through(to_second),
        language="yy",
    )
    result = run_transfer(second)
    assert_translated(result, load_tokenizer(tmp_path / "trained"), FIRST, SECOND)

    provenance = read_notes(tmp_path / "second")["provenance"]
    assert provenance["command"]["model"] == str(tmp_path / "trained")
    assert provenance["source"]["command"]["model"] == str(tmp_path / "english")
    assert provenance["source"]["inputs"]["model"] != provenance["inputs"]["model"]
    assert "source" not in provenance["source"]
    card = render_card(tmp_path / "second")
    assert "trained, with a new language (yy)" in card
    assert "trained was made by relexify from english for the language xx with the method blend." in card


def test_one_transfer_gives_a_model_two_languages_with_evidence_for_both(options, tmp_path):
    pairs = tuple(zip(ENGLISH * 2, FIRST + SECOND, strict=True))
    both = replace(
        options,
        output=tmp_path / "both",
        corpus=[tmp_path / "first.txt", tmp_path / "second.txt"],
        dictionary=BilingualLexicon(pairs),
        vocab_size=500,
    )
    result = run_transfer(both)
    for words in (FIRST, SECOND):
        assert_translated(result, load_tokenizer(options.model), ENGLISH, words)
