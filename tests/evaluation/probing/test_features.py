"""Features equal a slow loop that reads one text at a time."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from relexify.errors import InputError, VocabularyError
from relexify.evaluation.probing.features import sentence_means, word_means
from tests import pico

TEXTS = [
    "the old teacher",
    "a river",
    "",
    "the young student walks slowly near the green house, and reads a letter.",
    "water",
    "a river",
]
SENTENCES = [["the", "old", "teacher"], [], ["bread"], ["a", "quiet", "window", "opens", ",", "never", "closes", "."]]
FAMILIES = ["bert", "roberta", "modernbert", "gpt2", "llama tied", "llama untied", "gemma", "t5", "bart"]


def states_of(model, tokenizer, pieces):
    """Hidden states of the pieces alone: whatever the tokenizer adds around a text is cut off again."""
    bare = tokenizer("water", add_special_tokens=False).input_ids
    framed = tokenizer("water").input_ids
    start = next(index for index in range(len(framed)) if framed[index : index + len(bare)] == bare)
    before, after = framed[:start], framed[start + len(bare) :]
    body = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    with torch.no_grad():
        states = body(input_ids=torch.tensor([[*before, *pieces, *after]])).last_hidden_state[0]
    return states[len(before) : len(before) + len(pieces)].numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_sentences_equal_a_loop_without_batches(family):
    model, tokenizer = pico.pair(family)
    found = sentence_means(model, tokenizer, TEXTS, batch=3)
    assert found.shape == (len(TEXTS), pico.WIDTH)
    assert found.dtype == np.float32
    for text, row in zip(TEXTS, found, strict=True):
        pieces = tokenizer(text, add_special_tokens=False).input_ids
        expected = states_of(model, tokenizer, pieces).mean(axis=0) if pieces else np.zeros(pico.WIDTH)
        assert np.allclose(row, expected, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_words_equal_a_loop_without_batches(family):
    model, tokenizer = pico.pair(family)
    found = word_means(model, tokenizer, SENTENCES, batch=2)
    space = "" if family == "t5" else " "  # Unigram puts the space there itself
    for words, rows in zip(SENTENCES, found, strict=True):
        assert rows.shape == (len(words), pico.WIDTH)
        assert rows.dtype == np.float32
        pieces = [tokenizer(f"{space}{word}", add_special_tokens=False).input_ids for word in words]
        assert all(pieces)
        if not words:
            continue
        states = states_of(model, tokenizer, [id for ids in pieces for id in ids])
        ends = np.cumsum([len(ids) for ids in pieces])
        for row, ids, end in zip(rows, pieces, ends, strict=True):
            assert np.allclose(row, states[end - len(ids) : end].mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "gemma", "bart"])
def test_padding_does_not_change_a_row(family):
    model, tokenizer = pico.pair(family)
    together = sentence_means(model, tokenizer, TEXTS, batch=len(TEXTS))
    alone = np.concatenate([sentence_means(model, tokenizer, [text], batch=1) for text in TEXTS])
    assert np.allclose(together, alone, atol=1e-5)
    words, single = (word_means(model, tokenizer, SENTENCES, batch=batch) for batch in (9, 1))
    assert all(np.allclose(one, other, atol=1e-5) for one, other in zip(words, single, strict=True))


def test_a_tokenizer_that_pads_and_cuts_changes_nothing_and_stays_as_it_is():
    model, tokenizer = pico.pair("bert")
    expected = sentence_means(model, tokenizer, TEXTS)
    tokenizer(TEXTS, padding="max_length", truncation=True, max_length=4)
    assert np.array_equal(sentence_means(model, tokenizer, TEXTS), expected)
    assert tokenizer.backend_tokenizer.padding is not None


def test_words_that_do_not_fit_are_zeros_with_a_warning(caplog):
    model, tokenizer = pico.pair("gpt2")
    words = ["river", "house", "water"]
    sizes = [len(tokenizer(f" {word}").input_ids) for word in words]
    whole = word_means(model, tokenizer, [words])[0]
    with caplog.at_level(logging.WARNING):
        (cut,) = word_means(model, tokenizer, [words], length=sizes[0] + sizes[1])
    assert "1 of 3 words do not fit" in caplog.text
    assert np.allclose(cut[:2], whole[:2], atol=1e-5)
    assert not cut[2].any()
    assert len(tokenizer(" xyzzyx").input_ids) > 2  # a word is there as a whole or not at all, and so is what follows
    (cut,) = word_means(model, tokenizer, [["river", "xyzzyx", "house"]], length=sizes[0] + 2)
    assert [bool(row.any()) for row in cut] == [True, False, False]


def test_texts_beyond_the_models_positions_are_truncated_with_a_warning(caplog):
    model, tokenizer = pico.pair("roberta")
    long = " ".join(["green letter"] * 60)
    with caplog.at_level(logging.WARNING):
        (row,) = sentence_means(model, tokenizer, [long])
    assert "1 of 1 texts do not fit into the 62 pieces" in caplog.text  # 66 positions, 2 before the first, <s> and </s>
    pieces = tokenizer(long, add_special_tokens=False).input_ids[:62]
    assert np.allclose(row, states_of(model, tokenizer, pieces).mean(axis=0), atol=1e-5)


def test_words_without_pieces_are_zeros():
    model, tokenizer = pico.pair("bert")
    (rows,) = word_means(model, tokenizer, [["river", "\u200b", "", "house"]])
    assert [bool(row.any()) for row in rows] == [True, False, False, True]
    (without,) = word_means(model, tokenizer, [["river", "house"]])
    assert np.allclose(rows[[0, 3]], without, atol=1e-6)


def test_a_script_without_spaces_is_read_without_them():
    tokenizer = pico.byte_level(["学生读书。老师看门。"] * 50, size=300)
    model = pico.gpt2(tokenizer).eval()
    (rows,) = word_means(model, tokenizer, [["学生", "读书", "。"]])
    pieces = [tokenizer(word).input_ids for word in ("学生", "读书", "。")]
    states = states_of(model, tokenizer, [id for ids in pieces for id in ids])
    assert np.allclose(rows[0], states[: len(pieces[0])].mean(axis=0), atol=1e-5)
    assert np.allclose(rows[2], states[-len(pieces[2]) :].mean(axis=0), atol=1e-5)


def test_a_model_in_half_precision_gives_float32_and_keeps_its_mode():
    model, tokenizer = pico.pair("bert")
    full = sentence_means(model, tokenizer, TEXTS)
    half = model.to(torch.bfloat16).train()
    found = sentence_means(half, tokenizer, TEXTS)
    assert found.dtype == np.float32
    assert np.allclose(found, full, atol=0.1)
    assert half.training


def test_nothing_to_read_and_no_room_to_read_it_in():
    model, tokenizer = pico.pair("bert")
    assert sentence_means(model, tokenizer, []).shape == (0, pico.WIDTH)
    assert word_means(model, tokenizer, []) == []
    with pytest.raises(InputError, match="`length=2` leaves no room"):
        sentence_means(model, tokenizer, TEXTS, length=2)
    with pytest.raises(VocabularyError, match="do not belong together"):
        sentence_means(model, pico.byte_level(), TEXTS)
