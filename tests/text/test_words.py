"""Words: nothing is lost, and every script is cut where a reader would cut it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relexify.text import is_unspaced, split_words


@settings(deadline=None, max_examples=60)
@given(st.text())
def test_splitting_keeps_every_character_but_space_in_order(text: str) -> None:
    assert "".join(split_words(text)) == "".join(text.split())


@settings(deadline=None, max_examples=60)
@given(st.text("aé\u0301'-’9.,_ 中\u0e01\u0e31\U00020bb7\U0001f600\u200d"))
def test_splitting_its_own_output_changes_nothing(text: str) -> None:
    words = split_words(text)
    assert split_words(" ".join(words)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ng'ombe na ng’ombe.", ["Ng'ombe", "na", "ng’ombe", "."]),
        ("don't 'quote' dogs'", ["don't", "'", "quote", "'", "dogs", "'"]),
        ("der Ruf-Name -- l’eau", ["der", "Ruf-Name", "-", "-", "l’eau"]),
        ("1,000.5 kg, 3.", ["1,000.5", "kg", ",", "3", "."]),
        ("2020-يىل 17-ئاۋغۇست، كۈچنى", ["2020", "-", "يىل", "17", "-", "ئاۋغۇست", "،", "كۈچنى"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा", "।"]),
        ("cafe\u0301 می\u200cشود", ["cafe\u0301", "می\u200cشود"]),
        ("Mesa图形库基于LLVM15。", ["Mesa", "图形库基于", "LLVM15", "。"]),
        ("ภาษาไทย 한국어를", ["ภาษาไทย", "한국어를"]),
        ("བོད་ཡིག།", ["བོད་ཡིག", "།"]),
        ("snake_case ❤\ufe0f", ["snake", "_", "case", "❤\ufe0f"]),
        ("\U0001e900\U0001e944b 𠮷野", ["\U0001e900\U0001e944b", "𠮷野"]),
    ],
)
def test_words_of_every_script_are_found(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_unspaced_scripts_are_known() -> None:
    assert all(map(is_unspaced, "中々〇ひらカーไทัລཡཀམြខ្មែ𠮷ｶ"))
    assert not any(map(is_unspaced, "aéж한ހئ9๙。、・ -฿\u0301"))
