"""Grafting, proved on a tiny real model of every family."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer

from relexify.errors import GraftError, OutputError, VocabularyError
from relexify.grafting import Graft, graft
from relexify.methods.baselines import mean_resizing, random, shuffle
from relexify.methods.fvt import fvt
from relexify.methods.parts.copying import shared
from relexify.methods.ramen import ramen_random
from relexify.mixture import Fallback, Mixture, Origin, empty_mixture
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.scoring import bits_per_byte
from relexify.tokens import train_tokenizer_like, vocabulary_of
from tests import pico

families = pytest.mark.parametrize("family", list(pico.FAMILIES))
AUTO = {"decoder": AutoModelForCausalLM, "encoder": AutoModelForMaskedLM, "encoder-decoder": AutoModelForSeq2SeqLM}


def logits(model, ids):
    inputs = {"input_ids": torch.tensor([ids])}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"]
    with torch.no_grad():
        return model(**inputs).logits[0]


def target_tokenizer(tokenizer, size=350):
    lines = pico.sentences(words=pico.foreign_words(), seed=3)
    return train_tokenizer_like(tokenizer, lambda: lines, size)


def inner(model):
    lexical = lexical_axes(model)
    return {name: value for name, value in model.state_dict().items() if name not in lexical}


@families
def test_same_tokenizer_on_both_sides_gives_bit_equal_logits(family):
    model, tokenizer = pico.pair(family)
    grafted = graft(model, tokenizer, fvt(tokenizer, tokenizer)).model
    ids = tokenizer("the old river, 12.", add_special_tokens=False).input_ids
    assert torch.equal(logits(model, ids), logits(grafted, ids))


@families
def test_half_precision_copies_are_bit_equal(family):
    model, tokenizer = pico.pair(family)
    model = model.to(torch.bfloat16)
    grafted = graft(model, tokenizer, fvt(tokenizer, tokenizer)).model
    assert grafted.dtype == torch.bfloat16
    assert torch.equal(model.get_input_embeddings().weight, grafted.get_input_embeddings().weight)


@pytest.mark.parametrize("family", ["gpt2", "llama tied", "bert", "roberta"])
def test_shuffled_vocabulary_gives_the_exact_permutation(family):
    model, tokenizer = pico.pair(family)
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    fixed = {token["id"] for token in backend["added_tokens"]}
    movable = [id for id in range(len(tokenizer)) if id not in fixed]
    moved = np.random.default_rng(0).permutation(movable)
    moved_id = dict(zip(movable, moved.tolist(), strict=True))
    backend["model"]["vocab"] = {token: moved_id.get(id, id) for token, id in backend["model"]["vocab"].items()}
    shuffled = copy.deepcopy(tokenizer)
    shuffled._tokenizer = Tokenizer.from_str(json.dumps(backend))
    grafted = graft(model, shuffled, fvt(tokenizer, shuffled)).model
    permutation = torch.tensor([moved_id.get(id, id) for id in range(len(tokenizer))])
    source, target = model.get_input_embeddings().weight, grafted.get_input_embeddings().weight
    assert torch.equal(source, target[permutation])
    ids = tokenizer("a quiet morning in 1999.", add_special_tokens=False).input_ids
    changed = [int(permutation[id]) for id in ids]
    assert torch.allclose(logits(model, ids), logits(grafted, changed)[:, permutation], atol=1e-6)


@families
def test_every_inner_parameter_stays_bit_equal_in_a_new_language(family):
    model, tokenizer = pico.pair(family)
    target = target_tokenizer(tokenizer)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = graft(model, target, fvt(tokenizer, target))
    after = inner(result.model)
    assert after
    assert all(torch.equal(before[name], value) for name, value in after.items())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items()), "the source changed"


@families
def test_lexical_rows_equal_the_mixture_times_the_old_rows(family):
    model, tokenizer = pico.pair(family)
    target = target_tokenizer(tokenizer)
    mixture = fvt(tokenizer, target)
    result = graft(model, target, mixture).model
    dense, known = mixture.weights.toarray(), mixture.known
    before, after = model.state_dict(), result.state_dict()
    for name, axis in lexical_axes(model).items():
        source_rows = before[name].movedim(axis, 0).flatten(1) if before[name].ndim > 1 else before[name][:, None]
        target_rows = after[name].movedim(axis, 0).flatten(1) if after[name].ndim > 1 else after[name][:, None]
        expected = dense[known] @ source_rows.numpy()[: dense.shape[1]]
        assert np.allclose(expected, target_rows.numpy()[: len(mixture)][known], atol=1e-6), name


@families
def test_saved_folder_loads_with_auto_classes_and_gives_the_same_logits(family, tmp_path):
    model, tokenizer = pico.pair(family)
    target = target_tokenizer(tokenizer)
    result = graft(model, target, fvt(tokenizer, target))
    result.save(tmp_path / "out")
    loaded = AUTO[architecture_of(model)].from_pretrained(tmp_path / "out").eval()
    reloaded = AutoTokenizer.from_pretrained(tmp_path / "out")
    text = pico.sentences(words=pico.foreign_words(), seed=9)[0]
    assert reloaded(text).input_ids == target(text).input_ids
    ids = target(text).input_ids[:40]
    assert torch.equal(logits(result.model, ids), logits(loaded, ids))
    assert Mixture.load(tmp_path / "out" / "mixture.safetensors").weights.nnz == result.mixture.weights.nnz


@families
def test_config_and_generation_config_point_at_the_new_special_tokens(family):
    model, tokenizer = pico.pair(family)
    target = target_tokenizer(tokenizer)
    grafted = graft(model, target, fvt(tokenizer, target)).model
    for holder in filter(None, (grafted.config, getattr(grafted, "generation_config", None))):
        for role in ("bos", "eos", "pad"):
            if (
                getattr(target, f"{role}_token_id") is not None
                and getattr(holder, f"{role}_token_id", None) is not None
            ):
                assert getattr(holder, f"{role}_token_id") == getattr(target, f"{role}_token_id")
    assert grafted.config.vocab_size == len(target)
    if grafted.config.is_encoder_decoder:
        source = tokenizer.convert_ids_to_tokens(model.config.decoder_start_token_id)
        assert target.convert_ids_to_tokens(grafted.config.decoder_start_token_id) == source


@families
def test_grafted_model_can_be_scored_and_trained_on(family):
    model, tokenizer = pico.pair(family)
    target = target_tokenizer(tokenizer)
    grafted = graft(model, target, fvt(tokenizer, target)).model
    text = "\n".join(pico.sentences(12, words=pico.foreign_words(), seed=5))
    score = bits_per_byte(grafted, target, text, window=32)
    assert 0 < score.value < 40
    assert score.examples > 0


def test_padding_rounds_the_rows_up_and_leaves_none_of_them_empty():
    model, tokenizer = pico.pair("llama untied")
    target = target_tokenizer(tokenizer, size=333)
    result = graft(model, target, fvt(tokenizer, target), pad_to_multiple_of=64)
    assert result.model.get_input_embeddings().weight.shape[0] == result.report.rows == 384
    assert not (result.model.get_input_embeddings().weight[len(target) :] == 0).all(dim=1).any()


def test_unknown_rows_follow_the_mean_and_variance_of_the_old_rows():
    model, tokenizer = pico.pair("gpt2")
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(3).add_(torch.arange(pico.WIDTH))
    target = target_tokenizer(tokenizer)
    empty = replace(random(tokenizer, target), fallback=Fallback.SOURCE_ROWS)
    rows_after = graft(model, target, empty).model.get_input_embeddings().weight
    source = model.get_input_embeddings().weight
    assert torch.allclose(rows_after.mean(0), source.mean(0), atol=0.03)
    assert torch.allclose(rows_after.std(0), source.std(0), rtol=0.3)


@pytest.mark.parametrize("family", ["gpt2", "llama untied", "bert", "bart"])
def test_the_random_baseline_begins_as_an_untrained_model_does(family):
    model, tokenizer = pico.pair(family)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(30)
    target = target_tokenizer(tokenizer, size=800)
    grafted = graft(model, target, random(tokenizer, target)).model
    spread = getattr(model.config, "initializer_range", None) or model.config.init_std
    for layer in (grafted.get_input_embeddings(), grafted.get_output_embeddings()):
        assert layer.weight.std().item() == pytest.approx(spread, rel=0.05)
        assert abs(layer.weight.mean().item()) < spread / 10
    bias = getattr(grafted.get_output_embeddings(), "bias", None)
    assert bias is None or not bias.any()


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path):
    model, tokenizer = pico.pair("gpt2")
    target = target_tokenizer(tokenizer)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        graft(model, target, random(tokenizer, target), seed=seed).save(tmp_path / name)
    read = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in "abc"}
    assert read["a"] == read["b"] != read["c"]
    mixtures = {name: (tmp_path / name / "mixture.safetensors").read_bytes() for name in "ab"}
    assert mixtures["a"] == mixtures["b"]


def test_shuffle_copies_a_random_row_for_every_token():
    model, tokenizer = pico.pair("gpt2")
    target = target_tokenizer(tokenizer)
    mixture = shuffle(tokenizer, target, seed=0)
    assert np.all(np.diff(mixture.weights.indptr) == 1)
    rows_after = graft(model, target, mixture).model.get_input_embeddings().weight
    rows = {tuple(row.tolist()) for row in model.get_input_embeddings().weight}
    assert all(tuple(row.tolist()) in rows for row in rows_after)


def test_an_existing_folder_is_replaced_only_with_overwrite(tmp_path):
    model, tokenizer = pico.pair("gpt2")
    result = graft(model, tokenizer, fvt(tokenizer, tokenizer))
    result.save(tmp_path / "out")
    with pytest.raises(OutputError, match="exists already"):
        result.save(tmp_path / "out")
    result.save(tmp_path / "out", overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_mixture_for_another_tokenizer_is_rejected():
    model, tokenizer = pico.pair("gpt2")
    target = target_tokenizer(tokenizer)
    with pytest.raises(VocabularyError, match="the tokenizer has"):
        graft(model, tokenizer, fvt(tokenizer, target))


def test_a_mixture_with_more_source_tokens_than_the_model_has_rows_is_rejected():
    model, tokenizer = pico.pair("gpt2")
    larger = pico.byte_level(size=420)
    assert len(larger) > len(tokenizer)
    with pytest.raises(VocabularyError, match="rows"):
        graft(model, tokenizer, fvt(larger, tokenizer))


def test_weights_that_are_not_finite_are_rejected():
    model, tokenizer = pico.pair("gpt2")
    with torch.no_grad():
        model.get_input_embeddings().weight[5, 0] = float("nan")
    with pytest.raises(GraftError, match="NaN or infinite"):
        graft(model, tokenizer, fvt(tokenizer, tokenizer))


def test_a_zero_row_of_the_source_is_copied_without_complaint():
    model, tokenizer = pico.pair("gpt2")
    with torch.no_grad():
        model.get_input_embeddings().weight[300] = 0
    grafted = graft(model, tokenizer, fvt(tokenizer, tokenizer)).model
    assert not grafted.get_input_embeddings().weight[300].any()


def test_grafting_leaves_the_callers_random_state_alone():
    model, tokenizer = pico.pair("llama untied")
    target = target_tokenizer(tokenizer, size=600)
    state = torch.random.get_rng_state()
    graft(model, target, fvt(tokenizer, target))
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_model_that_forgets_a_parameter_when_it_resizes_is_rejected():
    from transformers import EsmConfig, EsmForMaskedLM

    tokenizer = pico.roberta_tokenizer()
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    model = EsmForMaskedLM(EsmConfig(vocab_size=len(tokenizer), mask_token_id=4, pad_token_id=1, **sizes))
    with pytest.raises(GraftError, match="does not resize"):
        graft(model, tokenizer, fvt(tokenizer, tokenizer))


def test_a_headless_model_is_grafted_and_known_as_such():
    from transformers import BartModel

    model, tokenizer = pico.pair("bart")
    body = BartModel(model.config)
    assert architecture_of(body) == "headless"
    target = target_tokenizer(tokenizer)
    assert graft(body, target, fvt(tokenizer, target)).report.lexical


def test_a_moved_padding_id_is_rejected_where_positions_depend_on_it():
    model, tokenizer = pico.pair("roberta")
    other = pico.byte_level(size=350, pad_token="<pad>", bos_token="<s>", eos_token="</s>", mask_token="<mask>")
    with pytest.raises(GraftError, match="counts positions from its padding id 1"):
        graft(model, other, fvt(tokenizer, other))


def test_the_report_counts_every_token_once():
    model, tokenizer = pico.pair("bert")
    target = target_tokenizer(tokenizer)
    result = graft(model, target, shared(tokenizer, target))
    assert isinstance(result, Graft)
    assert sum(result.report.origins.values()) == len(vocabulary_of(target))
    assert result.report.origins["none"] == int((result.mixture.origin == Origin.NONE).sum()) > 0


@families
def test_the_mean_fallback_puts_the_mean_of_the_source_rows_into_every_row_of_every_lexical_parameter(family):
    model, tokenizer = pico.pair(family)
    target = target_tokenizer(tokenizer)
    source = vocabulary_of(tokenizer)
    empty = empty_mixture(source, vocabulary_of(target), method="mean", fallback=Fallback.MEAN)
    grafted = graft(model, target, empty, pad_to_multiple_of=64).model
    for name, axis in lexical_axes(model).items():
        rows = model.state_dict()[name].movedim(axis, 0)[: len(source)]
        values = grafted.state_dict()[name].movedim(axis, 0)
        assert torch.allclose(values, rows.mean(0).expand_as(values), atol=1e-6), name


@families
def test_a_narrow_fallback_has_the_deviation_of_one_over_the_width_in_every_lexical_parameter(family):
    model, tokenizer = pico.pair(family)
    target = target_tokenizer(tokenizer)
    grafted = graft(model, target, ramen_random(tokenizer, target), seed=1).model
    width = model.get_input_embeddings().weight.shape[1]
    for name, axis in lexical_axes(model).items():
        values = grafted.state_dict()[name]
        assert abs(values.std() * width - 1) < 0.15, f"{name} {list(values.shape)} along {axis}"
        assert abs(values.mean() * width) < 0.2, name


def test_a_mixture_for_another_tokenizer_of_the_same_size_is_rejected():
    model, tokenizer = pico.pair("gpt2")
    mixture = fvt(tokenizer, tokenizer)
    tokens = list(mixture.target_tokens)
    tokens[7], tokens[9] = tokens[9], tokens[7]
    with pytest.raises(VocabularyError, match=r"other target tokens \(2 of .* 7: "):
        graft(model, tokenizer, replace(mixture, target_tokens=tuple(tokens)))


@families
def test_inner_parameters_are_shared_only_on_request(family):
    model, tokenizer = pico.pair(family)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    shared_inner = graft(model, tokenizer, fvt(tokenizer, tokenizer), copy_inner=False).model
    own_inner = graft(model, tokenizer, fvt(tokenizer, tokenizer)).model
    for name, value in inner(model).items():
        assert shared_inner.state_dict()[name].data_ptr() == value.data_ptr()
        assert own_inner.state_dict()[name].data_ptr() != value.data_ptr()
    with torch.no_grad():
        for name in lexical_axes(model):
            shared_inner.state_dict()[name].fill_(1.0)
        for parameter in own_inner.parameters():
            parameter.fill_(1.0)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("fallback", list(Fallback))
@pytest.mark.parametrize("family", ["gpt2", "llama untied", "bart"])
def test_mixing_in_small_blocks_gives_the_same_bits(family, fallback, monkeypatch):
    model, tokenizer = pico.pair(family)
    target = target_tokenizer(tokenizer)
    mixture = replace(shared(tokenizer, target), fallback=fallback)
    assert mixture.known.any()
    assert not mixture.known.all()
    at_once = graft(model, target, mixture, pad_to_multiple_of=64).model.state_dict()
    module = sys.modules[graft.__module__]
    monkeypatch.setattr(module, "_BLOCK_ROWS", 7)
    monkeypatch.setattr(module, "_BLOCK_COLUMNS", 5)
    in_blocks = graft(model, target, mixture, pad_to_multiple_of=64).model.state_dict()
    assert all(torch.equal(value, in_blocks[name]) for name, value in at_once.items())


def test_a_zero_embedding_that_is_mixed_from_other_rows_is_rejected():
    model, tokenizer = pico.pair("gpt2")
    mixture = fvt(tokenizer, tokenizer)
    with torch.no_grad():
        model.get_input_embeddings().weight[11] = 0  # the copy of a zero row may be zero
    graft(model, tokenizer, mixture)
    cancelling = mixture.weights.tolil()
    cancelling[12] = 0
    with torch.no_grad():
        model.get_input_embeddings().weight[13] = -model.get_input_embeddings().weight[12]
    cancelling[12, 12] = cancelling[12, 13] = 0.5
    with pytest.raises(GraftError, match=r"the embeddings of 1 tokens, for example .*, are zero"):
        graft(model, tokenizer, replace(mixture, weights=cancelling.tocsr()))


def test_rows_near_the_mean_have_the_mean_and_the_covariance_of_the_source_rows(monkeypatch):
    model, source = pico.pair("gpt2")
    rows = model.get_input_embeddings().weight.data
    rows[:, 1] = 3 * rows[:, 0]
    target = target_tokenizer(source)
    mixture = mean_resizing(source, target)
    near = graft(model, target, mixture).model.get_input_embeddings().weight.detach()[~mixture.known]
    assert torch.allclose(near, rows[: len(source)].mean(dim=0), atol=1e-4)
    monkeypatch.setattr(sys.modules["relexify.grafting.graft"], "_NEAR", 1.0)  # 1e-9 is hardly more than rounding
    drawn = graft(model, target, mixture).model.get_input_embeddings().weight.detach()[~mixture.known]
    assert torch.allclose(drawn[:, 1], 3 * drawn[:, 0], atol=1e-5)
    assert (drawn.std(dim=0) / rows.std(dim=0) - 1).abs().mean() < 0.2
    assert len(drawn) > 50
