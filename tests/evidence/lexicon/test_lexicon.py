"""Lexicons: order, duplicates, swapping, merging, identical words, pivoting."""

from __future__ import annotations

import unicodedata
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relexify.errors import InputError
from relexify.evidence.lexicon import BilingualLexicon

words = st.text("abc", min_size=1, max_size=2)
lexicons = st.lists(st.tuples(words, words), max_size=30).map(lambda pairs: BilingualLexicon(tuple(pairs)))


def test_exact_duplicates_are_dropped_and_the_first_is_kept():
    lexicon = BilingualLexicon((("b", "x"), ("a", "y"), ("b", "x"), ("b", "z")))
    assert lexicon.pairs == (("b", "x"), ("a", "y"), ("b", "z"))
    assert lexicon.source_words == ("b", "a")
    assert lexicon.target_words == ("x", "y", "z")


def test_a_column_without_words_is_rejected(tmp_path):
    file = tmp_path / "words.tsv"
    file.write_text("".join(f"{number}\tneno{number}\n" for number in range(5)))
    with pytest.raises(InputError, match=r"the first column of words\.tsv has no words \(such as '0'\)"):
        BilingualLexicon.load(file)
    file.write_text("".join(f"word{number}\t{'n.' if number % 2 else 'v.'}\n" for number in range(200)))
    with pytest.raises(InputError, match=r"second column .* has 200 entries, but only 2 different words"):
        BilingualLexicon.load(file)


