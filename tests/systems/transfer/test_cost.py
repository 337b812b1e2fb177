"""The estimate of a transfer, against what a transfer runs."""

from __future__ import annotations

import logging
import lzma
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from relexify.evidence.vectors import VectorTraining
from relexify.pretrained.loading import load_model, load_tokenizer, meta_model
from relexify.systems.transfer import cost as cost_module
from relexify.systems.transfer import run as run_module
from relexify.systems.transfer.assessment.sampled_text import sample_text
from relexify.systems.transfer.checks import prepare_transfer
from relexify.systems.transfer.cost import TransferCost, estimate_before_loading, estimate_transfer
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.systems.transfer.tokenizer.target import known_tokenizer
from tests import pico

SPEED = 1e6


@pytest.fixture
def options(tmp_path, cache, monkeypatch):
    pico.saved("gpt2", tmp_path / "model")
    (tmp_path / "target.txt").write_text("\n".join(pico.sentences(800, words=pico.foreign_words())))
    known = sorted({word for line in pico.sentences() for word in line.lower().split() if word.isalpha()})
    pairs = zip(known, pico.foreign_words(), strict=False)
    (tmp_path / "dictionary.tsv").write_text("".join(f"{word}\t{translation}\n" for word, translation in pairs))
    # So slow that the model of a test takes seconds.
    monkeypatch.setattr(cost_module, "FEW_OPERATIONS", 0)
    monkeypatch.setattr(cost_module, "matrix_peak", lambda dtype, device: SPEED / cost_module.USED_PEAK)
    return Transfer(
        model=str(tmp_path / "model"),
        output=tmp_path / "out",
        corpus=tmp_path / "target.txt",
        dictionary=tmp_path / "dictionary.tsv",
        vocab_size=300,
        vectors=VectorTraining(width=8, epochs=1, minimum_count=1),
        device="cpu",
    )


def estimated(options: Transfer) -> TransferCost:
    """The estimate that a run logs."""
    evidence = prepare_transfer(replace(options, overwrite=True))
    model, source = load_model(options.model), load_tokenizer(options.model)
    target, texts = known_tokenizer(options, source, evidence), sample_text(options, evidence, model, source)
    return estimate_transfer(options, evidence, model, source, target, texts)


def operations_of(options: Transfer) -> float:
    """The operations of all forward passes of a transfer: two per token for each weight of a matrix."""
    counted = 0

    def count(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        nonlocal counted
        weight = getattr(module, "weight", None)
        if weight is not None and weight.ndim == 2 and not isinstance(module, nn.Embedding):
            counted += 2 * weight.numel() * inputs[0][..., 0].numel()

    hook = nn.modules.module.register_module_forward_pre_hook(count)
    try:
        run_transfer(options)
    finally:
        hook.remove()
    return counted


@pytest.mark.parametrize("changes", [{"method": "fvt", "dictionary": None}, {}, {"score": False}])
def test_the_estimate_counts_the_forward_passes_that_a_transfer_runs(options, changes):
    options = replace(options, tokenizer=options.model, **changes)  # so that the number of tokens is known
    cost = estimated(options)
    expected = sum(seconds for name, seconds in cost.parts.items() if "frequencies" in name or name == "scores") * SPEED
    # Norms and positions, which are a large part of so small a model, are counted as matrices.
    assert operations_of(options) == pytest.approx(expected, rel=0.15)


def test_what_is_in_the_cache_is_not_counted(options):
    first = estimated(options)
    assert {"tokenizer", "word vectors"} <= set(first.parts)
    run_transfer(options)
    second = estimated(replace(options, output=options.output.with_name("second"), neighbours=3))
    assert not {"tokenizer", "word vectors"} & set(second.parts)
    assert second.parts["scores"] < 0.4 * first.parts["scores"], "the original model and two baselines were scored"
    assert second.parts["token frequencies for the result"] == pytest.approx(
        first.parts["token frequencies for the result and for baselines"] / 3
    )
    assert second.unscored == pytest.approx(second.seconds - second.parts["scores"])


def test_a_dry_run_does_not_count_what_is_in_the_cache(options, tmp_path):
    compressed = tmp_path / "text.txt.xz"
    compressed.write_bytes(lzma.compress(Path(str(options.corpus)).read_bytes()))
    options = replace(options, corpus=compressed)
    run_transfer(options)
    again = replace(options, output=options.output.with_name("second"), neighbours=3)
    assert estimate_before_loading(again, prepare_transfer(again), load_tokenizer(again.model)) == estimated(again)


def test_an_estimate_without_weights_is_that_with_them_and_an_empty_cache(options):
    evidence, source = prepare_transfer(options), load_tokenizer(options.model)
    planned = estimate_transfer(options, evidence, meta_model(options.model), source, None)
    assert planned == estimated(options)


def test_the_time_says_what_takes_it_and_how_to_save_it():
    cost = TransferCost(
        {"tokenizer": 6.4, "word vectors": 13.0, "token frequencies for the result": 70.3, "scores": 111.0}, 90.0
    )
    assert cost.describe() == (
        "about 3 min 20 s on this machine (scores 1 min 50 s, token frequencies for the result 1 min 10 s); "
        "without scores (`score=false`) 1 min 30 s"
    )
    assert "score" not in TransferCost({"tokenizer": 61.0}, 61.0).describe()
    unknown = TransferCost({"tokenizer": 61.0}, 61.0, is_complete=False).describe()
    assert unknown.endswith("(tokenizer 1 min), and more for what the method itself computes")


def test_a_method_that_computes_for_long_says_that_it_is_not_counted(options):
    assert estimated(options).is_complete
    assert not estimated(replace(options, method="token-distillation")).is_complete


def test_a_given_tokenizer_takes_no_time_whatever_the_format_of_the_text(options, tmp_path):
    compressed = tmp_path / "text.txt.xz"
    compressed.write_bytes(lzma.compress(Path(str(options.corpus)).read_bytes()))
    given = replace(options, corpus=compressed, tokenizer=options.model)
    planned = estimate_before_loading(given, prepare_transfer(given), load_tokenizer(given.model))
    assert "tokenizer" not in planned.parts


@pytest.mark.parametrize("longest", [0, 1e9])
def test_only_the_time_of_a_long_transfer_is_announced(options, longest, monkeypatch, caplog):
    monkeypatch.setattr(run_module, "_ANNOUNCED_FROM", longest)
    with caplog.at_level(logging.INFO, "relexify"):
        run_transfer(replace(options, score=False))
    assert ("this transfer takes about" in caplog.text) == (longest == 0)
