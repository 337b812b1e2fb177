"""Add tokens of a target language to a tokenizer, such that text of the source language is encoded exactly as before.

The source tokenizer splits the target text into tokens; the added tokens are merges of these, the most useful ones
first. How they are added depends on the tokenizer's model:

- BPE: the merges are appended in order. They rank below all merges of the source, and none of them produces a token of
  the source, so an added merge applies only where the source tokenizer leaves its two tokens adjacent.
- Unigram: the piece made of source pieces p_1 … p_n has the score Σ score(p_i) + (n - 1) ε. The best segmentation is
  therefore the source tokenizer's segmentation, with as many of its pieces joined as possible.
- WordPiece: the pieces are added; the longest matching piece is used.

Two tokens that are adjacent in the encoded source text are never merged. This is sufficient for BPE and Unigram. With
WordPiece, and with BPE that sets `ignore_merges`, an added token can also apply elsewhere. Therefore, the source text
is encoded with the extended tokenizer; added tokens that occur in it are rejected, and other tokens are chosen. This is
repeated until no added token occurs.
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
from relexify.tokens.editing.merges import Merge, learn_merges
from relexify.tokens.editing.rebuilding import rebuild, state_of
from relexify.tokens.encoding import encodable_batches, used_tokens
from relexify.tokens.forms import METASPACE, TokenizerFamily
from relexify.tokens.pieces import prepends_space
from relexify.tokens.vocabulary import Vocabulary, backend_of, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["Extension", "extend_tokenizer"]

_COVERAGE = 0.9995
"""Share of the characters of the target text that the vocabulary must cover, as in SentencePiece."""
_BONUS = 1e-6
"""ε: much smaller than score differences between segmentations, and much larger than their rounding errors."""

Lines = Callable[[], Iterable[str]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extension:
    """A tokenizer with added tokens.

    Attributes:
        tokenizer: The source tokenizer, with the added tokens after its own.
        tokens: Number of tokens of the target text before any merge.
        bytes: Size of the target text in UTF-8 bytes.
        saved: By how many tokens each added token shortens the text, in order [added]; 0 for characters that the
            source tokenizer lacks.
    """

    tokenizer: PreTrainedTokenizerFast
    tokens: int
    bytes: int
    saved: np.ndarray

    def tokens_per_byte(self, added: int) -> float:
        """Return the tokens per byte of the target text if only the first `added` added tokens are used."""
        return float(self.tokens - self.saved[:added].sum()) / max(1, self.bytes)


def extend_tokenizer(
    source: PreTrainedTokenizerFast, lines: Lines, source_lines: Lines, added: int, *, size: int | None = None
) -> Extension:
    """Add the tokens that shorten a target text most, without changing how a source text is encoded.

    Args:
        source: The source tokenizer.
        lines: Starts one pass over the text of the target language.
        source_lines: Starts one pass over the text of the source language.
        added: Number of tokens to add; fewer are added if the text is too short.
        size: Size of the target text in bytes, for the progress bar.

    Raises:
        EvidenceError: The text yields no token to add.
    """
    characters = _missing_characters(source, lines, source_lines)[:added]
    with_characters = _with_tokens(source, characters, [])
    vocabulary = vocabulary_of(with_characters)
    words, bytes_read = _count_words(with_characters, vocabulary, lines(), size)
    source_words, _ = _count_words(with_characters, vocabulary, source_lines())
    forbidden = {pair for word in source_words for pair in pairwise(word)}
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
        in_source_text = {merges[id - first].token for id in used_tokens(extended, source_lines()) if id >= first}
        if not in_source_text:
            break
        rejected |= in_source_text
    if not characters and not merges:
        raise EvidenceError("the text yields no token to add: give at least some thousand words of the target language")
    if len(characters) + len(merges) < added:
        logger.warning("the text is enough for %d added tokens, not %d", len(characters) + len(merges), added)
    total = sum(len(word) * number for word, number in words.items())
    saved = np.array([0] * len(characters) + [merge.saved for merge in merges], np.int64)
    return Extension(extended, total, bytes_read, saved)


def _missing_characters(source: PreTrainedTokenizerFast, lines: Lines, source_lines: Lines) -> list[str]:
    """Return the characters that the source tokenizer cannot spell, the most frequent ones first.

    Characters that occur in the source text are omitted: adding them would change how it is encoded.
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
    # WordPiece needs two tokens for a character: one at the beginning of a word and one inside.
    prefixes = ("", vocabulary.spelling.prefix) if vocabulary.spelling.prefix else ("",)
    return [prefix + character for character in missing if not present[character] for prefix in prefixes]


