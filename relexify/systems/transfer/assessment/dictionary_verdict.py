"""The verdict on a dictionary, by its check: whether its translations make sense, and are for the language of the text.

Each public function returns sentences for the verdict on a transfer; none, if they do not apply.
"""

from __future__ import annotations

import math

from relexify.systems.transfer.assessment.start import DictionaryCheck

__all__ = [
    "describe_doubtful_dictionary",
    "describe_sound_dictionary",
    "describe_untested_dictionary",
    "describe_useless_dictionary",
]

FEWEST_TESTED_WORDS = 300
"""Translated words with a vector that a test needs. Among fewer, the nearest is rarely a related one: on real text,
correct dictionaries then look random."""
CHANCE_STANDARD_ERRORS = 2.0
"""Standard errors above 0.5 that related translations must reach, unless `LEAST_RELATED_SHARE` is as near."""
LEAST_RELATED_SHARE = 0.55
"""Smallest share of related translations of a sound dictionary. With SmolLM2-135M-Instruct, dequantised from 4
bits, 3 MB of text and 16,000 tokens, correct dictionaries have 0.617 (Swahili), 0.585 (German), 0.577 (Uyghur) and
0.574 (Chinese); with half of their entries shuffled, 0.539, 0.517, 0.533 and 0.524; with all of them shuffled, 0.506 or
less. With 0.3 MB of Swahili, it is 0.561, 0.514 and 0.481. A correct dictionary may have less than this with little
text: 0.527 with 1.5 MB of Uyghur."""
LEAST_TRANSLATED_TEXT = 0.05
"""Share of the text that a dictionary for its language translates at least, unless it is small. A dictionary for
another language matches 2 to 4 %, by names and short words, and the method then guesses all other tokens from these."""
LEAST_TRANSLATED_TEXT_UNMATCHED = 0.12
"""As `LEAST_TRANSLATED_TEXT`, for a dictionary whose entries hardly match (`LEAST_MATCHING_SHARE`) and whose
translations could not be tested: dictionaries for three other languages together translate 6.5 % of a Swahili text,
correct ones 17 % or more."""
LARGE_DICTIONARY_ENTRIES = 5_000
"""Fewest entries of a dictionary that is not called small."""
LEAST_MATCHING_SHARE, FEWEST_FREQUENT_ENTRIES = 0.05, 20
"""Share of the entries with a frequent source word whose target word is a token, if a dictionary is for the language,
and the fewest such entries for which this is tested. With dictionaries from Wiktionary, 1 MB of text and 16,000
tokens, it is 0.32 in Swahili, 0.12 in German and 0.50 in Uyghur; for another language, it is 0.019 or less. It is
only 0.024 in Chinese, whose dictionary has many rare synonyms, but covers far more of the text than
`LEAST_TRANSLATED_TEXT`."""
ENOUGH_CORPUS_BYTES = 3_000_000
"""Bytes of text below which correct dictionaries may score less than `LEAST_RELATED_SHARE`: with 3 MB, the dictionaries
of four languages score more, but with 1.5 MB, the Uyghur one scores 0.527."""


def describe_sound_dictionary(check: DictionaryCheck) -> tuple[str, ...]:
    """Say that the translations of a dictionary make sense, if they do."""
    if check.related is None or round(check.related, 3) < LEAST_RELATED_SHARE:  # as it is reported
        return ()
    sound = (
        f"The dictionary translates {check.text_share:.0%} of the text, and its translations make sense: related "
        f"words have related translations in {check.related:.1%} of {check.words:,} cases, and 50% is chance."
    )
    if check.related >= LEAST_RELATED_SHARE + CHANCE_STANDARD_ERRORS * _standard_error(check):
        return (sound,)
    near = (
        f"This is hardly more than the {LEAST_RELATED_SHARE:.0%} that are needed, give or take "
        f"{_standard_error(check):.1%}, so a part of them may be wrong: read some of its entries."
    )
    return sound, near


