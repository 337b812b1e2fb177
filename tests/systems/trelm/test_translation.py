from __future__ import annotations

import math
import sys
from typing import Any

import pytest
import torch

from relexify.errors import InputError, MissingExtra
from relexify.scoring import bits_per_word, held_out_windows
from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.translation import bleu_scores, collapse_repeats, translate, translation_scores
from tests import pico

TOKENIZER = pico.wordpiece(pico.sentences() + pico.sentences(words=pico.foreign_words()), size=400)


def model() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return with_trilayer(pico.bert(TOKENIZER), ("en", "xx"))


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        ([5, 5, 5, 6, 6, 5, 3, 9], [5, 6, 5]),
        ([3, 5, 6], []),
        ([2, 5, 2, 5, 7], [5, 5, 7]),
        ([5, 6, 7], [5, 6, 7]),
        ([], []),
    ],
)
def test_repeats_are_collapsed_and_the_separator_ends_a_translation(tokens: list[int], kept: list[int]) -> None:
    assert collapse_repeats(tokens, 3, [2, 3]) == kept


def test_a_translation_is_the_most_likely_token_of_every_position() -> None:
    reader, sentences = model(), pico.sentences(5)
    found = translate(reader, TOKENIZER, sentences, reads="en", writes="xx", batch=2)
    for sentence, text in zip(sentences, found, strict=True):
        ids = torch.tensor([TOKENIZER(sentence).input_ids])
        with torch.no_grad():
            logits = reader(ids, languages=torch.tensor([0]), target_languages=torch.tensor([1])).logits
        tokens, expected = logits[0].argmax(-1).tolist(), []
        for position, token in enumerate(tokens):
            if token == TOKENIZER.sep_token_id:
                break
            if (position == 0 or tokens[position - 1] != token) and token not in TOKENIZER.all_special_ids:
                expected.append(token)
        assert text == TOKENIZER.decode(expected).strip()


def test_a_model_that_writes_the_references_has_a_perfect_score() -> None:
    reader, sentences = model(), pico.sentences(40)
    found = translate(reader, TOKENIZER, sentences, reads="en", writes="xx")
    pairs = [*zip(sentences, found, strict=True), ("", "")]
    scores = translation_scores(reader, TOKENIZER, pairs, reads="en", writes="xx")
    assert [score.metric for score in scores] == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"]
    assert all(score.value == pytest.approx(100) for score in scores)
    assert all(score.examples == sum(map(bool, found)) > 10 for score in scores)
    assert all(score.higher_is_better and score.task == "translation en → xx" for score in scores)
    capitals = [(first, second.upper()) for first, second in pairs]  # the tokenizer knows none
    assert translation_scores(reader, TOKENIZER, capitals, reads="en", writes="xx") == scores
    other = translation_scores(reader, TOKENIZER, pairs, reads="xx", writes="en")
    assert other[0].value < 100


def test_bleu_is_the_geometric_mean_of_the_precisions() -> None:
    found = bleu_scores(["a b c d e"], ["a b x d e"])
    one, two = 4 / 5, 2 / 4  # clipped precisions; nothing is too short
    assert found[0].value == pytest.approx(100 * one)
    assert found[1].value == pytest.approx(100 * math.sqrt(one * two))
    by_character = bleu_scores(["abc"], ["abd"], tokenize="char")
    assert by_character[0].value == pytest.approx(100 * 2 / 3)


def test_translations_that_cannot_be_scored_are_rejected() -> None:
    with pytest.raises(InputError, match="no tokenisation 'words'"):
        bleu_scores(["a"], ["a"], tokenize="words")
    with pytest.raises(InputError, match="2 translations and 1 references"):
        bleu_scores(["a", "b"], ["a"])
    with pytest.raises(InputError, match="no pair of sentences"):
        translation_scores(model(), TOKENIZER, [("", "")], reads="en", writes="xx")
    with pytest.raises(InputError, match="does not have the language 'de'"):
        translate(model(), TOKENIZER, ["a"], reads="de", writes="xx")


def test_a_missing_package_is_named(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingExtra, match=r"relexify\[translation\]"):
        bleu_scores(["a"], ["a"])


def test_long_sentences_are_cut_with_a_warning(caplog: Any) -> None:
    found = translate(model(), TOKENIZER, ["the river " * 80], reads="en", writes="xx")
    assert len(found) == 1
    assert "1 sentence is truncated" in caplog.text


def test_bits_per_word_are_those_of_every_token_masked_once() -> None:
    reader, lines = model(), pico.sentences(4)
    score = bits_per_word(reader, TOKENIZER, lines, window=20)
    windows = held_out_windows(TOKENIZER, lines, "encoder", length=20)
    nats = 0.0
    with torch.no_grad():
        for ids, labels in zip(windows.inputs, windows.labels, strict=True):
            chances = torch.log_softmax(reader(torch.from_numpy(ids)[None]).logits[0], -1)
            nats -= sum(float(chances[position, label]) for position, label in enumerate(labels) if label >= 0)
    assert score.metric == "bits per word"
    assert score.examples == windows.tokens
    assert score.value == pytest.approx(nats / windows.tokens / math.log(2), rel=1e-5)
    assert bits_per_word(reader, TOKENIZER, lines, window=20) == score
    with pytest.raises(InputError, match="not a masked language model"):
        bits_per_word(pico.gpt2(pico.byte_level()), pico.byte_level(), lines)
