"""Whole words masked: against a slow loop, against a uniform model, and what stays visible."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from transformers import CanineTokenizer

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, encoder_frame
from relexify.scoring import MASK_STRIDE, bits_per_byte_of_words
from relexify.scoring.masked_words import WORDS, _masked_copies, _segments
from tests import pico

LINES = [*pico.sentences(2), "naïve 😀 words,  and more"]
SIZE = len("".join(LINES).encode())
ENCODERS = ["bert", "roberta", "modernbert"]


def pieces_of(tokenizer: Any, words: list[str]) -> list[list[int]]:
    """The tokens of every word, found by encoding the text up to each of them."""
    counts = [
        len(tokenizer(" ".join(words[:end]), add_special_tokens=False).input_ids) for end in range(len(words) + 1)
    ]
    ids = tokenizer(" ".join(words), add_special_tokens=False).input_ids
    return [ids[start:end] for start, end in itertools.pairwise(counts)]


def slow_nats(model: Any, tokenizer: Any, words: list[str]) -> float:
    pieces, (before, after) = pieces_of(tokenizer, words), encoder_frame(tokenizer)
    total = 0.0
    for number, word in enumerate(pieces):
        for rank, wanted in enumerate(word):
            shown = [
                [*other[:rank], *[tokenizer.mask_token_id] * (len(other) - rank)]
                if position % MASK_STRIDE == number % MASK_STRIDE
                else other
                for position, other in enumerate(pieces)
            ]
            ids = [*before, *(id for each in shown for id in each), *after]
            position = len(before) + sum(map(len, pieces[:number])) + rank
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[0, position]
            total -= float(torch.log_softmax(logits.double(), 0)[wanted])
    return total


@pytest.mark.parametrize("family", ENCODERS)
def test_words_score_like_a_loop_over_their_pieces(family):
    model, tokenizer = pico.pair(family)
    total = sum(slow_nats(model, tokenizer, line.split()) for line in LINES)
    score = bits_per_byte_of_words(model, tokenizer, [*LINES, " ", ""], batch=3)
    assert score.value == pytest.approx(total / math.log(2) / SIZE, rel=1e-5)
    assert (score.examples, score.higher_is_better) == (SIZE, False)


@pytest.mark.parametrize("family", ENCODERS)
def test_a_uniform_model_pays_for_every_token_once(family):
    model, tokenizer = pico.pair(family)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    tokens = sum(len(tokenizer(" ".join(line.split()), add_special_tokens=False).input_ids) for line in LINES)
    rows = model.get_input_embeddings().weight.shape[0]
    score = bits_per_byte_of_words(model, tokenizer, LINES)
    assert score.value == pytest.approx(tokens * math.log2(rows) / SIZE, rel=1e-5)


def test_only_the_pieces_before_the_predicted_one_of_a_masked_word_are_visible():
    ids, words = np.array([11, 12, 13, 14, 15]), np.array([0, 0, 0, 1, 1])
    inputs, labels = _masked_copies(ids, words, 3, [1], [2])
    assert inputs.tolist() == [
        [1, 3, 3, 3, 14, 15, 2],
        [1, 11, 3, 3, 14, 15, 2],
        [1, 11, 12, 3, 14, 15, 2],
        [1, 11, 12, 13, 3, 3, 2],
        [1, 11, 12, 13, 14, 3, 2],
    ]
    labelled = [[(position, id) for position, id in enumerate(row) if id != IGNORED] for row in labels.tolist()]
    assert labelled == [[(1, 11)], [(2, 12)], [(3, 13)], [(4, 14)], [(5, 15)]]


def test_long_paragraphs_come_in_segments_of_the_same_words_whatever_the_tokenizer():
    words = [word for line in pico.sentences(40) for word in line.split()][: 2 * WORDS + 5]
    for family in ENCODERS:
        found = list(_segments(pico.pair(family)[1], words, 10_000))
        assert [len(set(numbers.tolist())) for _, numbers in found] == [WORDS, WORDS, 5]


def test_words_that_do_not_fit_into_a_window_are_seen_in_parts_and_a_longer_one_is_rejected():
    model, tokenizer = pico.pair("bert")
    words = LINES[0].split()
    whole = [id for ids, _ in _segments(tokenizer, words, 10_000) for id in ids]
    longest = max(len(word) for word in pieces_of(tokenizer, words))
    parts = [ids for ids, _ in _segments(tokenizer, words, longest)]
    assert len(parts) > 1
    assert [id for ids in parts for id in ids] == whole
    with pytest.raises(InputError, match="does not fit into a window of 3: whole words"):
        bits_per_byte_of_words(model, tokenizer, ["unwahrscheinlichkeiten" * 3], window=5)


@pytest.mark.parametrize("line", ["我们喜欢学习。老师 A", "เด็กกินข้าวที่บ้าน", "私は学校へ行きます GPT"])
def test_text_without_spaces_between_words_is_rejected(line):
    model, tokenizer = pico.pair("roberta")
    with pytest.raises(InputError, match="a script without spaces between words: score it with masking=strided"):
        bits_per_byte_of_words(model, tokenizer, [line])
    assert bits_per_byte_of_words(model, tokenizer, [*LINES, line]).value > 0  # a quotation


def test_one_string_is_read_by_its_lines_and_not_by_its_letters():
    model, tokenizer = pico.pair("bert")
    assert bits_per_byte_of_words(model, tokenizer, "\n".join(LINES)) == bits_per_byte_of_words(model, tokenizer, LINES)


def test_unknown_words_give_a_warning(caplog):
    model, tokenizer = pico.pair("bert")
    bits_per_byte_of_words(model, tokenizer, ["漢字 漢字 and words"])
    assert "unknown to the tokenizer" in caplog.text


def test_a_tokenizer_without_offsets_is_rejected():
    with pytest.raises(VocabularyError, match="no fast backend"):
        bits_per_byte_of_words(pico.pair("bert")[0], CanineTokenizer(), LINES)


def test_text_without_any_token_is_not_called_no_text():
    with pytest.raises(InputError, match="finds no tokens"):
        bits_per_byte_of_words(*pico.pair("bert"), ["\x01 \x01"])


def test_a_decoder_and_empty_text_are_rejected():
    with pytest.raises(InputError, match="not a masked language model"):
        bits_per_byte_of_words(*pico.pair("gpt2"), LINES)
    with pytest.raises(InputError, match="no held-out text"):
        bits_per_byte_of_words(*pico.pair("bert"), ["", "  "])
