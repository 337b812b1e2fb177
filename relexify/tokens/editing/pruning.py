"""Remove the tokens that a text never uses from a tokenizer, such that the text is encoded as before.

Besides the tokens of the text, these are kept: special and added tokens; single bytes, so that every text can still be
encoded; and for BPE, the intermediate tokens from which a kept token is merged. A merge is kept if its two parts and
its result are kept. All merges that apply to the text are therefore kept, in the same order. With Unigram and
WordPiece, the best segmentation remains the best when tokens that it does not use are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from relexify.errors import VocabularyError
from relexify.tokens.editing.rebuilding import rebuild, state_of
from relexify.tokens.encoding import encodable_batches, encoder_of, used_tokens
from relexify.tokens.forms import TokenizerFamily
from relexify.tokens.vocabulary import vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["prune_tokenizer"]


def prune_tokenizer(
    source: PreTrainedTokenizerFast, lines: Callable[[], Iterable[str]]
) -> tuple[PreTrainedTokenizerFast, np.ndarray]:
    """Remove the tokens that a text never uses.

    Args:
        source: The tokenizer; it is not changed.
        lines: Starts one pass over the text.

    Returns:
        The pruned tokenizer, and the source id of each of its tokens [kept], in ascending order.

    Raises:
        VocabularyError: The text would be encoded differently, which is possible only if WordPiece cannot split some
            of its words.
    """
    state, vocabulary = state_of(source), vocabulary_of(source)
    model, spelling = state["model"], vocabulary.spelling
    used = used_tokens(source, lines())
    kept = used | {token["id"] for token in state["added_tokens"]}
    for token, id in vocabulary.ids.items():
        is_byte = spelling.is_byte_name(token) or (spelling.family is TokenizerFamily.BYTE_LEVEL and len(token) == 1)
        if is_byte or vocabulary.forms[id].is_special or token == model.get("unk_token"):
            kept.add(id)
    if model["type"] == "BPE":
        kept |= {vocabulary.ids[part] for part in _parts(model, {vocabulary.tokens[id] for id in used})}
    elif model["type"] == "Unigram" and model["unk_id"] is not None:
        kept.add(model["unk_id"])
    ids = np.array(sorted(kept), np.int64)
    new_ids = {vocabulary.tokens[id]: index for index, id in enumerate(ids)}
    if model["type"] == "Unigram":
        model["vocab"] = [piece for id, piece in enumerate(model["vocab"]) if id in kept]
        model["unk_id"] = None if model["unk_id"] is None else int(np.searchsorted(ids, model["unk_id"]))
    else:
        model["vocab"] = {token: new_ids[token] for token in model["vocab"] if token in new_ids}
    if model["type"] == "BPE":
        model["merges"] = [
            [left, right]
            for left, right in model["merges"]
            if {left, right, _merged(model, left, right)} <= model["vocab"].keys()
        ]
    for added in state["added_tokens"]:
        added["id"] = new_ids[added["content"]]
    pruned = rebuild(source, state)
    _check_encoding(source, pruned, ids, lines())
    return pruned, ids


def _parts(model: dict[str, Any], tokens: Iterable[str]) -> set[str]:
    """Return the characters of some tokens, and the intermediate tokens that BPE merges on the way to each token.

    BPE never merges across the boundary of two final tokens, so the merges of each token can be found separately.
    """
    ranks = {(left, right): rank for rank, (left, right) in enumerate(model["merges"])}
    parts: set[str] = set()
    for token in tokens:
        symbols = _characters(model, token)
        parts.update(symbols)
        while applicable := [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]:
            _, at = min(applicable)
            symbols[at : at + 2] = [_merged(model, symbols[at], symbols[at + 1])]
            parts.add(symbols[at])
    return parts.intersection(model["vocab"])


def _characters(model: dict[str, Any], token: str) -> list[str]:
    """Return the initial symbols of BPE: characters, with a prefix inside a word and a suffix at its end."""
    prefix, suffix = model["continuing_subword_prefix"] or "", model["end_of_word_suffix"] or ""
    first = "" if prefix and not token.startswith(prefix) else prefix
    text = token.removeprefix(prefix)
    ends = bool(suffix) and token.endswith(suffix)
    symbols = [prefix + character for character in text.removesuffix(suffix)]
    symbols[:1] = [first + symbol.removeprefix(prefix) for symbol in symbols[:1]]
    symbols[-1:] = [symbol + suffix if ends else symbol for symbol in symbols[-1:]]
    return symbols


def _merged(model: dict[str, Any], left: str, right: str) -> str:
    return left + right.removeprefix(model["continuing_subword_prefix"] or "")


def _check_encoding(
    source: PreTrainedTokenizerFast, pruned: PreTrainedTokenizerFast, ids: np.ndarray, lines: Iterable[str]
) -> None:
    """Validate that a text is encoded as before; `ids` gives the source id of each token of the pruned tokenizer."""
    before, after = encoder_of(source), encoder_of(pruned)
    for texts in encodable_batches(lines):
        for text, old, new in zip(texts, before.encode(texts), after.encode(texts), strict=True):
            if not np.array_equal(np.asarray(old, np.int64), ids[np.asarray(new, np.int64)]):
                raise VocabularyError(
                    f"without the tokens that the text does not use, this line is encoded differently: {text[:80]!r}; "
                    "leave it out of the text"
                )
