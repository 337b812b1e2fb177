"""The verdict tells a useless dictionary and noisy vectors from good evidence, and says why."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

import numpy as np
import pytest

from relexify.scoring import held_out_windows
from relexify.systems.transfer.assessment.dictionary import related_translations, share_closer_than_random
from relexify.systems.transfer.assessment.start import (
    START_ENTRIES,
    BitextCheck,
    DictionaryCheck,
    ExtensionCheck,
    Start,
    TextCoverage,
    cover_text,
)
from relexify.systems.transfer.assessment.verdict import judge
from tests import pico

GOOD = Start(
    method="blend",
    origins={"none": 10, "special": 5, "copied": 20, "pieces": 0, "mixed": 965},
    fallback="source-rows",
    alignment=None,
    bits_per_byte={"original": 3.4, "random": 3.1, "shuffle": 3.3, "blend": 2.8},
    text=TextCoverage(1_000, 180, "word", 500, 250, {"mixed": 0.9, "none": 0.1}),
    dictionary=DictionaryCheck(tokens=400, text_share=0.4, words=300, related=0.7),
)


def aligned(right: int, words: int) -> Start:
    quality = {"precision": right / words, "csls_precision": 0.0, "words": words, "candidates": 1_000}
    alignment = {"pairs_used": 1_000, "coverage": 0.5, "quality": quality}
    return replace(GOOD, alignment=alignment, dictionary=None, bits_per_byte=EQUAL)


UNTESTED = replace(GOOD, dictionary=None)
EQUAL = {"original": 3.4, "random": 2.82, "shuffle": 3.3, "blend": 2.8}
"""Scores that are hardly better than those of random rows."""


def test_a_sound_dictionary_is_a_good_start_even_if_random_rows_score_the_same():
    verdict = judge(replace(GOOD, bits_per_byte=EQUAL))
    assert verdict.start == "good"
    assert "related translations in 70.0% of 300 cases" in verdict.reason
    assert (
        "the model needs 2.800 bits per byte, and 250 tokens for the text instead of 500; the original model needs "
        "3.400 bits per byte" in verdict.reason
    )
    assert verdict.reason.endswith(
        "Without evidence, it needs 2.820 with random rows and 3.300 with shuffled rows. That it needs hardly more "
        "with random rows is common and says little: rows from evidence usually lead early in training."
    )
    worse = judge(replace(GOOD, bits_per_byte={**EQUAL, "blend": 2.9}))
    assert worse.start == "good"
    assert worse.reason.endswith(
        "That it needs less with random rows is common and says little: rows from evidence usually lead early in "
        "training."
    )
    better = judge(GOOD).reason
    assert better.endswith("Without evidence, it needs 3.100 with random rows and 3.300 with shuffled rows.")


def test_an_original_model_that_predicts_the_text_better_is_not_concealed():
    verdict = judge(replace(GOOD, bits_per_byte={**EQUAL, "original": 2.0}))
    assert verdict.start == "good"
    assert "the original model still needs less, 2.000, so train the new one before you use it" in verdict.reason


def test_without_a_test_of_the_evidence_a_good_start_beats_both_baselines():
    verdict = judge(UNTESTED)
    assert verdict.start == "good"
    assert "2.800 bits per byte, against 3.100 with random rows and 3.300 with shuffled rows" in verdict.reason
    verdict = judge(replace(UNTESTED, bits_per_byte=EQUAL))
    assert verdict.start == "open"
    assert "relexify advise" in verdict.reason


def test_text_alone_is_not_called_evidence_that_works():
    assert "tokens that both vocabularies have, help" in judge(replace(UNTESTED, given=())).reason
    for given in (("dictionary",), None):
        assert judge(replace(UNTESTED, given=given)).reason.count("the evidence works") == 1
    assert "the evidence works" not in judge(replace(UNTESTED, given=("source_corpus",))).reason
    scores = {**UNTESTED.bits_per_byte, "fvt": 2.8}
    unused = judge(replace(UNTESTED, method="fvt", bits_per_byte=scores, given=("dictionary",)))
    assert "tokens that both vocabularies have, help" in unused.reason


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ((), "a dictionary (--dictionary), or text in the model's language (--source-corpus)."),
        (("source_corpus",), "give the method blend a dictionary (--dictionary)."),
        (("dictionary",), ""),
        (("bitext", "source_corpus"), ""),
        (None, ""),
    ],
)
def test_without_translations_the_verdict_names_the_evidence_to_add(given, remedy):
    silent = replace(UNTESTED, text=replace(GOOD.text, origins={"none": 0.63, "mixed": 0.37}))
    for start in (replace(UNTESTED, bits_per_byte=EQUAL), replace(UNTESTED, bits_per_byte={}), silent):
        reason = judge(replace(start, given=given)).reason
        assert remedy in reason
        assert ("--dictionary" in reason) == bool(remedy)


def test_a_useless_dictionary_that_is_left_out_need_not_improve_the_first_score():
    useless = replace(GOOD, dictionary=DictionaryCheck(tokens=400, text_share=0.4, words=300, related=0.5))
    reason = judge(useless).reason
    assert "Without the dictionary, the score before training may be about the same (2.800)" in reason
    assert "the methods blend and fvt use these without any further evidence." in reason
    assert "score before training" not in judge(replace(useless, bits_per_byte={})).reason
    assert "Without the dictionary" not in judge(aligned(0, 128)).reason


def test_a_poor_verdict_says_which_options_to_change():
    useless = DictionaryCheck(tokens=400, text_share=0.4, words=300, related=0.5)
    assert judge(replace(GOOD, dictionary=useless)).changes == {"dictionary": None}
    assert judge(replace(GOOD, method="random")).changes == {"method": "blend"}
    noise = replace(aligned(0, 128), method="wechsel")
    assert judge(replace(noise, given=["dictionary"])).changes == {"method": "blend"}
    assert judge(noise).changes == {"method": "fvt"}
    assert judge(GOOD).changes == {}


@pytest.mark.parametrize(
    ("related", "words", "start"),
    [
        # Correct, with half of the entries shuffled, and with all of them: English with Swahili, German, Uyghur and
        # Chinese (3 MB of text each), and with 0.3 MB of Swahili.
        *((0.617, 2127, "good"), (0.539, 2127, "open"), (0.506, 2127, "poor")),
        *((0.585, 3776, "good"), (0.517, 3776, "open")),
        *((0.577, 566, "good"), (0.533, 566, "open"), (0.495, 566, "poor")),
        *((0.574, 1481, "good"), (0.524, 1481, "open"), (0.494, 1481, "poor")),
        *((0.561, 1756, "good"), (0.481, 1756, "poor")),
    ],
)
def test_dictionaries_of_real_languages_are_judged_by_their_translations_and_not_by_the_score(related, words, start):
    check = DictionaryCheck(tokens=3_000, text_share=0.4, words=words, related=related)
    for scores in (GOOD.bits_per_byte, EQUAL, {}):
        verdict = judge(replace(GOOD, dictionary=check, bits_per_byte=scores))
        assert verdict.start == start
        assert f"{related:.1%} of {words:,} cases" in verdict.reason


@pytest.mark.parametrize(("words", "start"), [(365, "open"), (2_000, "poor")])
def test_translations_of_a_few_words_are_not_called_random_if_a_sound_dictionary_may_score_the_same(words, start):
    check = DictionaryCheck(tokens=427, text_share=0.1, words=words, related=0.510 if words > 1_000 else 0.528)
    verdict = judge(replace(GOOD, dictionary=check))
    assert verdict.start == start
    assert ("too few words to tell" in verdict.reason) == (start == "open")
    assert ("look random" in verdict.reason) == (start == "poor")


def test_a_doubtful_dictionary_is_judged_with_its_error_the_size_of_the_text_and_the_baselines():
    doubtful = replace(GOOD, dictionary=replace(GOOD.dictionary, related=0.527, words=540), corpus_bytes=3_000_000)
    reason = judge(doubtful).reason
    assert "52.7% of 540 cases, give or take 1.2%" in reason
    assert "Chance gives 50%, and correct dictionaries of four languages gave 57% to 62% with 3 MB of text. " in reason
    assert "Before training" not in reason
    worse = judge(replace(doubtful, corpus_bytes=500_000, bits_per_byte={**EQUAL, "blend": 2.9}))
    assert worse.start == "open"
    assert "with 3 MB of text, and as little as 53% with less, as here (0.5 MB). Read" in worse.reason
    assert "the model needs less with random rows (2.820, against 2.900 bits per byte)" in worse.reason


@pytest.mark.parametrize(("related", "words", "is_near"), [(0.557, 364, True), (0.617, 2_127, False)])
def test_a_dictionary_that_hardly_reaches_the_threshold_is_said_to(related, words, is_near):
    verdict = judge(replace(GOOD, dictionary=DictionaryCheck(400, 0.17, words, related)))
    assert verdict.start == "good"
    assert ("hardly more than the 55% that are needed, give or take 1.5%" in verdict.reason) == is_near


@pytest.mark.parametrize(
    ("text_share", "matches", "start"), [(0.065, 33, "poor"), (0.065, 5_000, "good"), (0.17, 33, "good")]
)
def test_a_dictionary_whose_entries_hardly_match_is_not_judged_by_the_scores(text_share, matches, start):
    check = DictionaryCheck(179, text_share, 179, None, entries=100_000, frequent=24_162, matches=matches)
    assert judge(replace(GOOD, dictionary=check)).start == start


def test_a_useless_dictionary_is_shown_as_it_was_read():
    read = ["die → n."]
    check = DictionaryCheck(1, 0.01, words=0, related=None, entries=4_000, frequent=900, matches=1, examples=read)
    reason = judge(replace(GOOD, dictionary=check)).reason
    assert "1 has a translation that is a token of the text. Some of its entries, as they were read: die → n." in reason


def test_a_dictionary_just_below_the_threshold_is_not_said_to_reach_it():
    check = DictionaryCheck(tokens=3_000, text_share=0.4, words=3_000, related=0.5494)
    verdict = judge(replace(GOOD, dictionary=check))
    assert verdict.start == "open"
    assert "in 54.9% of 3,000 cases, give or take 0.5%." in verdict.reason
    assert judge(replace(GOOD, dictionary=replace(check, related=0.5496))).start == "good"


@pytest.mark.parametrize(
    ("entries", "frequent", "matches", "unknown"),
    [
        (30, 22, 9, "it helps"),
        (30, 12, 4, "it helps"),
        (1_000, 700, 70, "it helps"),
        (30, 19, 1, "it is for this language"),
    ],
)
def test_a_small_dictionary_is_said_to_be_too_small_and_not_to_be_for_another_language(
    entries, frequent, matches, unknown
):
    check = DictionaryCheck(matches, 0.002, words=0, related=None, entries=entries, frequent=frequent, matches=matches)
    expected = f"too small to tell whether {unknown}: its {entries:,} entries translate {matches} tokens, 0.2% of the "
    expected += "text, and the other tokens are guessed from these few translations."
    for scores in (GOOD.bits_per_byte, EQUAL, {}):
        verdict = judge(replace(GOOD, dictionary=check, bits_per_byte=scores))
        assert verdict.start == "open"
        assert expected in verdict.reason


@pytest.mark.parametrize(
    ("entries", "words"), [(1, "is too small .* its one entry translates"), (20_000, "has too few words of the text")]
)
def test_a_dictionary_is_called_small_by_its_entries(entries, words):
    check = DictionaryCheck(150, 0.04, words=140, related=None, entries=entries, frequent=2_000, matches=100)
    assert re.search(words, judge(replace(GOOD, dictionary=check)).reason)


def test_a_small_dictionary_that_translates_enough_of_the_text_is_judged_by_the_scores():
    check = DictionaryCheck(tokens=100, text_share=0.1, words=60, related=None, entries=90, frequent=80, matches=60)
    assert judge(replace(GOOD, dictionary=check)).start == "good"
    reason = judge(replace(GOOD, dictionary=check, bits_per_byte=EQUAL)).reason
    assert "only 0.020 bits per byte better than without evidence, too little to tell" in reason
    untested = "Whether the translations in the dictionary are right was not tested: .* translates 60, .* needs 300"
    assert re.search(untested, reason)
    assert re.search(untested, judge(replace(GOOD, dictionary=check, bits_per_byte={})).reason)
    assert "not tested" not in judge(replace(GOOD, dictionary=replace(check, words=400, related=0.6))).reason


@pytest.mark.parametrize(
    ("own", "better"),
    [(2.771, "only 0.049 bits per byte better than"), (2.82, "no better than"), (2.9, "no better than")],
)
def test_a_small_gain_is_too_little_to_tell_and_only_none_is_no_better(own, better):
    verdict = judge(replace(UNTESTED, bits_per_byte={**EQUAL, "blend": own}))
    assert verdict.start == "open"
    assert f"it predicts the text {better} without evidence" in verdict.reason


@pytest.mark.parametrize(("right", "start"), [(0, "poor"), (6, "poor"), (7, "open"), (25, "open"), (26, "good")])
def test_vectors_that_find_next_to_no_translations_are_noise_and_good_ones_a_good_start(right, start):
    verdict = judge(aligned(right, 128))
    assert verdict.start == start
    assert (f"{right} of 128 held-out words" in verdict.reason) == (start != "open")


@pytest.mark.parametrize(("size", "start"), [(2_000, "poor"), (589_000, "good"), (None, "good")])
def test_a_few_kilobytes_of_text_are_a_poor_start_whatever_the_scores(size, start):
    verdict = judge(replace(GOOD, corpus_bytes=size))
    assert verdict.start == start
    assert ("The text has only 2.0 kB" in verdict.reason) == (start == "poor")


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (DictionaryCheck(tokens=0, text_share=0.0, words=0, related=None), "translates 0 tokens, 0.0% of the text: it"),
        (
            DictionaryCheck(tokens=12, text_share=0.004, words=12, related=None),
            "12 tokens, 0.4% of the text, and the other tokens are guessed from these few translations: it is probably",
        ),
        (
            DictionaryCheck(tokens=0, text_share=0.0, words=0, related=None, entries=30, frequent=22, matches=0),
            "entries with a frequent word of the model's language, 0 have a translation that is a token of the text.",
        ),
        (
            DictionaryCheck(
                tokens=24, text_share=0.03, words=12, related=None, entries=3_000, frequent=1_500, matches=40
            ),
            "Of its 1,500 entries with a frequent word of the model's language, 40 have",
        ),
        (  # for another source language
            DictionaryCheck(tokens=2, text_share=0.001, words=2, related=None, entries=3_000, frequent=3, matches=2),
            "Of its 3 entries with a frequent word of the model's language, 2 have",
        ),
        (DictionaryCheck(tokens=400, text_share=0.4, words=300, related=0.51), "51.0% of 300 cases, and 50% is chance"),
    ],
)
def test_a_useless_dictionary_is_a_poor_start_and_the_gain_is_explained_by_spelling(check, reason):
    verdict = judge(replace(GOOD, dictionary=check))
    assert verdict.start == "poor"
    assert reason in verdict.reason
    assert "0.300 bits per byte) comes from tokens that both" in verdict.reason
    alone = judge(replace(GOOD, dictionary=check, bits_per_byte={}))
    assert "comes from" not in alone.reason


@pytest.mark.parametrize(("size", "start"), [(1, "unknown"), (499, "unknown"), (500, "good"), (1_000, "good")])
def test_there_is_no_verdict_from_too_little_held_out_text(size, start):
    for tested in (GOOD, UNTESTED, replace(UNTESTED, text=replace(GOOD.text, origins={"mixed": 1.0}))):
        verdict = judge(replace(tested, text=replace(tested.text, bytes=size)))
        assert verdict.start == start
        assert (f"Only {size:,} bytes of held-out text were examined" in verdict.reason) == (start == "unknown")
        assert ("fewer than 500 are too few for a verdict" in verdict.reason) == (start == "unknown")


def test_what_too_little_held_out_text_seems_to_show_is_no_reason_for_a_poor_start():
    short = TextCoverage(300, 60, "word", 70, 80, {"none": 0.9})  # longer with the new tokenizer, without evidence
    for dictionary in (None, DictionaryCheck(tokens=3, text_share=0.0, words=3, related=None, entries=9_000)):
        assert judge(replace(GOOD, text=short, dictionary=dictionary, bits_per_byte=EQUAL)).start == "unknown"


def test_evidence_that_is_useless_without_any_held_out_text_is_a_poor_start_with_too_little_of_it_too():
    short = replace(GOOD.text, bytes=300)
    random = replace(GOOD, dictionary=DictionaryCheck(tokens=400, text_share=0.4, words=2_000, related=0.5))
    starts = (random, aligned(0, 128), replace(GOOD, corpus_bytes=2_000), replace(GOOD, method="random"))
    words = ("look random", "0 of 128 held-out words", "has only 2.0 kB", "uses no evidence")
    for start, said in zip(starts, words, strict=True):
        verdict = judge(replace(start, text=short))
        assert verdict.start == "poor"
        assert said in verdict.reason
        assert "bits per byte" not in verdict.reason


@pytest.mark.parametrize(
    ("whole", "scores", "remedy"),
    [
        (40_000, GOOD.bits_per_byte, "score more of it (--set held_out_bytes=2000)"),
        (300, GOOD.bits_per_byte, "give other text of 1,000 bytes or more to score on (--held-out)"),
        (None, GOOD.bits_per_byte, "give other text of 1,000 bytes or more to score on (--held-out)"),
        (None, {}, "bytes of the corpus were examined; fewer than 500 are too few for a verdict: give more text (--c"),
    ],
)
def test_a_verdict_that_is_missing_says_how_to_get_one(whole, scores, remedy):
    start = replace(GOOD, text=replace(GOOD.text, bytes=300, whole_bytes=whole), bits_per_byte=scores)
    assert remedy in judge(start).reason


def test_text_without_evidence_counts_and_not_the_vocabulary():
    rare = replace(GOOD, origins={"none": 900, "special": 5, "mixed": 95})
    assert judge(rare).start == "good"
    frequent = replace(UNTESTED, text=replace(GOOD.text, origins={"none": 0.63, "mixed": 0.37}))
    assert "no evidence for 63% of the text" in judge(frequent).reason


def test_without_scores_or_evidence_nothing_is_promised():
    assert judge(replace(UNTESTED, bits_per_byte={})).start == "unknown"
    assert judge(replace(GOOD, method="random")).start == "poor"


def test_the_notes_give_back_the_same_start():
    assert GOOD.dictionary is not None
    start = replace(GOOD, dictionary=replace(GOOD.dictionary, examples=["die → fa", "cat → paka"]))
    kept = json.loads(json.dumps({**start.as_notes(), "method": "blend", "graft": {"origins": start.origins}}))
    assert Start.from_notes(kept) == start
    notes = {**GOOD.as_notes(), "method": "blend", "graft": {"origins": GOOD.origins}}
    assert Start.from_notes(notes) == GOOD


def test_every_field_of_a_start_is_read_from_the_notes():
    full = replace(
        aligned(30, 128),
        dictionary=replace(GOOD.dictionary, examples=["die → n."]),
        not_scored="needs 9 GB",
        extension=ExtensionCheck(20, [[0, 0.5], [20, 0.4]], 90, 1, {"original": 2.0}),
        corpus_bytes=99_000,
        given=["dictionary"],
        bitext=BitextCheck(pairs=3_000, tokens=400, text_share=0.61, overlap=0.79, shared=120),
        trained_vocabulary=True,
        has_prior=True,
    )
    notes = {**full.as_notes(), "method": "blend", "graft": {"origins": full.origins}, "unigram_prior": {"tokens": 4}}
    assert Start.from_notes(json.loads(json.dumps(notes))) == full
    elsewhere = {"method", "origins", "has_prior"}
    assert sorted(entry.field for entry in START_ENTRIES) == sorted({each.name for each in fields(Start)} - elsewhere)


def test_translations_are_related_if_the_spaces_agree_and_at_chance_if_they_are_shuffled():
    generator = np.random.default_rng(0)
    words = generator.standard_normal((500, 20))
    meanings = words @ generator.standard_normal((20, 30)) + generator.standard_normal((500, 30))
    assert related_translations(words, meanings, seed=0) > 0.7
    shuffled = related_translations(words, generator.permutation(meanings), seed=0)
    assert abs(shuffled - 0.5) < 3 / np.sqrt(12 * 500)


def test_a_row_is_compared_with_others_and_never_with_itself_and_equal_cosines_count_half():
    rows = np.eye(3)
    options = {"comparisons": 40, "seed": 0}
    assert share_closer_than_random(rows, rows, rows, **options) == 1
    assert share_closer_than_random(rows, rows[[1, 2, 0]], rows, **options) == 0.5  # every cosine is 0
    assert share_closer_than_random(rows, -rows, rows, **options) == 0


def test_coverage_counts_words_in_spaced_scripts_and_characters_in_others():
    tokenizer = pico.byte_level()
    origins = np.array(["none", "mixed"] * len(tokenizer))[: len(tokenizer)]
    text = "Habari ya leo, rafiki?\n\nNjema."
    spaced, counts = cover_text(text, tokenizer, tokenizer, origins)
    assert spaced.bytes == held_out_windows(tokenizer, text.split("\n"), "decoder").bytes, "as many as are scored"
    assert (spaced.unit, spaced.words) == ("word", 5)
    assert spaced.source_tokens == spaced.target_tokens == counts.sum()
    assert sum(spaced.origins.values()) == pytest.approx(1)
    assert spaced.origins["none"] == pytest.approx(counts[::2].sum() / counts.sum())
    unspaced, _ = cover_text("今天天气很好。", tokenizer, tokenizer, origins)
    assert (unspaced.unit, unspaced.words) == ("character", 6)
    # Most letters are Latin, but most of the text is not.
    mixed, _ = cover_text("我们用 PyTorch 和 Transformers 训练模型。", tokenizer, tokenizer, origins)
    assert (mixed.unit, mixed.words) == ("character", 8 + 2)
    quoting, _ = cover_text("The word for school is 学校 in Chinese.", tokenizer, tokenizer, origins)
    assert (quoting.unit, quoting.words) == ("word", 8)


@pytest.mark.parametrize(("target_tokens", "start"), [(900, "poor"), (899, "open"), (810, "good")])
def test_a_text_that_the_new_tokenizer_does_not_shorten_is_no_reason_for_a_transfer(target_tokens, start):
    text = TextCoverage(4_000, 300, "word", 900, target_tokens, {"mixed": 1.0})
    verdict = judge(replace(GOOD, text=text))
    assert verdict.start == start
    assert ("no fewer tokens for the text (900) than the model's own (900)" in verdict.reason) == (start == "poor")
    assert ("saves only 0% of the tokens (899 instead of 900)" in verdict.reason) == (start == "open")


@pytest.mark.parametrize(
    ("size", "words", "changes"),
    [(300, "its 300 tokens are probably too few", {"vocab_size": "32000"}), (8_000, "is probably not ordinary", {})],
)
def test_a_vocabulary_that_is_too_small_is_told_from_text_that_no_vocabulary_shortens(size, words, changes):
    text = TextCoverage(4_000, 300, "word", 900, 900, {"mixed": 1.0})
    verdict = judge(replace(GOOD, text=text, origins={"mixed": size}))
    assert words in verdict.reason
    assert verdict.changes == changes


def test_the_verdict_has_the_score_of_the_model_once():
    assert judge(UNTESTED).reason.count("2.800 bits per byte") == 1


def test_a_method_whose_rows_have_no_evidence_is_called_a_baseline_without_scores_too():
    start = replace(GOOD, method="random", origins={"none": 990, "special": 10, "mixed": 0}, bits_per_byte={})
    assert "random uses no evidence" in judge(start).reason


KNOWN = TextCoverage(8_192, 1_400, "word", 1_834, 1_792, {"mixed": 1.0})
"""Held-out English under the tokenizer of an English model, and under one with 8,000 tokens."""


@pytest.mark.parametrize("size", [300, 8_000, 32_000])
def test_text_in_the_language_of_the_model_needs_no_transfer_however_large_the_vocabulary_is(size):
    scores = {"original": 1.035, "random": 2.4, "shuffle": 2.5, "blend": 1.6}
    start = replace(GOOD, text=KNOWN, bits_per_byte=scores, origins={"mixed": size}, corpus_bytes=3_000_000)
    verdict = judge(replace(start, trained_vocabulary=True))
    assert verdict.start == "poor"
    assert not verdict.is_needed
    assert not verdict.changes
    assert "its own tokenizer needs only 1.31 tokens per word" in verdict.reason
    assert "It predicts the text with 1.035 bits per byte, and after this transfer with 1.600" in verdict.reason
    assert "relexify prune" in verdict.reason
    assert "larger vocabulary" not in verdict.reason
    early = judge(replace(start, bits_per_byte={}))
    assert not early.is_needed
    assert "bits per byte" not in early.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"text": replace(KNOWN, source_tokens=3_100, target_tokens=3_000)},  # many tokens per word
        {"text": replace(KNOWN, target_tokens=1_600)},  # the new tokenizer shortens the text
        {"text": replace(KNOWN, unit="character")},
        {"bits_per_byte": {"original": 2.0, "random": 2.4, "shuffle": 2.5, "blend": 1.9}},  # worse than the new one
        {"text": None},
    ],
)
def test_a_language_that_the_model_does_not_know_needs_a_transfer(changes):
    scores = {"original": 1.035, "random": 2.4, "shuffle": 2.5, "blend": 1.6}
    known = replace(GOOD, text=KNOWN, bits_per_byte=scores)
    assert not judge(known).is_needed
    assert judge(replace(known, **changes)).is_needed


def test_the_verdict_says_what_parallel_text_contributes_and_if_it_hardly_has_words_of_the_text():
    check = BitextCheck(pairs=3_000, tokens=400, text_share=0.61, overlap=0.79, shared=120)
    reason = judge(replace(GOOD, bitext=check)).reason
    expected = "Parallel text (3,000 pairs) gives meanings to 400 tokens, 61% of the text"
    assert reason.endswith(f"{expected}; the dictionary has 120 of these tokens too.")
    assert judge(replace(GOOD, bitext=replace(check, shared=None, overlap=None))).reason.endswith(f"{expected}.")
    foreign = judge(replace(GOOD, bitext=replace(check, overlap=0.04)))
    assert "it has only 4% of the words of the text, so it is small, or in another language" in foreign.reason
    assert foreign.start == "good"
    assert "Parallel text" not in judge(GOOD).reason


@pytest.mark.parametrize(
    ("size", "advice"),
    [(99_000, "100 kB or more."), (31_000, "100 kB or more."), (100_000, None), (9_000, None), (None, None)],
)
def test_the_verdict_says_that_a_vocabulary_is_too_large_for_its_text(size, advice):
    start = replace(GOOD, corpus_bytes=size, trained_vocabulary=True)
    reason = judge(start).reason
    assert ("The vocabulary is large for the text" in reason) == (advice is not None)
    assert reason.endswith(advice or "")
    assert "is large for the text" not in judge(replace(start, trained_vocabulary=False)).reason
    large = judge(replace(start, origins={"mixed": 32_000}, corpus_bytes=3_168_000)).reason
    assert large.endswith("Give more text, 3.2 MB or more, or at most 31,000 tokens (--vocab-size 31000).")
