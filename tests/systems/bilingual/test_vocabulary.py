"""The vocabulary of RAMEN's paper: a BPE of characters, trained as docs/bilingual.md shows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from relexify.evidence.bitext.bitext import Bitext
from relexify.evidence.bitext.encoding import encode_bitext
from relexify.pretrained.loading import load_tokenizer
from relexify.systems.bilingual.folder import BilingualBundle
from relexify.systems.bilingual.training import train_bilingual
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.tokens import TokenForm, vocabulary_of
from relexify.training.options import Training
from tests import pico

PAGE = Path(__file__).parents[3] / "docs" / "bilingual.md"
WORDS = pico.foreign_words()
LINES = pico.sentences(300, words=WORDS)


@pytest.fixture
def folder(tmp_path, cache, monkeypatch):
    """A folder with a BERT, text of two languages, and the tokenizer that the page trains."""
    monkeypatch.chdir(tmp_path)
    pico.saved("bert", tmp_path / "bert-base-cased")
    Path("swahili.txt").write_text("\n".join(LINES))
    Path("english.txt").write_text("\n".join(pico.sentences(300)))
    example = re.search(r"^```python\n(from tokenizers .*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    exec(example[1].replace("32_000", "250"), {})  # our own page
    return tmp_path


def test_pieces_are_cased_and_the_last_one_of_a_word_is_marked(folder):
    tokenizer, source = load_tokenizer("bpe-sw"), load_tokenizer("bert-base-cased")
    assert len(tokenizer) == 250
    assert tokenizer.all_special_ids == source.all_special_ids
    for word in (WORDS[0], WORDS[1].capitalize(), f"{WORDS[2]}{WORDS[3]}"):
        pieces = tokenizer.tokenize(word)
        assert "".join(pieces) == f"{word}</w>"
        assert [piece.endswith("</w>") for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert TokenForm(WORDS[0], starts_word=True) in vocabulary_of(tokenizer).ids_by_form
    framed = tokenizer("Ra", "ki", return_token_type_ids=True)
    assert [framed.input_ids[0], framed.input_ids[-1]] == [tokenizer.cls_token_id, tokenizer.sep_token_id]
    assert sorted(set(framed.token_type_ids)) == [0, 1]


def test_rows_are_translation_probabilities_and_both_languages_are_trained(folder):
    pairs = list(zip(pico.sentences(60, seed=5), pico.sentences(60, seed=5, words=WORDS), strict=True))
    Path("pairs.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in pairs))
    source, target = load_tokenizer("bert-base-cased"), load_tokenizer("bpe-sw")
    encoded = encode_bitext(Bitext.open("pairs.tsv"), source, target)
    lengths = zip(encoded.source.lengths, encoded.target.lengths, strict=True)
    Path("links.txt").write_text("".join(" ".join(f"{n}-{n}" for n in range(min(pair))) + "\n" for pair in lengths))
    options = Transfer(
        "bert-base-cased", "grafted", "swahili.txt", method="ramen", tokenizer="bpe-sw", bitext="pairs.tsv",
        alignment="links.txt", held_out_bytes=500,
    )  # fmt: skip
    mixture = run_transfer(options).graft.mixture
    counts = np.zeros(mixture.weights.shape)
    for number, (one, other) in enumerate(pairs):
        ids = source(one, add_special_tokens=False).input_ids, target(other, add_special_tokens=False).input_ids
        assert len(ids[1]) == encoded.target.lengths[number]
        for read, written in zip(*ids, strict=False):
            counts[written, read] += 1
    seen = counts.any(axis=1)
    expected = counts[seen] / counts[seen].sum(axis=1, keepdims=True)
    assert np.allclose(mixture.weights.toarray()[seen], expected, atol=1e-6)
    training = Training(steps=4, batch=4, length=32, learning_rate=1e-3, held_out_bytes=500)
    train_bilingual("bert-base-cased", "grafted", "both", "swahili.txt", "english.txt", training)
    tokenizers = BilingualBundle.load("both").tokenizers
    line = LINES[0]
    assert tokenizers["target"](line).input_ids == target(line).input_ids
    assert tokenizers["source"](line).input_ids == source(line).input_ids
