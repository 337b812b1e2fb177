"""Windows over held-out text: every token is predicted exactly once, whatever the lengths."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED
from relexify.scoring import HeldOut, held_out_windows, report_sample_size, sample_size
from relexify.scoring.windows import warn_about_normalisation
from relexify.text import Corpus
from tests import pico

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
WORDS = 120


def one_word_one_token() -> PreTrainedTokenizerFast:
    """A tokenizer under which every word w0, w1, … is a token of its own, so that positions can be distinguished."""
    names = [*SPECIAL.values(), *(f"w{number}" for number in range(WORDS))]
    backend = Tokenizer(models.WordLevel({name: id for id, name in enumerate(names)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, **{f"{role}_token": name for role, name in SPECIAL.items()}
    )


TOKENIZER = one_word_one_token()
SEPARATOR = TOKENIZER.sep_token_id


def paragraphs_of(lengths: list[int]) -> list[str]:
    """Return paragraphs of these lengths in words, no word twice."""
    words = iter(range(WORDS))
    return [" ".join(f"w{next(words)}" for _ in range(length)) for length in lengths]


def stream_of(paragraphs: list[str]) -> list[int]:
    return [id for line in paragraphs for id in (*TOKENIZER(line, add_special_tokens=False).input_ids, SEPARATOR)]


texts = st.lists(st.integers(1, 20), min_size=1, max_size=6).map(paragraphs_of)


@settings(max_examples=150, deadline=None)
@given(paragraphs=texts, length=st.integers(1, 140))
def test_a_decoder_predicts_every_token_once_and_in_order(paragraphs, length):
    stream = stream_of(paragraphs)
    held_out = held_out_windows(TOKENIZER, paragraphs, "decoder", length=length)
    labels = held_out.labels[held_out.labels != IGNORED]
    assert labels.tolist() == stream
    assert held_out.tokens == len(stream)
    assert held_out.bytes == sum(len(line) + 1 for line in paragraphs)
    assert held_out.inputs.shape == held_out.labels.shape == (-(-len(stream) // length), min(length, len(stream)))


@settings(max_examples=100, deadline=None)
@given(paragraphs=texts, length=st.integers(1, 140))
def test_a_decoder_sees_the_token_before_the_one_it_predicts(paragraphs, length):
    held_out = held_out_windows(TOKENIZER, paragraphs, "decoder", length=length)
    shown, stream = [SEPARATOR, *stream_of(paragraphs)], np.array(stream_of(paragraphs))
    size, width = len(stream), held_out.inputs.shape[1]
    starts = [min(number * width, size - width) for number in range(len(held_out.inputs))]
    assert held_out.inputs.tolist() == [shown[start : start + width] for start in starts]
    for start, labels in zip(starts, held_out.labels, strict=True):
        counted = labels != IGNORED
        assert labels[counted].tolist() == stream[start : start + width][counted].tolist()


LAYOUTS = [pico.llama2_layout, pico.llama3_layout, pico.gemma_layout, pico.xglm_layout, pico.glm_layout]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_windows_of_a_decoder_begin_as_its_tokenizer_begins_a_text(layout):
    tokenizer, lines = layout(), pico.sentences(5)
    held_out = held_out_windows(tokenizer, lines, "decoder", length=20)
    assert held_out.inputs.shape == held_out.labels.shape
    assert held_out.inputs.shape[1] == 20
    assert len(held_out.inputs) > 2
    number = len(tokenizer(lines[0]).input_ids) - len(tokenizer(lines[0], add_special_tokens=False).input_ids)
    assert (held_out.inputs[:, :number] == tokenizer(lines[0]).input_ids[:number]).all()
    assert held_out.inputs[0, :7].tolist() == tokenizer(lines[0]).input_ids[:7]
    for inputs, targets in zip(held_out.inputs, held_out.labels, strict=True):
        seen = np.flatnonzero(targets[number - 1 : -1] != IGNORED) + number
        assert (inputs[seen] == targets[seen - 1]).all()  # what is predicted at a position is read at the next one
    labels = held_out.labels[held_out.labels != IGNORED].tolist()
    ids = [tokenizer(line, add_special_tokens=False).input_ids for line in lines]
    assert labels == [id for row in ids for id in (*row, tokenizer.eos_token_id)]  # every token is predicted once


@settings(max_examples=150, deadline=None)
@given(paragraphs=texts, length=st.integers(3, 140), stride=st.none() | st.integers(1, 12))
def test_an_encoder_predicts_every_token_but_separators_once(paragraphs, length, stride):
    stream = stream_of(paragraphs)
    held_out = held_out_windows(TOKENIZER, paragraphs, "encoder", length=length, mask_stride=stride)
    labels = held_out.labels[held_out.labels != IGNORED]
    assert sorted(labels.tolist()) == sorted(id for id in stream if id != SEPARATOR)
    assert held_out.tokens == len(labels)
    assert held_out.bytes == sum(len(line) for line in paragraphs), "separators are not predicted, and have no byte"


@settings(max_examples=100, deadline=None)
@given(paragraphs=texts, length=st.integers(3, 140), stride=st.none() | st.integers(1, 12))
def test_an_encoder_sees_all_but_the_masked_tokens(paragraphs, length, stride):
    stream = stream_of(paragraphs)
    held_out = held_out_windows(TOKENIZER, paragraphs, "encoder", length=length, mask_stride=stride)
    body = min(length - 2, len(stream))
    assert held_out.inputs.shape == held_out.labels.shape == (len(held_out.inputs), body + 2)
    windows = {tuple(stream[start : start + body]) for start in range(len(stream) - body + 1)}
    for inputs, labels in zip(held_out.inputs, held_out.labels, strict=True):
        labelled = labels != IGNORED
        assert (inputs[labelled] == TOKENIZER.mask_token_id).all()
        assert (inputs != TOKENIZER.mask_token_id)[~labelled].all()
        whole = np.where(labelled, labels, inputs).tolist()
        assert (whole[0], whole[-1]) == (TOKENIZER.cls_token_id, SEPARATOR)
        assert tuple(whole[1:-1]) in windows
        gaps = np.diff(np.flatnonzero(labelled))
        assert (gaps % stride == 0).all() if stride else labelled.sum() == 1


def test_text_shorter_than_a_window_is_one_window_without_padding():
    decoder = held_out_windows(TOKENIZER, ["w0 w1 w2"], "decoder", length=512)
    assert (decoder.inputs.shape, decoder.tokens) == ((1, 4), 4)
    encoder = held_out_windows(TOKENIZER, ["w0 w1 w2"], "encoder", length=512)
    assert encoder.inputs.shape == (3, 6)
    assert TOKENIZER.pad_token_id not in encoder.inputs


def test_the_last_window_reaches_back_and_counts_nothing_twice():
    stream = stream_of(["w0 w1 w2 w3 w4 w5 w6 w7 w8"])
    held_out = held_out_windows(TOKENIZER, ["w0 w1 w2 w3 w4 w5 w6 w7 w8"], "decoder", length=4)
    assert held_out.inputs.tolist() == [[SEPARATOR, *stream[:3]], stream[3:7], stream[5:9]]
    assert held_out.labels.tolist() == [stream[:4], stream[4:8], [IGNORED, IGNORED, *stream[8:]]]


def test_blank_paragraphs_count_for_nothing():
    plain = held_out_windows(TOKENIZER, ["w0 w1", "w2"], "decoder")
    spaced = held_out_windows(TOKENIZER, ["", "w0 w1", " \t", "w2", "\u2003"], "decoder")
    assert (spaced.tokens, spaced.bytes) == (plain.tokens, plain.bytes)
    assert spaced.labels.tolist() == plain.labels.tolist()


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_halves_of_surrogate_pairs_count_as_what_they_are_replaced_by(kind):
    tokenizer = pico.roberta_tokenizer()
    line = "the old \ud83d river"
    broken, replaced = (
        held_out_windows(tokenizer, [text], kind)
        for text in (line, line.replace("\ud83d", "\N{REPLACEMENT CHARACTER}"))
    )
    assert same(broken, replaced)
    assert broken.bytes == len("the old  river") + 3 + (kind == "decoder")


def same(one: HeldOut, other: HeldOut) -> bool:
    return (
        np.array_equal(one.inputs, other.inputs)
        and np.array_equal(one.labels, other.labels)
        and (one.tokens, one.bytes) == (other.tokens, other.bytes)
    )


def test_a_tokenizer_that_truncates_does_not_cut_the_text():
    tokenizer = one_word_one_token()
    tokenizer.model_max_length = 4
    tokenizer("w0 w1 w2 w3 w4 w5", truncation=True, padding="max_length", max_length=4)
    assert held_out_windows(tokenizer, ["w0 w1 w2 w3 w4 w5"], "decoder").tokens == 7


def test_unknown_tokens_give_a_warning(caplog):
    line = "w0 w1 w2 unheard w3"
    held_out_windows(TOKENIZER, [line], "decoder")
    assert "16.7 % of the held-out tokens are unknown" in caplog.text
    caplog.clear()
    held_out_windows(TOKENIZER, ["w0 w1 w2"], "decoder")
    held_out_windows(pico.byte_level(), ["日本語"], "decoder")
    assert not caplog.records


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_text_without_words_or_tokens_is_rejected(kind):
    for paragraphs in ([], ["", " \n"]):
        with pytest.raises(InputError, match="no held-out text to measure on"):
            held_out_windows(TOKENIZER, paragraphs, kind)
    with pytest.raises(InputError, match="finds no tokens in the held-out text"):
        held_out_windows(pico.wordpiece(), ["\u200b\u200b"], kind)


@pytest.mark.parametrize(("kind", "length"), [("decoder", 0), ("encoder", 2), ("encoder", 0)])
def test_a_window_without_room_for_text_is_rejected(kind, length):
    with pytest.raises(InputError, match="no room for text"):
        held_out_windows(TOKENIZER, ["w0 w1"], kind, length=length)


def test_tokenizers_without_mask_or_separator_are_rejected():
    with pytest.raises(VocabularyError, match="no mask token"):
        held_out_windows(pico.byte_level(), ["the river"], "encoder")
    with pytest.raises(VocabularyError, match="no token to put between paragraphs"):
        held_out_windows(pico.byte_level(pad_token="<pad>"), ["the river"], "decoder")


@pytest.mark.parametrize(
    ("requested", "device", "size", "is_said"),
    [
        (None, "cpu", 9_000, True),
        (None, "mps", 9_000, True),
        (None, "cpu", 8_000, False),
        (8_192, "cpu", 9_000, False),
        (None, "cuda:0", 9_000, False),
    ],
)
def test_the_log_says_why_only_a_part_of_the_text_is_scored_and_which_option_changes_it(
    requested, device, size, is_said, caplog
):
    with caplog.at_level(logging.INFO, "relexify"):
        report_sample_size(Corpus.from_lines(["x" * 99] * (size // 100)), requested, device)
    said = (
        "only 8,192 bytes of the held-out text are scored, because scoring takes long without CUDA (400,000 with it); "
        "`held_out_bytes` sets another number"
    )
    assert caplog.messages == [said] * is_said


def test_only_the_devices_that_training_uses_score_on_more_text():
    assert {sample_size(None, device) for device in ("cuda", "cuda:1")} == {400_000}
    assert {sample_size(None, device) for device in ("cpu", "cpu:0", "mps")} == {8_192}
    assert sample_size(500, "cuda") == sample_size(500, "cpu") == 500


@pytest.mark.parametrize(
    ("layout", "text", "is_changed"),
    [
        (pico.qwen_layout, "Tie\u0302\u0301ng Vie\u0323\u0302t", True),  # composed, it has fewer bytes
        (pico.qwen_layout, "Ti\u1ebfng Vi\u1ec7t", False),
        (pico.wordpiece, "été à l'île", True),
        (pico.wordpiece, "THE RIVER 中国 大学", False),  # spaces around ideographs are no text
        (pico.byte_level, "Tie\u0302\u0301ng", False),
    ],
)
def test_a_normaliser_that_shortens_the_text_is_reported(layout, text, is_changed, caplog):
    warn_about_normalisation(layout(), [text] * 3)
    assert ("of its bytes before it reads it" in caplog.text) == is_changed
