"""Which tokenizer a transfer uses: everything that names it before the work agrees with the result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.evidence.vectors import VectorTraining
from relexify.systems.transfer.checks import check_transfer, prepare_transfer
from relexify.systems.transfer.dry_run import planned_transfer
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.systems.transfer.tokenizer.choice import TokenizerChoice, choose_tokenizer
from tests import pico

SIZE = 280
"""Tokens to train, fewer than those of the donor."""


@pytest.fixture
def options(tmp_path, cache):
    pico.saved("gpt2", tmp_path / "model")
    (tmp_path / "target.txt").write_text("\n".join(pico.sentences(400, words=pico.foreign_words())))
    return Transfer(
        model=str(tmp_path / "model"),
        output=tmp_path / "out",
        corpus=tmp_path / "target.txt",
        vocab_size=SIZE,
        vectors=VectorTraining(width=8, epochs=1, minimum_count=1),
        score=False,
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, TokenizerChoice("like source")),
        ({"donor": "other"}, TokenizerChoice("like source")),  # which the method does not use
        ({"donor": "other", "method": "clp"}, TokenizerChoice("donor", "other")),
        ({"donor": "other", "method": "clp", "tokenizer": "ready"}, TokenizerChoice("given", "ready")),
        ({"donor": "other", "method": "trelm"}, TokenizerChoice("method")),
        ({"donor": "other", "keep_source": True}, TokenizerChoice("extended")),
    ],
)
def test_the_first_of_extended_given_donor_and_trained_is_used(changes, expected):
    options = Transfer("gpt2", "out", "text.txt")
    assert choose_tokenizer(replace(options, **changes)) == expected


@pytest.mark.parametrize("method", ["blend", "clp"])
def test_a_dry_run_announces_the_tokenizer_of_a_donor_only_if_the_method_takes_one(options, method):
    options = replace(options, method=method, donor=options.model)
    plan = dict(planned_transfer(options, prepare_transfer(options)))
    tokens = run_transfer(options).graft.report.tokens
    if method == "blend":
        assert (plan["tokenizer"], tokens) == (f"trained, {SIZE} tokens, or fewer if there is little text", SIZE)
    else:
        assert plan["tokenizer"] == f"the tokenizer of {options.donor}, {tokens} tokens"
        assert tokens > SIZE


@pytest.mark.parametrize(("method", "has_effect"), [("blend", True), ("clp", False)])
def test_a_vocabulary_size_beside_a_donor_is_reported_only_if_it_has_no_effect(options, method, has_effect, caplog):
    check_transfer(replace(options, method=method, donor=options.model, vocab_size=4_000))
    assert ("`vocab_size` has no effect, because `donor`" in caplog.text) != has_effect
    assert ("many of them will occur fewer than five times" in caplog.text) == has_effect