@pytest.mark.parametrize(
    "pairs",
    [
        [("⠉⠁⠞", "paka")],
        [("2", "mbili"), ("two", "mbili")],
        [(f"lemma{number % 26}", f"form{number}") for number in range(3_900)],
        [(f"word{number}", "n." if number % 2 else "v.") for number in range(199)],
    ],
    ids=["braille", "some numbers", "many forms of few words", "a small list"],
)
def test_unusual_dictionaries_are_accepted(tmp_path, pairs):
    (tmp_path / "words.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    assert list(BilingualLexicon.load(tmp_path / "words.tsv").pairs) == pairs


@given(lexicons)
def test_swapping_twice_changes_nothing(lexicon):
    assert lexicon.swapped().swapped() == lexicon
    assert lexicon.swapped().source_words == lexicon.target_words


def test_merging_keeps_the_first_dictionary_first_and_names_both():
    merged = BilingualLexicon((("a", "x"),), "one").merged(BilingualLexicon((("b", "y"), ("a", "x")), "two"))
    assert merged.pairs == (("a", "x"), ("b", "y"))
    assert merged.name == "one + two"


def test_identical_words_leave_out_short_words_and_punctuation_but_keep_numerals():
    source = ["die", "Berlin", ",", "1984", "café", "only"]
    target = ["café", "die", "1984", ",", "Berlin"]
    assert BilingualLexicon.identical(source, target).source_words == ("Berlin", "1984", "café")


def test_identical_words_of_scripts_without_case_may_be_half_as_long():
    assert BilingualLexicon.identical(["日本", "日"], ["日", "日本"]).source_words == ("日本",)


@pytest.mark.parametrize("shortest", [1, 3, 7])
def test_the_shortest_identical_word_follows_the_argument(shortest):
    vocabulary = ["a" * length for length in range(1, 10)]
    found = BilingualLexicon.identical(vocabulary, vocabulary, shortest=shortest)
    assert min(map(len, found.source_words)) == shortest


def test_a_pivot_connects_the_outer_languages_ignoring_case():
    german = BilingualLexicon((("Haus", "house"), ("Hund", "Dog")), "de-en")
    swahili = BilingualLexicon((("House", "nyumba"), ("dog", "mbwa")), "en-sw")
    chained = german.through(swahili)
    assert chained.pairs == (("Haus", "nyumba"), ("Hund", "mbwa"))
    assert chained.name == "de-en through en-sw"


def test_two_agreeing_pivots_beat_one_and_the_limit_cuts_the_rest():
    left = BilingualLexicon((("Bank", "bank"), ("Bank", "bench")))
    right = BilingualLexicon((("bank", "ukingo"), ("bank", "benki"), ("bench", "benchi"), ("bench", "benki")))
    assert left.through(right, limit=1).pairs == (("Bank", "benki"),)


def test_a_very_ambiguous_pivot_does_not_flood_the_chain():
    left = BilingualLexicon((*((f"a{i}", "set") for i in range(100)), ("Hund", "dog")))
    right = BilingualLexicon((*(("set", f"b{i}") for i in range(100)), ("dog", "mbwa")))
    assert left.through(right).pairs == (("Hund", "mbwa"),)


@given(lexicons, lexicons)
def test_the_chain_equals_the_scores_written_out_as_loops(left, right):
    scores = defaultdict(float)
    for pivot in left.target_words:
        sources = [source for source, middle in left.pairs if middle == pivot]
        targets = [target for middle, target in right.pairs if middle == pivot]
        for source in sources:
            for target in targets:
                scores[source, target] += 1 / (len(sources) * len(targets))
    chained = left.through(right, limit=2)
    assert set(chained.pairs) <= set(scores)
    for source in left.source_words:
        kept = [scores[pair] for pair in chained.pairs if pair[0] == source]
        best = sorted((score for (word, _), score in scores.items() if word == source), reverse=True)[:2]
        assert kept == pytest.approx(best)


def test_target_words_get_the_unicode_form_of_the_text():
    lexicon = BilingualLexicon((("boy", "\u0932\u0921\u093c\u0915\u093e"), ("é", "bằng")))  # in NFC, as files are read
    assert lexicon.spelled_like("ein Text: bằng, café") == lexicon
    apart = lexicon.spelled_like(unicodedata.normalize("NFD", "bằng café"))
    assert apart.pairs[1] == ("é", unicodedata.normalize("NFD", "bằng"))
    assert apart.spelled_like("bằng") == lexicon
    # Most of a text decides: a quoted word in another form, and letters that no form composes, do not.
    mostly_apart = unicodedata.normalize("NFD", "bằng " * 3) + "café " + "\u095c" * 20
    assert lexicon.spelled_like(mostly_apart).pairs == (("boy", "\u0932\u095c\u0915\u093e"), apart.pairs[1])
    assert lexicon.spelled_like("bằng " * 3 + unicodedata.normalize("NFD", "café")) == lexicon
    whole = lexicon.spelled_like("\u0932\u095c\u0915\u0940 caf\u00e9")
    assert whole.pairs == (("boy", "\u0932\u095c\u0915\u093e"), ("é", "bằng"))
    both = lexicon.spelled_like("\u092a\u095d \u0932\u0921\u093c \u0932\u0921\u093c \u0932\u095c")
    assert both.pairs == lexicon.pairs  # the text has the letter more often as two characters


def test_vietnamese_words_get_the_form_of_a_text_with_only_the_tones_apart():
    words = ["người", "bằng", "tiếng Việt", "của"]
    lexicon = BilingualLexicon(tuple(("word", word) for word in words))

    def tones_apart(text: str) -> str:
        letters = (unicodedata.normalize("NFD", each) for each in text)
        tones = ("".join(mark for mark in each if mark in "\u0300\u0301\u0303\u0309\u0323") for each in letters)
        return "".join(
            unicodedata.normalize(
                "NFC", "".join(mark for mark in unicodedata.normalize("NFD", each) if mark not in tone)
            )
            + tone
            for each, tone in zip(text, tones, strict=True)
        )

    text = tones_apart("Người Việt nói tiếng Việt: của ai, bằng gì?")
    assert text not in {unicodedata.normalize(form, text) for form in ("NFC", "NFD")}
    assert [target for _, target in lexicon.spelled_like(text).pairs] == [tones_apart(word) for word in words]


@pytest.mark.parametrize("word", ["학교", "கொடு", "বোন"])
def test_parts_of_syllables_and_vowel_signs_get_the_form_of_the_text(word):
    composed, apart = (unicodedata.normalize(form, word) for form in ("NFC", "NFD"))
    assert composed != apart
    for before, after in ((composed, apart), (apart, composed), (apart, apart), (composed, composed)):
        lexicon = BilingualLexicon((("x", before),))
        assert lexicon.spelled_like(f"{after} " * 50).target_words == (after,)
    text = unicodedata.normalize("NFD", "나무 물 " * 50)
    unseen = BilingualLexicon((("x", composed),)).spelled_like(text)
    assert unseen.target_words == (apart,), "letters that the text does not have"


def test_apostrophes_inside_words_are_those_of_the_text():
    lexicon = BilingualLexicon((("Uzbek", "o'zbek"), ("meaning", "ma'no"), ("mountain", "tog'"), ("five", "п’ять")))
    text = "oʻzbek tili, maʼno va maʼlum: gʻarb, 'ko‘p' toʻgʻri"
    assert lexicon.spelled_like(text).target_words == ("oʻzbek", "maʼno", "togʻ", "пʻять")
    assert lexicon.spelled_like("у п'ять, м'яч").target_words == ("o'zbek", "ma'no", "tog'", "п'ять")
    assert lexicon.spelled_like("'quoted' text").target_words == lexicon.target_words
