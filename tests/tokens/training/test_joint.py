"""One WordPiece vocabulary for two languages."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from relexify.errors import EvidenceError, InputError
from relexify.pretrained.tokenizers import train_joint_tokenizer
from relexify.text import Corpus
from relexify.tokens import interleave_lines, train_joint_wordpiece, vocabulary_of
from tests import pico

ENGLISH, FOREIGN = pico.sentences(200), pico.sentences(200, words=pico.foreign_words())


def texts():
    return [lambda: iter(ENGLISH), lambda: iter(FOREIGN)]


def test_both_alphabets_are_in_and_the_size_is_respected():
    tokenizer = train_joint_wordpiece(pico.byte_level(), texts(), 300)
    assert tokenizer.get_vocab_size() <= 300
    assert "river" in tokenizer.encode("the river").tokens
    for line in (ENGLISH[0], FOREIGN[0]):
        assert "[UNK]" not in tokenizer.encode(line).tokens
    assert any("ш" in token or "б" in token for token in tokenizer.get_vocab())
    assert any("š" in token for token in tokenizer.get_vocab())


def test_the_alphabet_is_cut_at_its_limit():
    tokenizer = train_joint_wordpiece(pico.byte_level(), texts(), 300, alphabet=10)
    letters = {token for token in tokenizer.get_vocab() if len(token) == 1}
    assert len(letters) <= 10


@pytest.mark.parametrize("family", ["wordpiece", "byte_level"])
def test_special_tokens_are_those_of_the_model_and_are_put_around_texts(family):
    like = getattr(pico, family)()
    trained = train_joint_tokenizer([Corpus.from_lines(ENGLISH), Corpus.from_lines(FOREIGN)], like=like, vocab_size=300)
    assert isinstance(trained, PreTrainedTokenizerFast)
    for role in ("bos_token", "eos_token", "pad_token", "cls_token", "sep_token", "mask_token"):
        assert getattr(trained, role) == getattr(like, role)
    for parts in (("the river",), ("the river", "a door")):
        frame = [token for token in like(*parts).tokens() if token in like.all_special_tokens]
        assert [token for token in trained(*parts).tokens() if token in trained.all_special_tokens] == frame
    assert vocabulary_of(trained).spelling.family.name == "WORDPIECE"


@pytest.mark.parametrize(("word", "kept"), [("हिन्दी", "हिन्दी"), ("ที่นี่", "ที่นี่"), ("Tiếng", "tiếng"), ("Grüßé", "gruße")])
def test_an_uncased_vocabulary_keeps_marks_that_are_vowels_or_tones(word, kept):
    foreign = [word] * 100 if word != "Grüßé" else [*ENGLISH[:40], word]  # some words with accents, as in German
    corpora = [Corpus.from_lines(ENGLISH), Corpus.from_lines(foreign)]
    trained = train_joint_tokenizer(corpora, like=pico.wordpiece(), vocab_size=300, lowercase=True)
    assert trained.backend_tokenizer.normalizer.normalize_str(word) == kept
    assert trained.unk_token_id not in trained(word).input_ids


def test_lines_are_interleaved_until_the_longer_text_ends():
    assert list(interleave_lines([lambda: iter("ab"), lambda: iter("1234")])) == ["a", "1", "b", "2", "3", "4"]


def test_a_vocabulary_that_is_too_small_and_texts_without_words_are_rejected():
    with pytest.raises(InputError, match="allow more tokens"):
        train_joint_wordpiece(pico.byte_level(), texts(), 20)
    with pytest.raises(InputError, match="not possible"):
        train_joint_wordpiece(pico.byte_level(), texts(), 1)
    with pytest.raises(EvidenceError, match="no words"):
        train_joint_wordpiece(pico.byte_level(), [lambda: iter(()), lambda: iter(())], 100)