def _count_characters(tokenizer: PreTrainedTokenizerFast, lines: Iterable[str]) -> Counter[str]:
    """Count the characters of a text after the tokenizer's normalisation."""
    normaliser = backend_of(tokenizer).normalizer
    counts: Counter[str] = Counter()
    for line in lines:
        text = make_encodable(line)
        counts.update(normaliser.normalize_str(text) if normaliser else text)
    return counts


def _count_words(
    tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary, lines: Iterable[str], size: int | None = None
) -> tuple[Counter[tuple[int, ...]], int]:
    """Count the words of a text, each represented by its token ids; also return the size of the text in bytes.

    The pre-tokeniser determines the words. If there is none (Llama 2), a word starts at a space. Special, unknown and
    byte tokens cannot be merged, so each is a word of its own.
    """
    starts_word = set[int]()
    unmergeable = {vocabulary.special.get("unk", -1)}
    for id, (token, form) in enumerate(zip(vocabulary.tokens, vocabulary.forms, strict=True)):
        if form.is_special or vocabulary.spelling.is_byte_name(token):
            unmergeable.add(id)
        elif vocabulary.spelling.family is TokenizerFamily.METASPACE and token.startswith(METASPACE):
            starts_word.add(id)
    # Each distinct chunk of text between two spaces is encoded only once, because most chunks occur many times. The
    # first chunk of a line has no space before it.
    first, later, bytes_read = Counter[str](), Counter[str](), 0
    with track("reading text", size) as advance:
        for batch in encodable_batches(lines):
            for text in batch:
                start, *rest = text.split(" ")
                first[start] += 1
                later.update(rest)
            batch_bytes = sum(count_bytes(text) + 1 for text in batch)
            bytes_read += batch_bytes
            advance(batch_bytes)
    backend = Tokenizer.from_str(json.dumps(state_of(tokenizer)))
    counts: Counter[tuple[int, ...]] = Counter()
    for chunks, space in ((first, ""), (later, "" if prepends_space(backend) else " ")):
        for texts in encodable_batches(chunks):
            encodings = backend.encode_batch([space + text for text in texts], add_special_tokens=False)
            for text, encoding in zip(texts, encodings, strict=True):
                for word in _words(encoding.ids, encoding.word_ids, starts_word, unmergeable):
                    counts[word] += chunks[text]
    return counts, bytes_read


def _words(
    ids: list[int], word_ids: list[int | None], starts_word: set[int], unmergeable: set[int]
) -> Iterator[tuple[int, ...]]:
    """Yield the words of one encoding, each as token ids.

    Args:
        ids: The token ids of the encoding.
        word_ids: The pre-tokeniser's word of each token.
        starts_word: Tokens that start a new word even inside a word of the pre-tokeniser.
        unmergeable: Tokens that are words of their own.
    """
    for _, group in groupby(zip(word_ids, ids, strict=True), key=lambda entry: entry[0]):
        word: list[int] = []
        for _, id in group:
            if word and (id in starts_word or id in unmergeable or word[-1] in unmergeable):
                yield tuple(word)
                word = []
            word.append(id)
        yield tuple(word)


def _with_tokens(
    source: PreTrainedTokenizerFast, characters: list[str], merges: list[Merge]
) -> PreTrainedTokenizerFast:
    """Return the source tokenizer with characters and merges appended after its last token."""
    if not characters and not merges:
        return source
    state, tokens = state_of(source), list(vocabulary_of(source).tokens)
    tokens += [*characters, *(merge.token for merge in merges)]
    model = state["model"]
    # Added tokens outside the model, such as T5's sentinels and the special tokens of Llama 3, have the ids after the
    # model's tokens. New model tokens would change these ids. To keep them, the added tokens are put into the model's
    # vocabulary too; the model never splits text into them.
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
        pieces: The pieces of the model and their scores; changed in place.
        tokens: Spelling of all tokens by id, including the added ones.
        merges: The merges that the last of these tokens result from.
    """
    lowest = min(score for _, score in pieces)
    others = tokens[len(pieces) : len(tokens) - len(merges)]
    pieces += [[token or f"<unused {index}>", lowest] for index, token in enumerate(others)]
    for merge in merges:
        pieces.append([merge.token, pieces[merge.left][1] + pieces[merge.right][1] + _BONUS])
