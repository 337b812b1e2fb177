"""The invented language: one to one, cased, regular, and the same in every process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relexify.text import english_from_python, invent

PROSE = english_from_python(300_000)
LANGUAGE = invent(PROSE)
english_words = st.one_of(
    st.sampled_from(list(LANGUAGE.dictionary)),
    st.text("abcdefghijklmnopqrstuvwxyzé", min_size=1),
    st.builds(str.__add__, st.sampled_from(list(LANGUAGE.dictionary)), st.sampled_from(["s", "ed", "ing", "ly", "'s"])),
)


def test_no_two_words_share_an_invented_word_and_none_is_english() -> None:
    invented = set(LANGUAGE.dictionary.values())
    assert len(LANGUAGE.dictionary) > 3_000
    assert len(invented) == len(LANGUAGE.dictionary)
    assert not invented & set(LANGUAGE.dictionary)
    assert LANGUAGE.pairs() == list(LANGUAGE.dictionary.items())


@settings(deadline=None, max_examples=60)
@given(st.lists(english_words, min_size=2, unique=True))
def test_unseen_words_stay_distinct(words: list[str]) -> None:
    assert len({LANGUAGE.translate(word) for word in words}) == len(words)
    unseen = {LANGUAGE.translate(word) for word in words if word not in LANGUAGE.dictionary}
    assert not unseen & set(LANGUAGE.dictionary.values())


def test_a_translation_can_be_read_back_with_the_dictionary() -> None:
    text = PROSE[5].lower().replace("’", "'")
    assert LANGUAGE.gloss(LANGUAGE.translate(text)) == text
    assert LANGUAGE.gloss(f"{LANGUAGE.translate('The')} xyzzy, 5!") == "the ?, 5!"


@settings(deadline=None, max_examples=60)
@given(st.text())
def test_everything_but_words_is_kept(text: str) -> None:
    def skeleton(given_text: str) -> str:
        return re.sub(r"[^\W\d_]+(?:['’][^\W\d_]+)*", "w", given_text)

    assert skeleton(LANGUAGE.translate(text)) == skeleton(text)


def test_letter_case_is_kept() -> None:
    word = LANGUAGE.dictionary["object"]
    assert LANGUAGE.translate("object Object OBJECT") == f"{word} {word.capitalize()} {word.upper()}"
    assert LANGUAGE.translate("A") == LANGUAGE.dictionary["a"].capitalize()


def test_apostrophes_keep_their_shape() -> None:
    assert "'" in LANGUAGE.translate("isn't")
    assert LANGUAGE.translate("isn’t") == LANGUAGE.translate("isn't").replace("'", "’")
    assert LANGUAGE.translate("object's").startswith(LANGUAGE.dictionary["object"])


@pytest.mark.parametrize(
    ("stem", "form", "other_stem", "other_form"),
    [
        ("object", "objects", "function", "functions"),
        ("return", "returned", "call", "called"),
        ("call", "calling", "make", "making"),
        ("walk", "walked", "plan", "planned"),
        ("city", "cities", "class", "classes"),
    ],
)
def test_one_suffix_of_english_is_one_ending(stem: str, form: str, other_stem: str, other_form: str) -> None:
    language = invent([stem, form, other_stem, other_form, *PROSE[:100]])
    words = language.dictionary
    assert words[form].startswith(words[stem])
    assert words[form].removeprefix(words[stem]) == words[other_form].removeprefix(words[other_stem])


def test_frequent_words_are_short() -> None:
    lengths = [len(invented) for invented in LANGUAGE.dictionary.values()]
    assert mean(lengths[:50]) < mean(lengths[500:1500]) < 10
    assert mean(lengths[:50]) < 5


def test_words_may_be_given_with_their_counts() -> None:
    counted = invent(Counter({"The": 3, "cat": 2, "well-known": 1, "42": 9}))
    assert list(counted.dictionary) == ["the", "cat", "known", "well"]
    assert counted == invent(["the", "THE", "the cat", "cat known well"])


def test_another_seed_is_another_language() -> None:
    assert invent(PROSE[:50], seed=1).dictionary != invent(PROSE[:50], seed=2).dictionary


def test_the_same_seed_is_the_same_language_in_every_process() -> None:
    script = (
        "from relexify.text import english_from_python, invent\n"
        "prose = english_from_python(50_000)\n"
        "print(invent(prose, 7).translate(' '.join(prose) + ' zaphod'))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    prose = english_from_python(50_000)
    assert run.stdout.rstrip("\n") == invent(prose, 7).translate(" ".join(prose) + " zaphod")
