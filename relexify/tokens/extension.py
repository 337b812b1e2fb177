"""Add tokens of a target language to a tokenizer, such that text of the source language is encoded exactly as before.

Added tokens are merges of tokens that the source tokenizer cuts the target text into, the most useful one first. How
they enter the tokenizer depends on its model:

- BPE: the merges are appended in order. All merges of the source come first, and no added merge makes a token of the
  source, so an added merge applies only where the source tokenizer leaves its two tokens side by side.
- Unigram: the piece made of source pieces p_1 … p_n has the score Σ score(p_i) + (n - 1) ε. The best segmentation is
  then that of the source, with as many of its pieces joined as possible.
- WordPiece: the pieces are added; the longest one wins.

A pair of tokens that the source tokenizer puts side by side in the source text is never merged. This is enough for BPE
and Unigram. For WordPiece, and for BPE with `ignore_merges`, an added token can also apply elsewhere. So the source
text is encoded with the extended tokenizer, tokens that occur in it are rejected, and others are chosen, until none
occurs.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from relexify.errors import EvidenceError
from relexify.progress import track
from relexify.text import count_bytes, make_encodable
from relexify.tokens.encoding import encodable_batches, used_tokens
from relexify.tokens.forms import METASPACE, TokenizerFamily
from relexify.tokens.merges import Merge, learn_merges
from relexify.tokens.pieces import prepends_space
from relexify.tokens.rebuilding import rebuild, state_of
from relexify.tokens.vocabulary import Vocabulary, backend_of, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["Extension", "extend_tokenizer"]

_COVERAGE = 0.9995
"""Share of the characters of the target text that get tokens, as in SentencePiece."""
_BONUS = 1e-6
"""ε: much less than the difference of two segmentations, and much more than the rounding of their scores."""

Lines = Callable[[], Iterable[str]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extension:
    """A tokenizer with added tokens.

    Attributes:
        tokenizer: The source tokenizer, with the added tokens after its own.
        tokens: Number of tokens of the target text before any merge.
        bytes: UTF-8 bytes of the target text.
        saved: Number of tokens that the text is shorter by because of each added token, in order [added]; 0 for
            characters that the source tokenizer lacks.
    """

    tokenizer: PreTrainedTokenizerFast
    tokens: int
    bytes: int
    saved: np.ndarray

    def tokens_per_byte(self, added: int) -> float:
        """Return the length of the target text with only the first `added` of the added tokens."""
        return float(self.tokens - self.saved[:added].sum()) / max(1, self.bytes)


def extend_tokenizer(
    source: PreTrainedTokenizerFast, lines: Lines, source_lines: Lines, added: int, *, size: int | None = None
) -> Extension:
    """Add the tokens that shorten a target text most, and leave every encoding of a source text as it is.

    Args:
        source: The source tokenizer.
        lines: Starts one pass over the text of the target language.
        source_lines: Starts one pass over the text of the source language.
        added: Number of tokens to add; fewer, if the text is too short for them.
        size: Bytes of the target text, for the progress bar.

    Raises:
        EvidenceError: The text gives no token to add.
    """
    characters = _missing_characters(source, lines, source_lines)[:added]
    known = _with_tokens(source, characters, [])
    vocabulary = vocabulary_of(known)
    words, read = _count_words(known, vocabulary, lines(), size)
    forbidden = {pair for word in _count_words(known, vocabulary, source_lines())[0] for pair in pairwise(word)}
    prefix, rejected = vocabulary.spelling.prefix, set[str]()
    while True:
        merges = learn_merges(
            words,
            vocabulary.tokens,
            added - len(characters),
            prefix=prefix,
            forbidden=forbidden,
            rejected=rejected,
        )
        extended = _with_tokens(source, characters, merges)
        first = len(vocabulary)
        wrong = {merges[id - first].token for id in used_tokens(extended, source_lines()) if id >= first}
        if not wrong:
            break
        rejected |= wrong
    if not characters and not merges:
        raise EvidenceError("the text gives no token to add: give at least some thousand words of the target language")
    if len(characters) + len(merges) < added:
        logger.warning("the text is enough for %d added tokens, not %d", len(characters) + len(merges), added)
    total = sum(len(word) * number for word, number in words.items())
    saved = np.array([0] * len(characters) + [merge.saved for merge in merges], np.int64)
    return Extension(extended, total, read, saved)


def _missing_characters(source: PreTrainedTokenizerFast, lines: Lines, source_lines: Lines) -> list[str]:
    """Return the characters that the source tokenizer cannot spell, the most frequent ones first.

    Those that the source text has are left out, since it would be encoded differently.
    """
    vocabulary = vocabulary_of(source)
    if vocabulary.spelling.family is TokenizerFamily.BYTE_LEVEL:
        return []
    counts = _count_characters(source, lines())
    covered, total, missing = 0, sum(counts.values()), list[str]()
    for character, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= _COVERAGE * total:
            break
        covered += number
        if character not in vocabulary.ids and not character.isspace():
            missing.append(character)
    present = _count_characters(source, source_lines()) if missing else Counter()
    # WordPiece spells a character in two ways: at the beginning of a word and inside.
    places = ("", vocabulary.spelling.prefix) if vocabulary.spelling.prefix else ("",)
    return [place + character for character in missing if not present[character] for place in places]


def _count_characters(tokenizer: PreTrainedTokenizerFast, lines: Iterable[str]) -> Counter[str]:
    """Count the characters of a text as the tokenizer's model sees them."""
    normaliser = backend_of(tokenizer).normalizer
    counts: Counter[str] = Counter()
    for line in lines:
        text = make_encodable(line)
        counts.update(normaliser.normalize_str(text) if normaliser else text)
    return counts


