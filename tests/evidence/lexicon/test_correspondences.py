"""Case variants, repeats and the held-out split."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from relexify.evidence.lexicon import BilingualLexicon, find_correspondences
from relexify.evidence.lexicon.correspondences import choose_held_out, questions

words = st.text("aAbB", min_size=1, max_size=2)
vocabularies = st.lists(words, unique=True, max_size=12)


def index(vocabulary: list[str]) -> dict[str, int]:
    return {word: row for row, word in enumerate(vocabulary)}


@given(st.lists(st.tuples(words, words), unique=True, max_size=12), vocabularies, vocabularies)
def test_every_combination_of_spellings_counts_as_often_as_in_the_reference_loop(pairs, source, target):
    expected = []
    for entry, (left, right) in enumerate(pairs):
        for left_form in (left, left.lower(), left.title()):
            for right_form in (right, right.lower(), right.title()):
                if left_form in source and right_form in target:
                    expected.append((source.index(left_form), target.index(right_form), entry))
    found = find_correspondences(BilingualLexicon(tuple(pairs)), index(source), index(target))
    assert list(zip(found.source, found.target, found.entry, strict=True)) == expected
    assert found.entries_used == len({entry for *_, entry in expected})
    assert found.coverage == (found.entries_used / len(pairs) if pairs else 0)
    assert found.pair_counts().sum() == len(expected)


def test_a_lower_case_pair_counts_four_times():
    found = find_correspondences(BilingualLexicon((("a", "b"),)), {"a": 0}, {"b": 0})
    assert len(found) == 4
    assert found.pair_counts().toarray().tolist() == [[4.0]]


def test_no_word_is_on_both_sides_of_the_split_even_in_another_case():
    pairs = tuple((f"word{i}".title() if j else f"word{i}", f"t{i}{j}") for i in range(40) for j in range(2))
    lexicon = BilingualLexicon(pairs)
    found = find_correspondences(lexicon, index(list(lexicon.source_words)), index(list(lexicon.target_words)))
    held = choose_held_out(found, 0.5, most=10, seed=3)
    assert len(set(found.word[held])) == 10
    assert not set(found.word[held]) & set(found.word[~held])
    assert np.array_equal(held, choose_held_out(found, 0.5, most=10, seed=3))
    assert not np.array_equal(held, choose_held_out(found, 0.5, most=10, seed=4))


def test_a_question_uses_the_first_spelling_and_accepts_every_listed_translation():
    lexicon = BilingualLexicon((("haus", "house"), ("haus", "home")))
    found = find_correspondences(lexicon, {"Haus": 7, "haus": 9}, {"house": 1, "Home": 2, "home": 5})
    rows, answers = questions(found, np.ones(len(found), dtype=bool))
    assert rows.tolist() == [9]
    assert answers == [{1, 2, 5}]


def test_turkish_words_are_found_in_their_own_upper_and_lower_case():
    lexicon = BilingualLexicon((("first", "ilk"), ("light", "ışık"), ("ankle", "Irmak"), ("Istanbul", "İSTANBUL")))
    target = index(["İlk", "Işık", "ırmak", "istanbul", "İstanbul", "Ilk", "irmak", "i\u0307stanbul"])
    found = find_correspondences(lexicon, index(["first", "light", "ankle", "Istanbul"]), target)
    assert set(found.target) == {0, 1, 2, 3, 4}, "the last three are not the same words"
    german = BilingualLexicon((("first", "igel"), ("light", "Straße"), ("Odos", "ΟΔΟΣ")))
    found = find_correspondences(
        german, index(["first", "light", "Odos"]), index(["Igel", "İgel", "straße", "strasse", "οδος", "Οδος"])
    )
    assert set(found.target) == {0, 2, 4, 5}


def test_an_apostrophe_or_a_mark_does_not_begin_a_word():
    lexicon = BilingualLexicon((("cow", "ng'ombe"), ("Uzbek", "oʻzbek"), ("school", "e\u0301cole")))
    found = find_correspondences(
        lexicon, index(list(lexicon.source_words)), index(["Ng'ombe", "Oʻzbek", "E\u0301cole"])
    )
    assert set(found.target) == {0, 1, 2}
