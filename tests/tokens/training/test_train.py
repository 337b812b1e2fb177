"""Tokenizers trained like another one."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from relexify.errors import EvidenceError, InputError
from relexify.tokens import train_tokenizer_like, vocabulary_of
from tests import pico

LINES = pico.sentences(words=pico.foreign_words(), seed=3)
families = pytest.mark.parametrize("family", list(pico.FAMILIES))


@families
def test_the_target_tokenizer_keeps_family_special_tokens_and_size(family):
    tokenizer = pico.FAMILIES[family][0]()
    target = train_tokenizer_like(tokenizer, lambda: LINES, 380)
    source_vocabulary, vocabulary = vocabulary_of(tokenizer), vocabulary_of(target)
    assert vocabulary.spelling == source_vocabulary.spelling
    assert len(target) <= 380
    assert set(vocabulary.special) == set(source_vocabulary.special)
    assert set(target.all_special_tokens) == set(tokenizer.all_special_tokens)
    for role, id in vocabulary.special.items():
        assert vocabulary.tokens[id] == source_vocabulary.tokens[source_vocabulary.special[role]]


@families
def test_the_target_tokenizer_puts_the_same_special_tokens_around_a_text(family):
    tokenizer = pico.FAMILIES[family][0]()
    target = train_tokenizer_like(tokenizer, lambda: LINES, 380)
    added = len(tokenizer("a").input_ids) - len(tokenizer("a", add_special_tokens=False).input_ids)
    text = LINES[0]
    framed, bare = target(text).input_ids, target(text, add_special_tokens=False).input_ids
    assert len(framed) - len(bare) == added
    assert all(target.convert_ids_to_tokens(id) in target.all_special_tokens for id in framed if id not in bare)


def test_the_target_language_needs_fewer_tokens_than_with_the_source_tokenizer():
    tokenizer = pico.byte_level()
    target = train_tokenizer_like(tokenizer, lambda: LINES, 400)
    assert len(target(LINES[0]).input_ids) < 0.6 * len(tokenizer(LINES[0]).input_ids)


def test_byte_fallback_still_writes_unseen_characters():
    target = train_tokenizer_like(pico.byte_fallback(), lambda: LINES, 400)
    ids = target("日本", add_special_tokens=False).input_ids
    assert target.unk_token_id not in ids
    assert target.decode(ids) == "日本"


def test_the_chat_template_is_kept():
    tokenizer = pico.byte_level()
    tokenizer.chat_template = "{{ messages }}"
    assert train_tokenizer_like(tokenizer, lambda: LINES, 300).chat_template == "{{ messages }}"


def test_training_twice_gives_the_same_tokenizer():
    tokenizer = pico.byte_level()
    first, second = (train_tokenizer_like(tokenizer, lambda: LINES, 350) for _ in range(2))
    assert first.backend_tokenizer.to_str() == second.backend_tokenizer.to_str()


def test_a_vocabulary_smaller_than_the_alphabet_is_rejected():
    with pytest.raises(InputError, match="at least 257"):
        train_tokenizer_like(pico.byte_level(), lambda: LINES, 100)
    with pytest.raises(InputError, match="10 tokens are too few for this text"):
        train_tokenizer_like(pico.pair("t5")[1], lambda: LINES, 10)


def test_a_vocabulary_that_tokenizers_would_abort_on_is_rejected():
    with pytest.raises(InputError, match="`vocab_size=1000000000` is not possible"):
        train_tokenizer_like(pico.byte_level(), lambda: LINES, 10**9)


def test_an_unknown_token_that_is_not_special_is_kept():
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    trained = train_tokenizer_like(PreTrainedTokenizerFast(tokenizer_object=backend), lambda: LINES, 100)
    assert trained.tokenize("never-seen") == ["[UNK]"] * 3


def test_a_text_without_words_is_rejected():
    with pytest.raises(EvidenceError, match="too short"):
        train_tokenizer_like(pico.byte_level(), lambda: [""], 300)


_ELSEWHERE = """
import hashlib, sys
from transformers import AutoTokenizer
from relexify.tokens import train_tokenizer_like
from tests import pico
lines = pico.sentences(800, words=pico.foreign_words())
for folder, size in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    new = train_tokenizer_like(AutoTokenizer.from_pretrained(folder), lambda: iter(lines), int(size))
    print(hashlib.sha256(new.backend_tokenizer.to_str().encode()).hexdigest())
"""


def test_another_process_trains_the_same_vocabularies_on_the_same_text(tmp_path):
    lines = pico.sentences(800, words=pico.foreign_words())
    arguments, digests = [], []
    for make, size in ((pico.wordpiece, 300), (pico.byte_level, 600), (pico.byte_fallback, 600)):
        folder = tmp_path / make.__name__
        make().save_pretrained(folder)
        target = train_tokenizer_like(AutoTokenizer.from_pretrained(folder), lambda: iter(lines), size)
        arguments += [str(folder), str(size)]
        digests.append(hashlib.sha256(target.backend_tokenizer.to_str().encode()).hexdigest())
    command = [sys.executable, "-c", _ELSEWHERE, *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    assert done.stdout.split() == digests
