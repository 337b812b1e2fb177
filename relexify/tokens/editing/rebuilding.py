"""Change the vocabulary of a tokenizer through its serialised state, as in `tokenizer.json`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from relexify.errors import VocabularyError
from relexify.tokens.vocabulary import backend_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["check_post_processor", "rebuild", "renumber_special_tokens", "state_of"]


def state_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Return a copy of a tokenizer's serialised state, without truncation and padding."""
    state: dict[str, Any] = json.loads(backend_of(tokenizer).to_str())
    return {**state, "truncation": None, "padding": None}


def rebuild(tokenizer: PreTrainedTokenizerFast, state: dict[str, Any]) -> PreTrainedTokenizerFast:
    """Return a copy of a tokenizer with another state; the ids in its post-processor are updated.

    Raises:
        VocabularyError: As `check_post_processor`, for the copy.
    """
    rebuilt = copy.deepcopy(tokenizer)
    rebuilt._tokenizer = Tokenizer.from_str(json.dumps(state))
    renumber_special_tokens(rebuilt)
    return rebuilt


def renumber_special_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    """Update the ids of the special tokens in the post-processor to those of the vocabulary.

    Raises:
        VocabularyError: As `check_post_processor`.
    """
    state = _renumbered(tokenizer)
    backend_of(tokenizer).post_processor = Tokenizer.from_str(json.dumps(state)).post_processor


def check_post_processor(tokenizer: PreTrainedTokenizerFast) -> None:
    """Validate that the vocabulary has all tokens that the post-processor puts around a text.

    A tokenizer without them encodes text nevertheless, with the ids that its file names.

    Raises:
        VocabularyError: It lacks one.
    """
    _renumbered(tokenizer)


def _renumbered(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Return the state of a tokenizer with the ids of its vocabulary in the post-processor."""
    backend = backend_of(tokenizer)
    state: dict[str, Any] = json.loads(backend.to_str())

    def id_of(token: str) -> int:
        if (id := backend.token_to_id(token)) is None:
            raise VocabularyError(
                f"the tokenizer puts {token!r} around a text, but its vocabulary has no such token: add it, or correct "
                "the post_processor in tokenizer.json"
            )
        return id

    _renumber(state["post_processor"], id_of)
    return state


def _renumber(component: object, id_of: Callable[[str], int]) -> None:
    """Update the ids of special tokens in a post-processor, including nested ones."""
    if not isinstance(component, dict):
        return
    for token in component.get("special_tokens", {}).values():
        token["ids"] = [id_of(name) for name in token["tokens"]]
    for end in ("cls", "sep"):
        if end in component:
            component[end] = [component[end][0], id_of(component[end][0])]
    for processor in component.get("processors", []):
        _renumber(processor, id_of)
