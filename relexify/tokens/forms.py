"""The canonical form of a token, independent of how its tokenizer spells it.

byte-level BPE   `ĠÃ¼ber`            ┐
SentencePiece    `▁über`             ├─  TokenForm("über", starts_word=True)
WordPiece        `über`              ┘
byte-level BPE   `Ã`, SentencePiece `<0xC3>`  ─  TokenForm("\\udcc3", is_byte=True)
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from relexify.text import is_unspaced
from relexify.text.words import INVISIBLE_JOINERS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Spelling", "TokenForm", "TokenizerFamily", "spelling_of"]

METASPACE = "▁"
_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]")
"""The ideographs that BERT's normaliser puts spaces around."""


class TokenForm(NamedTuple):
    """The canonical form of a token.

    Attributes:
        text: Its text, without the space before a word. Bytes that are not valid UTF-8 become lone surrogates
            (`surrogateescape`), so that different tokens do not all become U+FFFD.
        starts_word: Whether it follows a space or the start of the text.
        is_byte: Whether it is only a part of a character's bytes.
        is_special: Whether it is a special token rather than text.
    """

    text: str
    starts_word: bool = False
    is_byte: bool = False
    is_special: bool = False

    @property
    def surface(self) -> str:
        """The text, with a space before it if it starts a word."""
        return f" {self.text}" if self.starts_word else self.text

    @property
    def readable(self) -> str:
        """The surface for display: bytes that are not valid UTF-8 are written as `\\xc3`."""
        return self.surface.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

    @property
    def is_neutral(self) -> bool:
        """Whether it contains no letter or mark: digits, punctuation, white space, parts of characters."""
        return bool(self.text) and (
            self.is_byte or not any(unicodedata.category(character)[0] in "LM" for character in self.text)
        )

    @property
    def is_word(self) -> bool:
        """Whether it may be a whole word: letters, marks and joiners, after a space or in a script without spaces."""
        if self.is_special or self.is_byte or not (self.starts_word or is_unspaced(self.text[:1] or " ")):
            return False
        return self.text[:1].isalpha() and all(
            unicodedata.category(each)[0] in "LM" or each in INVISIBLE_JOINERS for each in self.text
        )


class TokenizerFamily(StrEnum):
    """Families of tokenizers, by how they spell tokens."""

    BYTE_LEVEL = "byte-level BPE"
    METASPACE = "SentencePiece"
    WORDPIECE = "WordPiece"
    PLAIN = "plain"


@dataclass(frozen=True)
class Spelling:
    """How a tokenizer spells its tokens.

    Attributes:
        family: The family of the tokenizer.
        prefix: Marks a piece inside a word (WordPiece's `##`).
        suffix: Marks the last piece of a word (`</w>` in the earliest BPE tokenizers).
        byte_fallback: Whether `<0xC3>` is the name of a byte.
        isolates_ideographs: Whether every ideograph is a word of its own (BERT's), so that `##中` is never used.
    """

    family: TokenizerFamily
    prefix: str = ""
    suffix: str = ""
    byte_fallback: bool = False
    isolates_ideographs: bool = False

    def read(self, token: str) -> TokenForm:
        """Return the canonical form of a token of the model's vocabulary."""
        if self.family is TokenizerFamily.BYTE_LEVEL:
            if not _ALPHABET.issuperset(token):  # an added token, which is plain text
                return _from_surface(token)
            return _from_bytes(token.translate(_TO_BYTES).encode("latin-1"))
        if self.family is TokenizerFamily.METASPACE:
            if self.byte_fallback and (match := _BYTE_FALLBACK.fullmatch(token)):
                return _from_bytes(bytes([int(match[1], 16)]))
            return _from_surface(token.replace(METASPACE, " "))
        if self.family is TokenizerFamily.WORDPIECE:
            is_inside = bool(self.prefix) and token.startswith(self.prefix) and token != self.prefix
            return TokenForm(token.removeprefix(self.prefix) if is_inside else token, starts_word=not is_inside)
        # This family marks the end of a word, not its start. A token with the suffix is assumed to be a whole word.
        return TokenForm(token.removesuffix(self.suffix), starts_word=token.endswith(self.suffix))

    def read_added(self, token: str) -> TokenForm:
        """Return the canonical form of an added token, which does not use the byte-level alphabet."""
        if self.family is TokenizerFamily.BYTE_LEVEL:
            return _from_surface(token)
        return self.read(token)

    def isolates(self, text: str) -> bool:
        """Whether a text is a single character that is always a word of its own."""
        return self.isolates_ideographs and _IDEOGRAPH.fullmatch(text) is not None

    def is_byte_name(self, token: str) -> bool:
        """Whether the token is the name of a byte (`<0xC3>`); such tokens are used only for unknown characters."""
        return self.byte_fallback and _BYTE_FALLBACK.fullmatch(token) is not None

    def write(self, form: TokenForm) -> str:
        """Return the text of a form in this tokenizer's alphabet, as input for its model."""
        if self.family is TokenizerFamily.BYTE_LEVEL:
            return "".join(_CHARACTER_OF[byte] for byte in form.surface.encode("utf-8", "surrogateescape"))
        if self.family is TokenizerFamily.METASPACE:
            return form.surface.replace(" ", METASPACE)
        return form.text + self.suffix if form.starts_word else self.prefix + form.text


