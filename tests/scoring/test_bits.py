"""Bits per byte and perplexity against slow loops and numbers counted by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import BertForPreTraining, PreTrainedTokenizerFast

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import architecture_of, check_fit
from relexify.scoring import bits_per_byte, language_model_scores, scores_of
from relexify.scoring.windows import warn_about_dropped
from relexify.tokens import separator_of
from tests import pico

LINES = [*pico.sentences(2), "naïve 😀 words"]
TEXT = "\n".join(LINES)
SIZE = len(TEXT.encode())
DECODERS = ["gpt2", "llama tied", "llama untied", "gemma"]
ENCODERS = ["bert", "roberta", "modernbert"]


def stream_of(tokenizer: Any, lines: list[str]) -> list[int]:
    separator = separator_of(tokenizer)
    return [id for line in lines for id in (*tokenizer(line, add_special_tokens=False).input_ids, separator)]


def nats(model: Any, inputs: list[int], position: int, wanted: int) -> float:
    """Return the nats of one token at one position."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([inputs])).logits[0, position]
    return -float(torch.log_softmax(logits.double(), 0)[wanted])


def uniform(family: str) -> tuple[Any, Any]:
    """Return a model that predicts all tokens alike."""
    model, tokenizer = pico.pair(family)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model, tokenizer


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("window", [16, 64])
def test_a_decoder_scores_like_a_loop_over_its_tokens(family, window):
    model, tokenizer = pico.pair(family)
    stream = stream_of(tokenizer, LINES)
    shown = [separator_of(tokenizer), *stream]
    total = 0.0
    for position, wanted in enumerate(stream):
        start = min(position // window * window, max(0, len(stream) - window))
        total += nats(model, shown[start : position + 1], -1, wanted)
    bits, perplexity = language_model_scores(model, tokenizer, LINES, window=window, batch=3)
    assert bits.value == pytest.approx(total / math.log(2) / (SIZE + 1), rel=1e-5)
    assert perplexity.value == pytest.approx(math.exp(total / len(stream)), rel=1e-5)
    assert bits_per_byte(model, tokenizer, TEXT, window=window).value == pytest.approx(bits.value, rel=1e-6)
    assert (bits.examples, perplexity.examples) == (SIZE + 1, len(stream))


@pytest.mark.parametrize("family", ENCODERS)
def test_an_encoder_scores_like_a_loop_that_masks_one_token(family):
    model, tokenizer = pico.pair(family)
    stream, separator = stream_of(tokenizer, LINES[:2]), separator_of(tokenizer)
    body = 14
    costs = []
    for position, wanted in enumerate(stream):
        if wanted != separator:
            start = min(position // body * body, len(stream) - body)
            row = [tokenizer.cls_token_id, *stream[start : start + body], tokenizer.sep_token_id]
            row[position - start + 1] = tokenizer.mask_token_id
            costs.append(nats(model, row, position - start + 1, wanted))
    bits, perplexity = language_model_scores(model, tokenizer, LINES[:2], window=16, mask_stride=None)
    size = sum(len(line.encode()) for line in LINES[:2])
    assert bits.value == pytest.approx(sum(costs) / math.log(2) / size, rel=1e-5)
    assert perplexity.value == pytest.approx(math.exp(sum(costs) / len(costs)), rel=1e-5)
    assert (bits.metric, perplexity.metric) == ("masked bits per byte", "pseudo-perplexity")


@pytest.mark.parametrize("family", [*DECODERS, *ENCODERS])
def test_a_uniform_model_has_the_perplexity_of_its_vocabulary(family):
    model, tokenizer = uniform(family)
    stream, separator = stream_of(tokenizer, LINES), separator_of(tokenizer)
    is_encoder = architecture_of(model) == "encoder"
    tokens = sum(id != separator for id in stream) if is_encoder else len(stream)
    size = SIZE + 1 - len(LINES) if is_encoder else SIZE + 1
    bits, perplexity = language_model_scores(model, tokenizer, LINES, window=32)
    assert bits.value == pytest.approx(tokens * math.log2(len(tokenizer)) / size, rel=1e-5)
    assert perplexity.value == pytest.approx(len(tokenizer), rel=1e-4)
    assert (bits.examples, perplexity.examples) == (size, tokens)
    assert not bits.higher_is_better
    assert not perplexity.higher_is_better


def test_the_bits_of_a_uniform_model_counted_by_hand():
    model, tokenizer = uniform("gpt2")
    assert len(tokenizer) == 400
    text = "\x00\x01\x02"  # a token each, and the separator: four tokens for four bytes
    assert bits_per_byte(model, tokenizer, text).value == pytest.approx(8.643856, rel=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_the_batch_does_not_change_the_score(family):
    model, tokenizer = pico.pair(family)
    one, many = (bits_per_byte(model, tokenizer, TEXT, window=16, batch=batch) for batch in (1, 50))
    assert one.value == pytest.approx(many.value, rel=1e-6)


def test_a_window_longer_than_the_model_can_take_is_cut_to_it():
    for family in ("gpt2", "bert", "roberta"):
        model, tokenizer = pico.pair(family)
        text = "\n".join(pico.sentences(12))
        assert bits_per_byte(model, tokenizer, text, window=512) == bits_per_byte(model, tokenizer, text, window=64)


@pytest.mark.parametrize("family", ["gpt2", "bert", "t5"])
def test_lone_surrogates_do_not_stop_the_measurement(family):
    model, tokenizer = pico.pair(family)
    score = bits_per_byte(model, tokenizer, "the old \ud83d river sees\ude00 the door\n\udfff")
    assert math.isfinite(score.value)


@pytest.mark.parametrize("training", [True, False])
def test_the_training_mode_is_restored_and_dropout_is_off(training):
    model, tokenizer = pico.pair("gpt2")
    expected = bits_per_byte(model, tokenizer, TEXT).value
    model.train(training)
    assert bits_per_byte(model, tokenizer, TEXT).value == expected
    assert model.training == training
    with pytest.raises(InputError):
        bits_per_byte(model, tokenizer, " \n")
    assert model.training == training


def test_unknown_tokens_give_a_warning(caplog):
    model, tokenizer = pico.pair("bert")
    bits_per_byte(model, tokenizer, "the river 日本語 日本 日本語")
    assert "unknown to the tokenizer: the scores are too good" in caplog.text


def test_characters_without_any_token_give_a_warning(caplog):
    """A BPE without bytes and without an unknown token leaves out what it does not know."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=["</s>"], show_progress=False)
    backend.train_from_iterator(LINES, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    model = pico.gpt2(tokenizer)
    bits_per_byte(model, tokenizer, TEXT)
    assert "get no token" not in caplog.text
    bits_per_byte(model, tokenizer, f"{LINES[0]} 日本語")
    assert "characters of the held-out text get no token" in caplog.text


@pytest.mark.parametrize("family", list(pico.FAMILIES))
def test_tokenizers_of_every_family_have_tokens_for_all_characters(family, caplog):
    warn_about_dropped(pico.pair(family)[1], [*LINES, "e\u0301 ÅﬁＡ 日本語 \u200bشَ"] * 30)
    assert not caplog.text


def test_an_encoder_decoder_reads_text_of_a_script_without_spaces():
    lines = ["河流书本学生早晨窗户", "老师房子大门很小很大"]
    tokenizer = pico.unigram(lines * 20, size=60)
    score = bits_per_byte(pico.t5(tokenizer), tokenizer, "\n".join(lines))
    assert score.examples == sum(len(line[5:].encode()) for line in lines)  # the second halves


def test_an_encoder_decoder_counts_the_bytes_that_fit_into_a_window():
    line = "the old river and the young house but never a green door"
    tokenizer = pico.unigram([line] * 20, size=60)
    whole, part = (bits_per_byte(pico.t5(tokenizer), tokenizer, line, window=window) for window in (64, 3))
    second_half = line[line.index(" ", len(line) // 2) :]
    assert whole.examples == len(second_half)
    predicted = tokenizer.decode(tokenizer(second_half, add_special_tokens=False).input_ids[:3])
    assert part.examples == len(predicted) < whole.examples


def test_a_tokenizer_larger_than_the_model_is_rejected():
    model, _ = pico.pair("gpt2")
    larger = pico.byte_level(size=420)
    message = r"tokenizer has 420 tokens, the model only 400 embeddings"
    with pytest.raises(VocabularyError, match=message):
        check_fit(model, larger)
    with pytest.raises(VocabularyError, match=message):
        bits_per_byte(model, larger, TEXT)
    check_fit(model, pico.byte_level(size=380))


def test_a_tokenizer_that_puts_an_id_beyond_the_model_around_a_text_is_rejected():
    model, tokenizer = pico.pair("bert")
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [4_000_000_000]
    edited = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), pad_token="[PAD]", mask_token="[MASK]"
    )
    with pytest.raises(VocabularyError, match="puts the id 4000000000 around a text"):
        check_fit(model, edited)


def test_models_without_a_language_modelling_head_are_rejected():
    model, tokenizer = pico.pair("bert")
    for headless in (model.bert, BertForPreTraining(model.config)):
        with pytest.raises(InputError, match=f"{type(headless).__name__} has no language-modelling head"):
            bits_per_byte(headless, tokenizer, TEXT)


def test_scores_of_a_known_sum_are_counted_by_hand():
    bits, perplexity = scores_of(8 * math.log(2), 4, 2, "decoder")
    assert (bits.value, perplexity.value) == (pytest.approx(4.0), pytest.approx(4.0))
    assert (bits.metric, perplexity.metric) == ("bits per byte", "perplexity")


def test_an_infinite_or_nan_loss_does_not_crash():
    assert math.isnan(scores_of(math.nan, 4, 2, "decoder")[1].value)
    assert math.isfinite(scores_of(1e9, 4, 2, "decoder")[1].value)


def test_training_on_a_text_lowers_its_bits_per_byte():
    model, tokenizer = pico.pair("gpt2")
    before = bits_per_byte(model, tokenizer, TEXT).value
    ids = torch.tensor([stream_of(tokenizer, LINES)[:60]])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        optimiser.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
    assert bits_per_byte(model, tokenizer, TEXT).value < before


def test_a_model_whose_activations_overflow_is_scored_with_a_warning(caplog):
    model, tokenizer = pico.pair("gpt2")
    with torch.no_grad():
        model.get_input_embeddings().weight *= 1e38
    assert not math.isfinite(bits_per_byte(model, tokenizer, "the old teacher").value)
    assert "all weights are finite, but numbers inside the model overflow" in caplog.text
