"""Ids of special tokens in config and generation_config, in step with the new rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from relexify.errors import GraftError, VocabularyError
from relexify.mixture import Mixture, Origin
from relexify.pretrained.architecture import position_padding
from relexify.tokens import ROLES, Vocabulary, vocabulary_of

__all__ = ["check_roles", "synchronise_ids"]


_LISTED_IDS = ("bad_words_ids", "forced_decoder_ids", "sequence_bias")
"""Settings of generation that name old words, which have no place in a new language."""


def synchronise_ids(model: Any, tokenizer: Any, mixture: Mixture) -> dict[str, Any]:
    """Point every `…_token_id` of config and generation_config at the new vocabulary.

    An id whose role the tokenizer declares takes that token; any other (`decoder_start_token_id`,
    `forced_bos_token_id`, …) follows the special token that was copied from its old row, or is spelled the same.

    Returns:
        The new ids by name.
    """
    vocabulary = vocabulary_of(tokenizer)
    roles = vocabulary.special
    moved = {**_same_spelling(mixture, vocabulary), **_moved_ids(mixture)}
    changed: dict[str, Any] = {}
    _keep_positions(model, roles)
    for holder in (model.config, getattr(model, "generation_config", None)):
        for name, old in list(vars(holder).items()) if holder is not None else []:
            if not name.endswith("_token_id") and name not in {"suppress_tokens", "begin_suppress_tokens"}:
                continue
            new = _translated(name, old, roles, moved)
            setattr(holder, name, new)
            changed[name] = new
    for name in _LISTED_IDS:
        if getattr(getattr(model, "generation_config", None), name, None) is not None:
            setattr(model.generation_config, name, None)
            changed[name] = None
    embedding = model.get_input_embeddings()
    if getattr(embedding, "padding_idx", None) is not None:
        embedding.padding_idx = roles.get("pad")
    return changed


def check_roles(source_tokenizer: Any, target_tokenizer: Any, needed: tuple[str, ...]) -> None:
    """Make sure that the new tokenizer can play the roles that the model needs.

    Raises:
        VocabularyError: A needed role is missing.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    for role in needed:
        if role in source.special and role not in target.special:
            token = source.tokens[source.special[role]]
            raise VocabularyError(
                f"the new tokenizer has no {role} token and the model needs one ({token!r}): "
                f"add it with tokenizer.add_special_tokens({{'{role}_token': '{token}'}}), or let relexify train one"
            )


def _translated(name: str, old: Any, roles: Any, moved: dict[int, int]) -> Any:
    role = name.removesuffix("_token_id")
    if isinstance(old, list):
        return [moved[id] for id in old if id in moved] or roles.get(role)
    if role in ROLES and role in roles:
        return roles[role]
    return moved.get(old) if isinstance(old, int) else old


def _moved_ids(mixture: Mixture) -> dict[int, int]:
    """New id of every old special token that was copied, the first where there are several."""
    moved: dict[int, int] = {}
    for id in np.flatnonzero(mixture.origin == Origin.SPECIAL):
        for old in mixture.weights.indices[mixture.weights.indptr[id] : mixture.weights.indptr[id + 1]]:
            moved.setdefault(int(old), int(id))
    return moved


def _same_spelling(mixture: Mixture, vocabulary: Vocabulary) -> dict[int, int]:
    """New id of every old token that is spelled like a special one, for mixtures that copy none."""
    special = {token: id for id, token in enumerate(vocabulary.tokens) if token and vocabulary.forms[id].is_special}
    return {old: special[token] for old, token in enumerate(mixture.source_tokens) if token in special}


def _keep_positions(model: Any, roles: Any) -> None:
    """RoBERTa and its kin count positions from the padding id, so that id may not move."""
    old = getattr(model.config, "pad_token_id", None)
    if position_padding(model) is not None and roles.get("pad") != old:
        raise GraftError(
            f"{type(model).__name__} counts positions from its padding id {old}, and the new tokenizer's is "
            f"{roles.get('pad')}: give the padding token the id {old}, or let relexify train the tokenizer"
        )