def _count_words(
    tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary, lines: Iterable[str], size: int | None = None
) -> tuple[Counter[tuple[int, ...]], int]:
    """Count the words of a text, each as the ids that a tokenizer cuts it into; return the bytes of the text too.

    A word is what the pre-tokeniser makes one, or starts at a space if there is no pre-tokeniser (Llama 2). Special,
    unknown and byte tokens, which cannot be merged, end a word.
    """
    starts, alone = set[int](), {vocabulary.special.get("unk", -1)}
    for id, (token, form) in enumerate(zip(vocabulary.tokens, vocabulary.forms, strict=True)):
        if form.is_special or vocabulary.spelling.is_byte_name(token):
            alone.add(id)
        elif vocabulary.spelling.family is TokenizerFamily.METASPACE and token.startswith(METASPACE):
            starts.add(id)
    # The text between two spaces is encoded once, however often it occurs: most of a text is repetition.
    first, later, read = Counter[str](), Counter[str](), 0
    with track("reading text", size) as advance:
        for batch in encodable_batches(lines):
            for text in batch:
                start, *rest = text.split(" ")
                first[start] += 1
                later.update(rest)
            amount = sum(count_bytes(text) + 1 for text in batch)
            read += amount
            advance(amount)
    backend = Tokenizer.from_str(json.dumps(state_of(tokenizer)))
    counts: Counter[tuple[int, ...]] = Counter()
    for chunks, space in ((first, ""), (later, "" if prepends_space(backend) else " ")):
        for texts in encodable_batches(chunks):
            encodings = backend.encode_batch([space + text for text in texts], add_special_tokens=False)
            for text, encoding in zip(texts, encodings, strict=True):
                for word in _words(encoding.ids, encoding.word_ids, starts, alone):
                    counts[word] += chunks[text]
    return counts, read


def _words(ids: list[int], words: list[int | None], starts: set[int], alone: set[int]) -> Iterator[tuple[int, ...]]:
    """Yield the words of one encoding."""
    for _, group in groupby(zip(words, ids, strict=True), key=lambda entry: entry[0]):
        word: list[int] = []
        for _, id in group:
            if word and (id in starts or id in alone or word[-1] in alone):
                yield tuple(word)
                word = []
            word.append(id)
        yield tuple(word)


def _with_tokens(
    source: PreTrainedTokenizerFast, characters: list[str], merges: list[Merge]
) -> PreTrainedTokenizerFast:
    """Return the source tokenizer with characters and merges after its last token."""
    if not characters and not merges:
        return source
    state, tokens = state_of(source), list(vocabulary_of(source).tokens)
    tokens += [*characters, *(merge.token for merge in merges)]
    model = state["model"]
    # Tokens outside the model, such as T5's sentinels and the special tokens of Llama 3, have the ids after its own,
    # and would be renumbered: they become tokens of the model, which nothing is cut into.
    if model["type"] == "Unigram":
        _add_pieces(model["vocab"], tokens, merges)
    else:
        model["vocab"] |= {token: id for id, token in enumerate(tokens) if token and token not in model["vocab"]}
    if model["type"] == "BPE":
        model["merges"] += [[tokens[merge.left], tokens[merge.right]] for merge in merges]
    return rebuild(source, state)


def _add_pieces(pieces: list[list[Any]], tokens: list[str], merges: list[Merge]) -> None:
    """Add pieces to a Unigram model, in which the id of a piece is its position.

    Args:
        pieces: Its pieces and their scores; changed.
        tokens: Spelling of all tokens by id, the added ones too.
        merges: How the last of them are made.
    """
    lowest = min(score for _, score in pieces)
    others = tokens[len(pieces) : len(tokens) - len(merges)]
    pieces += [[token or f"<unused {index}>", lowest] for index, token in enumerate(others)]
    for merge in merges:
        pieces.append([merge.token, pieces[merge.left][1] + pieces[merge.right][1] + _BONUS])