def spelling_of(backend: Tokenizer) -> Spelling:
    """Determine from a tokenizer's components how it spells tokens."""
    components = (backend.pre_tokenizer, backend.decoder, backend.normalizer)
    parts = _component_types([json.loads(component.__getstate__()) for component in components if component])
    if "ByteLevel" in parts:
        return Spelling(TokenizerFamily.BYTE_LEVEL)
    state = json.loads(backend.to_str())  # slow, since it has all tokens and merges: 0.1 s for 50,000 tokens
    model = state["model"]
    if model["type"] == "WordPiece":
        return Spelling(
            TokenizerFamily.WORDPIECE,
            prefix=model["continuing_subword_prefix"],
            isolates_ideographs=backend.normalizer is not None and backend.normalizer.normalize_str("中") == " 中 ",
        )
    if (
        model["type"] == "Unigram"
        or "Metaspace" in parts
        or METASPACE in json.dumps(state.get("normalizer"), ensure_ascii=False)
    ):
        return Spelling(TokenizerFamily.METASPACE, byte_fallback=bool(model.get("byte_fallback")))
    return Spelling(
        TokenizerFamily.PLAIN,
        prefix=model.get("continuing_subword_prefix") or "",
        suffix=model.get("end_of_word_suffix") or "",
    )


def _component_types(component: object) -> set[str]:
    """Return the types of a component and of everything inside it."""
    if isinstance(component, dict):
        inner = set().union(*(_component_types(value) for value in component.values()))
        return inner | ({component["type"]} if isinstance(component.get("type"), str) else set())
    if isinstance(component, list):
        return set().union(*(_component_types(value) for value in component))
    return set()


def _from_bytes(raw: bytes) -> TokenForm:
    try:
        return _from_surface(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return TokenForm(raw.decode("utf-8", "surrogateescape"), is_byte=True)


def _from_surface(surface: str) -> TokenForm:
    """Turn a space before a word into `starts_word`; a token of only white space keeps its spaces."""
    if surface.startswith(" ") and surface.strip():
        return TokenForm(surface[1:], starts_word=True)
    return TokenForm(surface)


def _byte_alphabet() -> dict[int, str]:
    """Return the printable character for each byte in byte-level BPE: itself, or the next free one from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    moved = {byte: chr(256 + index) for index, byte in enumerate(others)}
    return {byte: moved.get(byte, chr(byte)) for byte in range(256)}


_CHARACTER_OF = _byte_alphabet()
_ALPHABET = frozenset(_CHARACTER_OF.values())
_TO_BYTES = str.maketrans({character: chr(byte) for byte, character in _CHARACTER_OF.items()})
