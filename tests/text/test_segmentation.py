"""Segmentation: words written without spaces are found again."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from relexify.text import Segmenter, split_words, train_segmenter

LEXICON = [chr(0x4E00 + 3 * n) + chr(0x5E00 + 7 * n) + (chr(0x6E00 + n) if n % 3 == 0 else "") for n in range(300)]


def unspaced_sentences(seed: int, amount: int) -> list[list[str]]:
    """Sentences of known words; frequent ones come first, as in a real language."""
    draw = random.Random(seed)
    weights = [1 / (rank + 50) for rank in range(len(LEXICON))]
    return [draw.choices(LEXICON, weights, k=draw.randint(3, 9)) for _ in range(amount)]


def learn() -> Segmenter:
    splitter = train_segmenter("".join(words) + "。" for words in unspaced_sentences(0, 4_000))
    assert isinstance(splitter, Segmenter)
    return splitter


SEGMENTER = learn()


def test_words_without_spaces_are_found_in_text_never_seen() -> None:
    sentences = unspaced_sentences(1, 200)
    right = sum(SEGMENTER("".join(words)) == words for words in sentences)
    assert right >= 190


@settings(deadline=None, max_examples=60)
@given(st.text(st.sampled_from([*"".join(LEXICON[:9]), *"aé '-9。中𠮷\u0301"])))
def test_segmenting_keeps_every_character_but_space_in_order(text: str) -> None:
    assert "".join(SEGMENTER(text)) == "".join(text.split())


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(max_codepoint=0x52F)))
def test_spaced_scripts_are_split_as_without_a_segmenter(text: str) -> None:
    assert SEGMENTER(text) == split_words(text)


def test_spaced_languages_need_no_segmenter() -> None:
    assert train_segmenter(["Ng'ombe wangu ni mkubwa 中 na mzuri sana kuliko wote."]) is split_words
    assert train_segmenter([]) is split_words


def test_little_text_gives_single_letters_rather_than_a_crash() -> None:
    assert train_segmenter(["中文"])("中文") == ["中", "文"]


def test_an_alphabet_without_spaces_is_cut_into_more_than_letters() -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("กขคงจชซญดต", k=draw.randint(3, 7))) for _ in range(300)]
    sentences = ["".join(draw.choices(words, k=8)) for _ in range(3_000)]
    pieces = train_segmenter(sentences)("".join(words))
    assert len(set(pieces) & set(words)) > 200


def test_a_segmenter_survives_pickling_and_honours_its_size() -> None:
    assert pickle.loads(pickle.dumps(SEGMENTER))("".join(LEXICON[:5])) == SEGMENTER("".join(LEXICON[:5]))
    small = train_segmenter(["".join(words) for words in unspaced_sentences(0, 500)], vocab_size=800)
    assert isinstance(small, Segmenter)
    assert len(small.words) <= 800


def test_the_same_text_gives_the_same_words_in_every_process() -> None:
    script = "from tests.text.test_segmentation import SEGMENTER; print(SEGMENTER.words)"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout.strip() == str(SEGMENTER.words)
