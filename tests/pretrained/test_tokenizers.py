"""Tokenizers trained on a corpus."""

from __future__ import annotations

from relexify.pretrained import tokenizers
from relexify.text import Corpus
from tests import pico


def test_a_tokenizer_is_trained_on_a_sample_of_a_large_corpus(monkeypatch):
    corpus, like = Corpus.from_lines(pico.sentences(400)), pico.byte_level()

    def trained(text: Corpus) -> str:
        return str(tokenizers.train_tokenizer(text, like=like, vocab_size=330).backend_tokenizer.to_str())

    whole, sample = trained(corpus), trained(corpus.subsample(3_000))
    assert whole != sample
    monkeypatch.setattr(tokenizers, "MOST_TEXT", 3_000)
    assert trained(corpus) == sample
