"""Change the vocabulary of a tokenizer through its serialised state, as in `tokenizer.json`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from relexify.tokens.vocabulary import backend_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["rebuild", "renumber_special_tokens", "state_of"]


def state_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Return a copy of a tokenizer's serialised state, without truncation and padding."""
    state: dict[str, Any] = json.loads(backend_of(tokenizer).to_str())
    return {**state, "truncation": None, "padding": None}


def rebuild(tokenizer: PreTrainedTokenizerFast, state: dict[str, Any]) -> PreTrainedTokenizerFast:
    """Return a copy of a tokenizer with another state; the ids in its post-processor are updated."""
    rebuilt = copy.deepcopy(tokenizer)
    rebuilt._tokenizer = Tokenizer.from_str(json.dumps(state))
    renumber_special_tokens(rebuilt)
    return rebuilt


def renumber_special_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    """Update the ids of the special tokens in the post-processor to those of the vocabulary."""
    state = json.loads(backend_of(tokenizer).to_str())
    _renumber(state["post_processor"], backend_of(tokenizer).token_to_id)
    backend_of(tokenizer).post_processor = Tokenizer.from_str(json.dumps(state)).post_processor


def _renumber(component: object, id_of: Callable[[str], int | None]) -> None:
    """Update the ids of special tokens in a post-processor, including nested ones."""
    if not isinstance(component, dict):
        return
    for token in component.get("special_tokens", {}).values():
        token["ids"] = [id_of(name) for name in token["tokens"]]
    for end in {"cls", "sep"} & component.keys():
        component[end] = [component[end][0], id_of(component[end][0])]
    for processor in component.get("processors", []):
        _renumber(processor, id_of)
