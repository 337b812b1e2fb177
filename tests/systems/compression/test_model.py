"""Compressed models of every family: saved, loaded, expanded, counted."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AutoConfig,
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    RobertaConfig,
    RobertaForMaskedLM,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
)

from relexify.errors import GraftError, InputError
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.grafting import graft
from relexify.grafting.swap import load_lexicon
from relexify.methods.baselines import random
from relexify.pretrained.loading import load_model, task_class
from relexify.pretrained.parameters.fresh import fresh_twin
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.systems.compression.compress import compressed
from relexify.systems.compression.embedding import SubEmbedding
from relexify.systems.compression.folder import compress_folder
from relexify.systems.compression.model import Layout, compressed_class, expanded, is_compressed
from relexify.systems.compression.options import Compression
from relexify.training.engine.freezing import trained_names
from tests import pico

COUNTED = Compression(k=3, codes="digits")
MEDIUM = {
    "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "intermediate_size": 2048,
    "max_position_embeddings": 514, "type_vocab_size": 1,
}  # fmt: skip
"""The size of the models of the paper."""


def albert(tokenizer):
    config = AlbertConfig(**pico.SMALL, vocab_size=len(tokenizer), embedding_size=16, max_position_embeddings=64)
    return AlbertForMaskedLM(config)


def pair(family):
    if family != "albert":
        return pico.pair(family)
    tokenizer = pico.wordpiece()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return albert(tokenizer).eval(), tokenizer


def logits(model):
    ids = torch.arange(5, 17)[None]
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {})
    with torch.no_grad():
        return model.eval()(**inputs).logits


@pytest.mark.parametrize("family", [*pico.FAMILIES, "albert"])
def test_a_compressed_model_is_saved_loaded_and_expanded_with_the_same_logits(family, tmp_path):
    model, _ = pair(family)
    small, report = compressed(model, COUNTED)
    before = logits(small)
    small.save_pretrained(tmp_path / "small")
    loaded = load_model(tmp_path / "small")
    assert is_compressed(loaded)
    assert torch.equal(logits(loaded), before)
    assert loaded.config.architectures == [type(model).__name__]
    assert sum(each.numel() for each in loaded.parameters()) == report.model_after
    expanded(loaded).save_pretrained(tmp_path / "plain")
    plain = type(model).from_pretrained(tmp_path / "plain")  # transformers alone
    assert not is_compressed(plain)
    assert torch.allclose(logits(plain), before, atol=1e-5)
    assert {name: each.shape for name, each in plain.named_parameters()} == {
        name: each.shape for name, each in model.named_parameters()
    }


@pytest.mark.parametrize("make", [fresh_twin, lambda model: expanded(compressed(model, Compression(k=2))[0])])
def test_rotary_frequencies_stay_in_float32_where_parameters_are_in_bfloat16(make, tmp_path):
    pico.pair("llama tied")[0].to(torch.bfloat16).save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert model.dtype == torch.bfloat16
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32, "from_pretrained changed"
    made = make(model)
    assert made.dtype == torch.bfloat16
    assert made.model.rotary_emb.inv_freq.dtype == torch.float32


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama untied", "albert"])
def test_everything_but_the_embedding_stays_bit_equal(family):
    model, _ = pair(family)
    small, _ = compressed(model, COUNTED)
    kept, found = model.state_dict(), small.state_dict()
    same = [name for name in kept if name in found]
    assert all(torch.equal(kept[name], found[name]) for name in same)
    gone = set(kept) - set(found)
    assert all("weight" in name for name in gone)
    assert len(gone) == (1 if family == "llama untied" else 2)


def test_with_a_row_for_every_token_nothing_is_lost():
    model, _ = pico.pair("gpt2")
    small, report = compressed(model, Compression(k=1, codes="digits"))
    assert report.error == 0.0
    assert torch.allclose(logits(small), logits(model), atol=1e-5)


def test_clustered_tables_keep_more_than_counted_ones_and_both_are_reported():
    model, _ = pico.pair("gpt2")
    with torch.no_grad():
        groups = torch.randn(20, 32)[torch.randperm(400) % 20]
        model.get_input_embeddings().weight.copy_(groups + 0.1 * torch.randn(400, 32))
    reports = [
        compressed(model, options)[1]
        for options in (Compression(k=2, clusters=20, equal_size=True), Compression(k=2, clusters=20, codes="digits"))
    ]
    assert reports[0].error < 0.8 * reports[1].error
    assert reports[0].shared_nearest > 2 * reports[0].shared_random


def test_an_untied_head_is_kept_and_reported_or_compressed_if_requested(caplog):
    model, _ = pico.pair("llama untied")
    with caplog.at_level(logging.INFO, logger="relexify"):
        kept, report = compressed(model, COUNTED)
    assert "is not tied" in caplog.text
    assert torch.equal(kept.get_output_embeddings().weight, model.get_output_embeddings().weight)
    assert report.head == "plain"
    both, report = compressed(model, Compression(k=3, codes="digits", head="compress"))
    assert report.head == "own"
    assert report.embedding_before == 2 * 500 * 32
    assert report.embedding_after == 2 * 8 * 32
    assert not torch.equal(both.get_output_embeddings().weight, both.get_input_embeddings().weight)


def test_random_tables_are_drawn_as_the_model_draws_its_embedding_and_repeat_with_the_seed():
    config = RobertaConfig(
        vocab_size=30_000, hidden_size=128, num_hidden_layers=1, num_attention_heads=2, initializer_range=0.07
    )
    model = RobertaForMaskedLM(config)
    first, second, other = (
        compressed(model, Compression(k=2, codes="digits", init="random", seed=seed))[0].get_input_embeddings()
        for seed in (1, 1, 2)
    )
    assert torch.equal(first.weight, second.weight)
    assert not torch.equal(first.weight, other.weight)
    assert abs(first.tables[0].std().item() - 0.07) < 0.005


@pytest.mark.parametrize(
    ("make", "config", "tokens", "k", "embedding", "whole"),
    [
        (RobertaForMaskedLM, RobertaConfig, 50_265, 1, 25.7e6, 51e6),
        (RobertaForMaskedLM, RobertaConfig, 50_265, 2, 115_200, 26e6),
        (RobertaForMaskedLM, RobertaConfig, 50_265, 3, 18_944, 26e6),
        (RobertaForMaskedLM, RobertaConfig, 50_265, 8, 2_048, 26e6),
        (XLMRobertaForMaskedLM, XLMRobertaConfig, 250_002, 3, 32_256, 26e6),
    ],
)
def test_the_models_of_table_1_have_its_parameters(make, config, tokens, k, embedding, whole):
    shape = config(**MEDIUM, vocab_size=tokens)
    base = round(tokens ** (1 / k)) + 1 if k > 1 else tokens
    while (base - 1) ** k >= tokens:
        base -= 1
    if k > 1:
        shape.sub_embedding = Layout([base] * k, "tied").as_entry()
        make = compressed_class(make)
    with torch.device("meta"):
        model = make(shape)
    found = model.get_input_embeddings()
    size = sum(each.numel() for each in found.parameters())
    assert size == embedding if k > 1 else abs(size - embedding) < 0.05e6
    total = sum(each.numel() for each in model.parameters())
    # The output bias has one number a token, which the paper seems to leave out.
    assert abs(total - tokens - whole) < 0.6e6


def test_xlm_r_medium_without_sub_embeddings_has_154_million():
    with torch.device("meta"):
        model = XLMRobertaForMaskedLM(XLMRobertaConfig(**MEDIUM, vocab_size=250_002))
    assert abs(sum(each.numel() for each in model.parameters()) - 154e6) < 0.6e6


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama untied"])
def test_the_stage_that_trains_embeddings_trains_the_tables_and_the_head(family):
    small, _ = compressed(pico.pair(family)[0], COUNTED)
    chosen = trained_names(small, "embeddings")
    assert chosen == small.lexical_parameter_names()
    assert sum("tables" in name for name in chosen) == 3
    assert ("lm_head.weight" in chosen) == (family == "llama untied")
    assert ("cls.predictions.bias" in chosen) == (family == "bert")
    assert not chosen & trained_names(small, "inner")


def test_a_fresh_twin_keeps_the_codes_and_not_the_tables():
    small, _ = compressed(pico.pair("gpt2")[0], Compression(k=2, clusters=25, equal_size=True))
    twin = fresh_twin(small, seed=3)
    assert torch.equal(twin.get_input_embeddings().codes, small.get_input_embeddings().codes)
    assert not torch.equal(twin.get_input_embeddings().weight, small.get_input_embeddings().weight)


def test_a_compressed_model_cannot_be_grafted_and_the_message_says_what_to_do():
    model, tokenizer = pico.pair("gpt2")
    small, _ = compressed(model, COUNTED)
    for attempt in (
        lambda: graft(small, tokenizer, random(tokenizer, tokenizer)),
        lambda: lexical_axes(small),
        lambda: lexical_axes(small.base_model),
    ):
        with pytest.raises(GraftError, match="expand it first"):
            attempt()
    with pytest.raises(NotImplementedError, match="expand"):
        small.resize_token_embeddings(500)
    with pytest.raises(GraftError, match="already compressed"):
        compressed(small, COUNTED)
    with pytest.raises(GraftError, match="nothing to expand"):
        expanded(model)


@pytest.mark.parametrize("auto_class", [AutoModelForSequenceClassification, AutoModelForMultipleChoice])
def test_a_classifier_uses_the_encoder_of_a_compressed_model(tmp_path, auto_class):
    model, _ = pico.pair("roberta")
    small, _ = compressed(model, COUNTED)
    small.save_pretrained(tmp_path)
    loader = task_class(auto_class, AutoConfig.from_pretrained(tmp_path))
    classifier = loader.from_pretrained(tmp_path, num_labels=3)
    assert isinstance(classifier.get_input_embeddings(), SubEmbedding)
    assert torch.equal(classifier.get_input_embeddings().weight, small.get_input_embeddings().weight)
    assert torch.equal(classifier.get_input_embeddings().codes, small.get_input_embeddings().codes)


def test_a_parser_on_a_compressed_model_survives_saving(tmp_path):
    model, tokenizer = pico.pair("bert")
    small, _ = compressed(model, COUNTED)
    parser = BiaffineParser.on_top_of(small, ["root", "nsubj"])
    assert torch.equal(parser.get_input_embeddings().weight, small.get_input_embeddings().weight)
    parser.save_pretrained(tmp_path / "parser")
    again = BiaffineParser.from_pretrained(tmp_path / "parser")
    assert torch.equal(again.get_input_embeddings().weight, parser.get_input_embeddings().weight)
    small.save_pretrained(tmp_path / "small")
    tokenizer.save_pretrained(tmp_path / "small")
    with pytest.raises(GraftError, match="expand it first"):
        load_lexicon(tmp_path / "small")


def test_codes_can_come_from_another_model_of_the_same_vocabulary():
    model, _ = pico.pair("gpt2")
    rows = np.repeat(np.random.default_rng(0).normal(size=(20, 8)), 20, axis=0)
    small, report = compressed(model, Compression(k=2, clusters=20, equal_size=True, init="random"), pretrained=rows)
    first = small.get_input_embeddings().codes[:, 0].reshape(20, 20)
    assert (first == first[:, :1]).float().mean() > 0.8
    assert report.error is None
    with pytest.raises(InputError, match="give a model with the same vocabulary"):
        compressed(model, COUNTED, pretrained=rows[:-1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Compression(k=0), "split into 0 tables"),
        (Compression(k=33), "split into 33 tables"),
        (Compression(k=2, clusters=19, codes="digits"), "361 codes, too few for 400 tokens: give each table at"),
        (Compression(k=2, clusters=19, equal_size=True), "give each table at least 20 rows"),
        (Compression(k=2, clusters=401), "401 rows per table"),
        (Compression(codes="digits", equal_size=True), "leave out one"),
        (Compression(codes="random", equal_size=True), "random codes have no clusters"),
        (Compression(codes="random", codes_from="gpt2"), "random codes do not use a model"),
        (Compression(codes="drawn"), "`codes=drawn` is not possible: choose one of clustered, digits, random"),
        (Compression(seed=-1), "`seed=-1"),
        (Compression(init="zeros"), "`init=zeros` is not possible: choose least-squares or random"),
    ],
)
def test_impossible_options_are_rejected_with_a_way_out(options, words):
    with pytest.raises(InputError, match=words):
        compressed(pico.pair("gpt2")[0], options)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(399), r"float64 \[399\]: expected a number for each token \[400\]"),
        (np.array(["a"] * 400), "expected a number for each token"),
        (np.where(np.arange(400) == 7, np.nan, 1.0), "the weight of token 7 is nan"),
        (np.where(np.arange(400) == 8, -1.0, 1.0), "the weight of token 8 is -1.0"),
    ],
)
def test_invalid_weights_are_rejected(weights, words):
    with pytest.raises(InputError, match=words):
        compressed(pico.pair("gpt2")[0], COUNTED, weights=weights)


def test_random_codes_are_drawn_with_the_seed_and_keep_less_than_clusters():
    model, _ = pico.pair("gpt2")
    drawn = Compression(k=2, clusters=40, codes="random")
    (small, report), (again, _) = compressed(model, drawn), compressed(model, drawn)
    assert torch.equal(small.get_input_embeddings().codes, again.get_input_embeddings().codes)
    assert small.get_input_embeddings().rows == [40, 40]
    assert compressed(model, Compression(k=2, clusters=40, equal_size=True))[1].error < report.error < 1


def test_clusters_are_found_once_and_damaged_ones_again(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("RELEXIFY_CACHE", str(cache))
    model, tokenizer = pico.pair("gpt2")
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")

    def codes_with(**options) -> np.ndarray:
        compress_folder(tmp_path / "model", tmp_path / "small", Compression(k=2, **options), overwrite=True)
        return load_model(tmp_path / "small").get_input_embeddings().codes.numpy()

    codes_with(codes="digits")
    assert not (cache / "codes").exists()
    first = codes_with(clusters=25)
    (entry,) = (cache / "codes").iterdir()
    written = (entry / "codes.safetensors").stat().st_mtime_ns
    assert np.array_equal(codes_with(clusters=25, init="random"), first)
    assert (entry / "codes.safetensors").stat().st_mtime_ns == written
    (entry / "codes.safetensors").write_bytes(b"damaged")
    assert np.array_equal(codes_with(clusters=25), first)
    assert not np.array_equal(codes_with(clusters=25, equal_size=True), first)
    assert len(list((cache / "codes").iterdir())) == 2


EXTREME = [
    Compression(k=2),
    Compression(k=2, equal_size=True),
    Compression(k=3, matched=False),
    COUNTED,
    Compression(rank=4),
]


@pytest.mark.parametrize("options", [replace(options, head="compress") for options in EXTREME])
@pytest.mark.parametrize("exponent", [-100, -60, 60, 120])
def test_an_embedding_of_huge_or_tiny_numbers_is_compressed_like_any_other(options, exponent):
    model, _ = pico.pair("llama untied")
    layers = (model.get_input_embeddings(), model.get_output_embeddings())
    expected, before = compressed(model, options)
    factor = 2.0**exponent
    with torch.no_grad():
        for layer in layers:
            layer.weight *= factor
    found, after = compressed(model, options)
    assert after.error == pytest.approx(before.error, rel=1e-3)
    assert after.shared_nearest == before.shared_nearest
    for name, weight in expanded(expected).state_dict().items():
        if name in ("model.embed_tokens.weight", "lm_head.weight"):
            scaled = expanded(found).state_dict()[name].double() / factor
            torch.testing.assert_close(scaled, weight.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", EXTREME)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_embedding_with_nan_is_not_compressed(options, value):
    model, _ = pico.pair("gpt2")
    with torch.no_grad():
        model.get_input_embeddings().weight[3, 3] = value
    with pytest.raises(GraftError, match="the embedding has NaN or infinite values"):
        compressed(model, options)


def test_factors_that_overflow_are_not_stored():
    model, _ = pico.pair("gpt2")
    weight = model.half().get_input_embeddings().weight
    with torch.no_grad():
        weight.copy_(torch.where(weight > 0, 65_504, -65_504))
    with pytest.raises(GraftError, match="overflows"):
        compressed(model, Compression(rank=4))
