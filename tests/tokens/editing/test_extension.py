"""Extended tokenizers: source text is encoded as before, target text becomes shorter."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from relexify.errors import EvidenceError
from relexify.tokens import extend_tokenizer, vocabulary_of
from relexify.tokens.editing.merges import learn_merges
from tests import pico

ENGLISH = pico.sentences(200)
FOREIGN = pico.sentences(200, words=pico.foreign_words(), seed=3)


def ignoring_merges():
    """Llama 3's layout as it is: a word that is a token is never cut."""
    tokenizer = pico.llama3_layout()
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["model"]["ignore_merges"] = True
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(state))
    return tokenizer


def with_token_after_pieces():
    """Unigram with a token outside its pieces, as T5's sentinels and the mask of XLM-R."""
    tokenizer = pico.unigram()
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    return tokenizer


LAYOUTS = {
    "byte level": pico.byte_level,
    "roberta": pico.roberta_tokenizer,
    "wordpiece": pico.wordpiece,
    "unigram": pico.unigram,
    "unigram and more": with_token_after_pieces,
    "byte fallback": pico.byte_fallback,
    "llama 2": pico.llama2_layout,
    "mistral": pico.mistral_layout,
    "gemma": pico.gemma_layout,
    "llama 3": ignoring_merges,
    "qwen": pico.qwen_layout,
}
layouts = pytest.mark.parametrize("layout", list(LAYOUTS))


def extended(source, lines=FOREIGN, english=ENGLISH, added=60):
    return extend_tokenizer(source, lambda: lines, lambda: english, added)


def count(tokenizer, lines):
    return sum(len(ids) for ids in tokenizer(lines, add_special_tokens=False).input_ids)


@cache
def pair(layout):
    """A tokenizer and its extension."""
    source = LAYOUTS[layout]()
    return source, extended(source).tokenizer


@layouts
def test_source_text_is_encoded_as_before_and_target_text_is_shorter(layout):
    source, target = pair(layout)
    vocabulary, before = vocabulary_of(target), vocabulary_of(source)
    assert vocabulary.tokens[: len(before)] == before.tokens
    assert vocabulary.special == before.special
    assert len(vocabulary) == len(before) + 60
    unseen = pico.sentences(50, seed=8)
    assert target(ENGLISH + unseen).input_ids == source(ENGLISH + unseen).input_ids
    if target.unk_token_id not in source(FOREIGN).input_ids[0]:  # unknown words are short
        assert count(target, FOREIGN) < 0.8 * count(source, FOREIGN)


@layouts
def test_target_text_survives_encoding_and_decoding(layout, tmp_path):
    source, target = pair(layout)
    normaliser = source.backend_tokenizer.normalizer
    target.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    ids = loaded(FOREIGN, add_special_tokens=False).input_ids
    assert ids == target(FOREIGN, add_special_tokens=False).input_ids
    assert loaded.unk_token_id not in set().union(*ids)
    for row, line in zip(ids, FOREIGN, strict=True):
        expected = normaliser.normalize_str(line).replace("▁", " ") if normaliser else line
        assert loaded.decode(row).split() == expected.split() or layout == "wordpiece"
        assert "".join(loaded.decode(row).split()) == "".join(expected.split())


@pytest.mark.parametrize("layout", ["byte level", "llama 2"])
def test_the_curve_is_the_length_of_the_text_with_that_many_tokens(layout):
    source = LAYOUTS[layout]()
    whole = extended(source, added=60)
    size = sum(len(line.encode()) + 1 for line in FOREIGN)
    for added in (20, 60):
        part = extended(source, added=added).tokenizer
        assert vocabulary_of(part).tokens == vocabulary_of(whole.tokenizer).tokens[: len(source) + added]
        assert whole.tokens_per_byte(added) == count(part, FOREIGN) / size


def test_pairs_of_the_source_text_are_not_merged():
    source, joined = pico.byte_level(), ["the teacherwater walks"] * 9
    changed = extended(source, lines=joined, english=ENGLISH, added=1).tokenizer
    kept = extended(source, lines=joined * 2 + FOREIGN, english=ENGLISH + joined, added=60).tokenizer
    assert count(changed, joined[:1]) < count(source, joined[:1])
    assert kept(joined[0]).input_ids == source(joined[0]).input_ids


def test_a_longer_wordpiece_does_not_replace_pieces_of_a_source_word():
    # Longest match first: the piece of a target word would also win in a source word with other pieces.
    source = pico.wordpiece()
    word = "walk" + "reader"
    pieces = source.tokenize(word + "s")
    target = extended(source, lines=[f"{word}s"] * 5 + [word] * 9, english=[*ENGLISH, f"{word}ing"], added=5).tokenizer
    assert target(f"{word}ing").input_ids == source(f"{word}ing").input_ids
    assert len(target.tokenize(f"{word}s")) < len(pieces)


def test_merges_are_those_of_byte_pair_encoding_written_as_a_loop():
    draw = np.random.default_rng(0)
    words = Counter(tuple(map(int, draw.integers(0, 4, draw.integers(2, 7)))) for _ in range(300))
    forbidden = {(0, 1), (2, 2)}
    spelling, texts, expected = list("abcd"), {word: list(word) for word in words}, []
    for _ in range(25):
        counts = Counter()
        for word, symbols in texts.items():
            for pair in pairwise(symbols):
                counts[pair] += words[word]
        options = [(-number, pair) for pair, number in counts.items() if pair not in forbidden]
        options = [(key, pair) for key, pair in options if spelling[pair[0]] + spelling[pair[1]] not in spelling]
        if not options or max(-key for key, _ in options) < 2:
            break
        _, (left, right) = min(options)
        saved = 0
        for word, symbols in texts.items():
            at = 0
            while at < len(symbols) - 1:
                if (symbols[at], symbols[at + 1]) == (left, right):
                    symbols[at : at + 2] = [len(spelling)]
                    saved += words[word]
                at += 1
        expected.append((left, right, spelling[left] + spelling[right], saved))
        spelling.append(spelling[left] + spelling[right])
    found = learn_merges(words, list("abcd"), 25, forbidden=forbidden)
    assert [(merge.left, merge.right, merge.token, merge.saved) for merge in found] == expected
    assert len(found) == 25


def test_a_text_without_anything_to_merge_is_rejected():
    with pytest.raises(EvidenceError, match="no token to add"):
        extended(pico.byte_level(), lines=ENGLISH)
