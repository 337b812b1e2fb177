"""The bound on how much longer a tokenizer may make a text holds, and is small for the tokenizers of models."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from relexify.errors import is_panic
from relexify.tokens import backend_of, growth_of, is_lengthened
from tests import pico

LETTERS = "abé …中ﷺ'"


def replace(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def bert() -> dict[str, Any]:
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }


def character_map(longest: str) -> str:
    """A table of SentencePiece without keys, in its format."""
    return base64.b64encode((4).to_bytes(4, "little") + bytes(4) + f"x\0{longest}\0".encode()).decode()


def tokenizer_with(**parts: Any) -> Tokenizer:
    state = json.loads(Tokenizer.from_str(pico.byte_level().backend_tokenizer.to_str()).to_str())
    return Tokenizer.from_str(json.dumps(state | {"normalizer": None, "pre_tokenizer": None} | parts))


def sequence(*parts: Any) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(parts)}


texts = st.text(alphabet=LETTERS, max_size=4)
rules = st.one_of(
    st.builds(replace, st.text(alphabet=LETTERS, min_size=1, max_size=3), texts),
    st.builds(replace, st.sampled_from([".", "a*", "^", "$", r"\b", "(?=a)", "[^a]", "a?", "b+", "(|b)"]), texts).map(
        lambda rule: rule | {"pattern": {"Regex": rule["pattern"]["String"]}}
    ),
    st.builds(lambda text: {"type": "Prepend", "prepend": text}, texts),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "ByteLevel"]).map(
        lambda name: {"type": name}
    ),
    st.builds(bert),
)


@given(st.lists(rules, max_size=4), st.text(alphabet=LETTERS, max_size=6))
@example([replace(" ", "ﷺ"), {"type": "NFKD"}, replace(" ", "ﷺ"), {"type": "NFKD"}], " ")
@example([{"type": "NFC"}, replace("é", "aaaa")], "e\u0301")
@settings(deadline=None)
def test_no_chain_of_rules_makes_a_text_longer_than_its_bound(parts: list[dict[str, Any]], text: str) -> None:
    try:
        normalised = tokenizer_with(normalizer=sequence(*parts)).normalizer.normalize_str(text)
    except BaseException as error:
        # Tokenizers 0.22 may fail on text that a rule for empty text made.
        assume(not is_panic(error))
        raise
    # A rule that has no effect, and names the letters: Unicode's tables count only for characters that rules name.
    growth = growth_of(sequence(replace(LETTERS * 2, ""), *parts))
    assert len(normalised) <= growth.factor * len(text) + growth.added


@pytest.mark.parametrize(
    "parts",
    [
        [replace("a", "aa")] * 30,
        [replace("a", "bb"), replace("b", "aa")] * 15,
        [replace(".", "aa", "Regex")] * 30,
        [replace("", "aa", "Regex")] * 30,
        [replace("a", "a" * 10_000)],
        [replace(" ", "ﷺ"), {"type": "NFKD"}] * 10,
        [{"type": "NFC"}, replace("é", "e\u0301" * 10)] * 10,
        [{"type": "ByteLevel"}] * 30,
        [{"type": "Precompiled", "precompiled_charsmap": character_map("a" * 10_000)}],
    ],
)
def test_chains_that_make_gigabytes_of_a_letter_have_a_large_bound(parts: list[dict[str, Any]]) -> None:
    if parts[0]["type"] != "Precompiled":  # this one has no keys, so it cannot be run
        assert is_lengthened(sequence(*parts), 100, 1_000)
    assert growth_of(sequence(*parts)).factor > 1_000
    assert growth_of({"type": "Sequence", "decoders": parts}) == growth_of(sequence(sequence(*parts)))


def test_a_prefix_counts_once_with_what_is_made_of_it() -> None:
    growth = growth_of(sequence({"type": "Prepend", "prepend": "ab"}, replace("a", "aaa")))
    assert growth == (3.0, 4.0)


@pytest.mark.parametrize(
    "parts",
    [
        [replace(chr(0x430 + letter), "shch") for letter in range(32)],  # a transliteration
        [replace(r"\s+", " ", "Regex"), replace(r"[^\w*]", " ", "Regex"), replace(r"\?", "? ", "Regex")] * 3,
        [bert()] * 10,
        [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Nmt")] * 3,
        [replace("``", '"'), {"type": "Precompiled", "precompiled_charsmap": character_map("a" * 18)}],
    ],
)
def test_useful_normalisers_have_a_small_bound(parts: list[dict[str, Any]]) -> None:
    assert growth_of(sequence(*parts)).factor <= 25


@pytest.mark.parametrize(
    "rules",
    [
        [("https?://[a-z]+", "[URL]"), ("@[a-z]+", "[USER]"), ("[0-9]+", "[NUM]"), (r"\s+", " ")] * 3,
        [(rf"\{mark}", f" {mark} ") for mark in ".,!?;:"],
        [("“|”|„", '"'), ("‘|’", "'"), ("–|—", "-"), ("…", "..."), ("«|»", '"'), ("^ ", ""), (" $", "")] * 2,
    ],
)
def test_chains_of_regular_expressions_that_hardly_make_text_longer_are_told_from_others(
    rules: list[tuple[str, str]],
) -> None:
    chain = sequence(*(replace(pattern, content, "Regex") for pattern, content in rules))
    assert growth_of(chain).factor > 100
    assert not is_lengthened(chain, 100, 1_000)


@pytest.mark.parametrize("family", pico.FAMILIES)
def test_tokenizers_of_models_hardly_make_text_longer(family: str) -> None:
    backend = backend_of(pico.pair(family)[1])
    for part in (backend.normalizer, backend.pre_tokenizer, backend.decoder):
        growth = growth_of(None if part is None else json.loads(part.__getstate__()))
        assert growth.factor <= 5
        assert growth.added <= 5
