"""A transfer that extends the vocabulary: rows, scores and checks of the source language."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from relexify.errors import InputError
from relexify.grafting import check
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.progress import report_to
from relexify.steps import ResultTable
from relexify.systems.transfer import prior
from relexify.systems.transfer.assessment import scores
from relexify.systems.transfer.assessment.summary import summarise_transfer
from relexify.systems.transfer.checks import prepare_transfer, validate_transfer
from relexify.systems.transfer.options import Transfer, with_method
from relexify.systems.transfer.prior import has_prior, prior_text
from relexify.systems.transfer.run import load_transfer, run_transfer
from tests import pico


@pytest.fixture
def options(tmp_path, cache):
    (tmp_path / "source.txt").write_text("\n".join(pico.sentences(400)))
    (tmp_path / "target.txt").write_text("\n".join(pico.sentences(400, words=pico.foreign_words())))
    return Transfer(
        model=str(tmp_path / "model"),
        output=tmp_path / "out",
        corpus=tmp_path / "target.txt",
        source_corpus=tmp_path / "source.txt",
        method="fvt",
        keep_source=True,
        added_tokens=50,
        unigram_prior=True,
        held_out_bytes=1_000,
    )


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_every_row_of_the_source_is_kept_and_its_text_scores_the_same(options, tmp_path, family):
    pico.saved(family, tmp_path / "model")
    tasks = []

    def record(description, total):
        tasks.append(description)
        return nullcontext(lambda amount, status="": None)

    with report_to(record):
        result = run_transfer(options)
    before, after = load_model(tmp_path / "model"), load_model(tmp_path / "out")
    tokens = len(load_tokenizer(tmp_path / "model"))
    for name, value in before.state_dict().items():
        found = after.state_dict()[name]
        assert name in result.graft.report.lexical or found.shape == value.shape
        assert torch.equal(found[: len(value)], value), name
    assert len(load_tokenizer(tmp_path / "out")) == tokens + 50
    found = result.start.extension
    assert (found.added, found.source_added) == (50, 0)
    assert found.source_tokens > 0
    scores = found.source_bits_per_byte
    assert scores["extended model, source tokens"] == scores["original model"]
    assert scores["extended model, all tokens"] > scores["original model"]
    for name in scores:
        assert sum(task.endswith(f"source language, {name}") for task in tasks) == 1
    assert found.tokens_per_byte[0][1] > found.tokens_per_byte[-1][1]
    assert not any(each.problems for each in check(tmp_path / "out"))
    assert "50 tokens" in (tmp_path / "out" / "README.md").read_text()
    report = (tmp_path / "out" / "report.html").read_text()
    assert "tokens per byte" in report
    assert f"--source-corpus</span> {options.source_corpus}" in report  # of the training that follows
    loaded = load_transfer(tmp_path / "out")
    assert loaded.start.extension.source_bits_per_byte == scores
    shown = summarise_transfer(loaded)
    assert "Length of the text" in [part.title for part in shown if isinstance(part, ResultTable)]
    assert any("the same as before" in part for part in shown if isinstance(part, str))


def test_a_transfer_that_is_run_again_repeats_neither_its_prior_nor_its_scores(options, tmp_path, monkeypatch):
    pico.saved("gpt2", tmp_path / "model")
    first = run_transfer(options)
    monkeypatch.setattr(prior, "find_unigram_prior", None)
    measured = []
    count = scores.bits_per_byte
    monkeypatch.setattr(scores, "bits_per_byte", lambda *args, **own: measured.append(args) or count(*args, **own))
    again = run_transfer(replace(options, output=tmp_path / "again"))
    assert not measured
    assert again.start == first.start
    for name, value in load_model(tmp_path / "out").state_dict().items():
        assert torch.equal(value, load_model(tmp_path / "again").state_dict()[name]), name


def test_rows_that_are_the_same_in_the_source_model_are_no_fault_of_the_extended_one(options, tmp_path):
    model, tokenizer = pico.pair("gpt2")
    tokenizer.save_pretrained(tmp_path / "model")
    rows = model.get_input_embeddings().weight.data
    rows[tokenizer.eos_token_id] = rows[21]
    model.save_pretrained(tmp_path / "model")
    run_transfer(replace(options, score=False))
    assert not any(each.problems for each in check(tmp_path / "out"))


def test_an_extended_model_gets_the_prior_that_its_method_has(options):
    assert has_prior(options)
    assert has_prior(replace(options, unigram_prior=None, method="blend"))
    assert not has_prior(replace(options, unigram_prior=None, method="fvt"))


def test_the_prior_of_an_extended_model_is_that_of_both_texts(options, tmp_path):
    pico.saved("gpt2", tmp_path / "model")
    evidence = prepare_transfer(options)
    text = prior_text(options, load_model(options.model), evidence)
    assert text.target == list(evidence.corpus)[: len(text.target)]
    assert text.source == list(evidence.source_corpus)[: len(text.source)]
    assert prior_text(replace(options, keep_source=False), load_model(options.model), evidence).source is None


def test_methods_of_a_comparison_keep_the_text_of_the_source(options):
    assert with_method(options, "random").source_corpus is not None
    assert with_method(replace(options, keep_source=False), "random").source_corpus is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_corpus": None}, "source_corpus"),
        ({"tokenizer": "gpt2"}, "tokenizer"),
        ({"method": "fullrand"}, "fullrand"),
        ({"added_tokens": 0}, "added_tokens"),
    ],
)
def test_options_that_contradict_an_extension_are_rejected(options, changes, message):
    with pytest.raises(InputError, match=message):
        validate_transfer(replace(options, **changes))