def describe_doubtful_dictionary(check: DictionaryCheck, corpus_bytes: int | None) -> tuple[str, ...]:
    """Say that a dictionary is small, or that its translations are hardly more related than by chance, if so.

    Args:
        check: Its check.
        corpus_bytes: Size of the text; None if it is not known.
    """
    if check.related is None:
        if check.text_share >= LEAST_TRANSLATED_TEXT:
            return ()
        unknown = "it helps" if _matches(check) else "it is for this language"
        entries = "one entry translates" if check.entries == 1 else f"{check.entries:,} entries translate"
        is_large = check.entries >= LARGE_DICTIONARY_ENTRIES
        return (
            f"The dictionary {'has too few words of the text' if is_large else 'is too small'} to tell whether "
            f"{unknown}: its {entries} {_describe_translated(check)}.",
            f"Give one with {'more frequent words' if is_large else 'some thousand entries'}, or try the text with and "
            "without this one (relexify advise).",
        )
    expected = "correct dictionaries of four languages gave 57% to 62% with 3 MB of text"
    if corpus_bytes is not None and corpus_bytes < ENOUGH_CORPUS_BYTES:
        expected += f", and as little as 53% with less, as here ({corpus_bytes / 1e6:.1f} MB)"
    found = "Some translations in the dictionary may be wrong"
    if check.related >= LEAST_RELATED_SHARE - CHANCE_STANDARD_ERRORS * _standard_error(check):
        found += ", or there are too few words to tell"
    return (
        f"{found}: related words have related translations in "
        f"{check.related:.1%} of {check.words:,} cases, give or take {_standard_error(check):.1%}.",
        f"Chance gives 50%, and {expected}.",
        "Read some of its entries, or try the text with and without it (relexify advise).",
    )


def describe_untested_dictionary(check: DictionaryCheck) -> tuple[str, ...]:
    """Say that it is not known whether the translations of a dictionary are right, if they could not be tested."""
    if check.related is not None:
        return ()
    return (
        f"Whether the translations in the dictionary are right was not tested: of the words that are tokens and have a "
        f"vector, it translates {check.words:,}, and the test needs {FEWEST_TESTED_WORDS:,}.",
        "Read some of its entries, or give a larger dictionary or a larger vocabulary.",
    )


def describe_useless_dictionary(check: DictionaryCheck) -> tuple[str, ...]:
    """Say that a dictionary is probably for another language, or that its translations look random, if so."""
    limit = LEAST_TRANSLATED_TEXT if check.related is not None else LEAST_TRANSLATED_TEXT_UNMATCHED
    if check.text_share < limit and not _is_small(check):
        sentences = [
            f"The dictionary translates {_describe_translated(check)}: it is probably for another language, spells "
            "words differently, or has mostly rare words."
        ]
        if check.entries:
            sentences.append(
                f"Of its {check.frequent:,} entries with a frequent word of the model's language, {check.matches:,} "
                f"{'has' if check.matches == 1 else 'have'} a translation that is a token of the text."
            )
            if check.examples:
                sentences.append(f"Some of its entries, as they were read: {', '.join(check.examples)}.")
        return *sentences, "Check this, and that it has the model's language first; or leave it out."
    if _looks_random(check):
        return (
            f"The translations in the dictionary look random: related words have related translations in "
            f"{check.related:.1%} of {check.words:,} cases, and 50% is chance.",
            "Check that it is for these two languages, and that its columns belong together; or leave it out.",
        )
    return ()


def _looks_random(check: DictionaryCheck) -> bool:
    """Whether translations are related no more often than by chance, and less often than in any sound dictionary.

    With few words, a sound dictionary may be within the error of chance too: the Uyghur one has 0.526 of 366 words,
    give or take 0.015, with 1.5 MB of text and 6,000 tokens.
    """
    error = CHANCE_STANDARD_ERRORS * _standard_error(check)
    return check.related is not None and check.related < 0.5 + error and check.related < LEAST_RELATED_SHARE - error


def _describe_translated(check: DictionaryCheck) -> str:
    """Say how little a dictionary translates, and that the method guesses the other tokens."""
    guessed = ", and the other tokens are guessed from these few translations" if check.tokens else ""
    return f"{check.tokens:,} tokens, {check.text_share:.1%} of the text{guessed}"


def _standard_error(check: DictionaryCheck) -> float:
    """Return the standard error of the share of related translations, if they were random.

    Every word would then give a uniform number from 0 to 1, with a variance of 1/12.
    """
    return 1 / math.sqrt(12 * max(1, check.words))


def _is_small(check: DictionaryCheck) -> bool:
    """Whether a dictionary translates little because it has few entries, and not because its words do not match."""
    return check.entries > 0 and (_count_testable(check) < FEWEST_FREQUENT_ENTRIES or _matches(check))


def _matches(check: DictionaryCheck) -> bool:
    """Whether enough target words of a dictionary are tokens, as in one for this language."""
    return check.matches >= max(2, LEAST_MATCHING_SHARE * _count_testable(check))  # one may be chance


def _count_testable(check: DictionaryCheck) -> float:
    """Return the number of entries that should match: those with a frequent word, but a tenth of all at least."""
    return max(check.frequent, check.entries / 10)
