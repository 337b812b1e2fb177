"""Words into pieces and back, for every kind of tokenizer."""

from __future__ import annotations

from itertools import permutations

import pytest

from relexify.errors import InputError
from relexify.evaluation.finetuning.inputs import WordPieces, piece_labels, stack_rows, tokenize_words, word_tags
from relexify.pretrained.architecture import IGNORED, encoder_frame
from tests import pico

WORDS = ("Morning", ",", "the", "quietest", "window", "äß", "reads", ".")
LAYOUTS = [
    pico.roberta_tokenizer,
    pico.byte_level,
    pico.wordpiece,
    pico.unigram,
    pico.byte_fallback,
    pico.mistral_layout,
    pico.gemma_layout,
    pico.llama3_layout,
    pico.qwen_layout,
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_pieces_are_those_of_running_text(layout):
    tokenizer = layout()
    (cut,) = tokenize_words(tokenizer, [WORDS], length=512)
    before, after = encoder_frame(tokenizer)
    text = tokenizer(" " + " ".join(WORDS), add_special_tokens=False).input_ids
    assert list(cut.ids) == [*before, *text, *after]
    starts = [index - len(before) for index in cut.first]
    ends = [*starts[1:], len(text)]
    written = [tokenizer.decode(text[start:end]).strip() for start, end in zip(starts, ends, strict=True)]
    if tokenizer.unk_token_id not in text:
        assert [word.lower() for word in written] == [word.lower() for word in WORDS]


@pytest.mark.parametrize("layout", [pico.roberta_tokenizer, pico.unigram])
def test_tags_of_a_script_without_spaces_are_on_words_and_not_on_spaces(layout):
    words = ("东京", "是", "首都", "。")
    tokenizer = layout(["我" + "".join(order) for order in permutations(words)])
    (cut,) = tokenize_words(tokenizer, [words], length=64)
    assert "".join(tokenizer.decode([cut.ids[index]])[:1] for index in cut.first) == "".join(word[0] for word in words)


@pytest.mark.parametrize("layout", [pico.unigram, pico.llama2_layout, pico.byte_level])
def test_words_of_a_script_without_spaces_are_read_without_them_even_if_the_vocabulary_has_them_after_one(layout):
    words = ("东京", "是", "首都", "。")
    tokenizer = layout([*words, *("我" + "".join(order) for order in permutations(words))] * 5)
    (cut,) = tokenize_words(tokenizer, [words], length=64)
    before, after = encoder_frame(tokenizer)
    tokens = tokenizer.convert_ids_to_tokens(cut.ids[len(before) : len(cut.ids) - len(after)])
    assert not any(space in token for token in tokens for space in "▁Ġ")
    assert len([at for at in cut.first if at is not None]) == len(words)


def test_pieces_are_those_of_transformers_itself():
    tokenizer = pico.wordpiece()
    theirs = tokenizer(list(WORDS), is_split_into_words=True)
    (cut,) = tokenize_words(tokenizer, [WORDS], length=512)
    assert list(cut.ids) == theirs.input_ids
    assert cut.first == tuple(theirs.word_ids().index(index) for index in range(len(WORDS)))


def test_first_pieces_carry_the_labels():
    tokenizer = pico.roberta_tokenizer()
    (cut,) = tokenize_words(tokenizer, [("quietest", "door")], length=16)
    labels = piece_labels(cut, [5, 7])
    assert [label for label in labels if label != IGNORED] == [5, 7]
    assert labels[1] == 5
    assert len(labels) == len(cut.ids)
    assert cut.first[1] > 2, "the first word has several pieces"
    assert labels[0] == labels[-1] == IGNORED


def test_words_without_pieces_still_have_a_tag():
    tokenizer = pico.wordpiece()
    (cut,) = tokenize_words(tokenizer, [("the", "\u200b", "door")], length=16)
    assert cut.first == (1, None, 2)
    assert piece_labels(cut, [1, 2, 3]) == [IGNORED, 1, 3, IGNORED]
    assert word_tags(cut, [9, 0, 1, 9], ["O", "X"], default="D") == ["O", "D", "X"]


def test_words_beyond_the_length_still_have_a_tag():
    tokenizer = pico.wordpiece()
    (cut,) = tokenize_words(tokenizer, [("the", "old", "river", "door")], length=4)
    assert len(cut.ids) == 4
    assert cut.first == (1, 2, None, None)
    assert word_tags(cut, [0, 1, 1, 0], ["O", "X"], default="O") == ["X", "X", "O", "O"]


def test_a_word_that_is_cut_inside_keeps_its_first_pieces():
    tokenizer = pico.roberta_tokenizer()
    (whole,) = tokenize_words(tokenizer, [("quietest",)], length=16)
    (cut,) = tokenize_words(tokenizer, [("quietest", "door")], length=3)
    assert cut == WordPieces((*whole.ids[:2], whole.ids[-1]), (1, None))


def test_sentences_without_words():
    tokenizer = pico.wordpiece()
    empty, full = tokenize_words(tokenizer, [(), ("door",)], length=16)
    assert empty == WordPieces((2, 3), ())
    assert piece_labels(empty, []) == [IGNORED, IGNORED]
    assert word_tags(empty, [0, 0], ["O"], default="O") == []
    assert len(full.first) == 1


def test_special_tokens_in_a_text_are_text():
    tokenizer = pico.roberta_tokenizer()
    (cut,) = tokenize_words(tokenizer, [("</s>", "door")], length=16)
    assert cut.ids.count(tokenizer.eos_token_id) == 1


def test_settings_from_earlier_calls_of_a_tokenizer_are_ignored():
    tokenizer = pico.roberta_tokenizer()
    expected = tokenize_words(tokenizer, [WORDS], length=64)
    tokenizer(["a b c d e", "f"], padding=True, truncation=True, max_length=3)
    assert tokenize_words(tokenizer, [WORDS], length=64) == expected
    assert tokenizer.backend_tokenizer.truncation is not None, "the tokenizer was changed"


def test_no_room():
    with pytest.raises(InputError, match="`length=2` leaves no room"):
        tokenize_words(pico.wordpiece(), [("door",)], length=2)


def test_rows_are_padded_by_the_names_of_their_arrays():
    rows = [
        {"input_ids": [5] * size, "attention_mask": [1] * size, "labels": [2] * size, "start_positions": 1}
        for size in (8, 7)
    ]
    batch = {name: tensor.tolist() for name, tensor in stack_rows(rows, 9).items()}
    assert [batch[name][1][-1] for name in ("input_ids", "attention_mask", "labels")] == [9, 0, IGNORED]
    assert batch["start_positions"] == [1, 1]
    with pytest.raises(KeyError, match="position_ids"):
        stack_rows([{**row, "position_ids": row["labels"]} for row in rows], 9)
