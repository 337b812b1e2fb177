"""Keep the ids of special tokens in config and generation_config consistent with the target vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import GraftError, VocabularyError
from relexify.mixture import Mixture, Origin
from relexify.pretrained.architecture import position_padding
from relexify.tokens import ROLES, Vocabulary, vocabulary_of

__all__ = ["check_roles", "synchronise_ids"]

_LISTED_IDS = ("bad_words_ids", "forced_decoder_ids", "sequence_bias")
"""Generation settings that list words of the source language. If the vocabulary was only extended or pruned, words with
all their tokens left are kept; otherwise the settings are cleared."""


def synchronise_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, mixture: Mixture) -> dict[str, Any]:
    """Replace every `…_token_id` of config and generation_config by the id in the target vocabulary, in place.

    If the target tokenizer has a token with the role in the name (`bos`, `eos`, …), its id is used. Any other id
    (`decoder_start_token_id`, `forced_bos_token_id`, …) is replaced by the id of the special token that was copied from
    its source row, or that has the same spelling.

    Returns:
        The target ids by name.

    Raises:
        GraftError: The model counts positions from its padding id, which is different in the target vocabulary.
    """
    vocabulary = vocabulary_of(tokenizer)
    roles = vocabulary.special
    counted_from = getattr(model.config, "pad_token_id", None)
    if position_padding(model) is not None and roles.get("pad") != counted_from:
        raise GraftError(
            f"{type(model).__name__} counts positions from its padding id {counted_from}, but the padding id of the "
            f"target tokenizer is {roles.get('pad')}: give its padding token the id {counted_from}, or let relexify "
            "train the tokenizer"
        )
    target_ids = {**_same_spelling(mixture, vocabulary), **_copied(mixture)}
    changed: dict[str, Any] = {}
    generation = getattr(model, "generation_config", None)
    configs = [model.config] if generation is None else [model.config, generation]
    for config in configs:
        for name, value in list(vars(config).items()):
            if name.endswith("_token_id") or name in {"suppress_tokens", "begin_suppress_tokens"}:
                changed[name] = _target_value(name, value, roles, target_ids)
                setattr(config, name, changed[name])
    kept = _kept(mixture)
    for name in _LISTED_IDS:
        value = getattr(generation, name, None)
        if value is not None:
            changed[name] = _listed_value(name, value, kept)
            setattr(generation, name, changed[name])
    embedding = model.get_input_embeddings()
    if getattr(embedding, "padding_idx", None) is not None:
        embedding.padding_idx = roles.get("pad")
    return changed


def check_roles(
    source_tokenizer: PreTrainedTokenizerFast, target_tokenizer: PreTrainedTokenizerFast, needed: tuple[str, ...]
) -> None:
    """Validate that the target tokenizer has the special tokens that the model needs.

    Args:
        source_tokenizer: The tokenizer of the model.
        target_tokenizer: The tokenizer to graft.
        needed: Roles such as `"mask"`; roles that the source tokenizer lacks are ignored.

    Raises:
        VocabularyError: A role is missing.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    for role in needed:
        if role in source.special and role not in target.special:
            token = source.tokens[source.special[role]]
            raise VocabularyError(
                f"the target tokenizer has no {role} token, but the model needs one ({token!r}): "
                f"add it with tokenizer.add_special_tokens({{'{role}_token': '{token}'}}), or let relexify train one"
            )


def _target_value(
    name: str, value: int | list[int] | None, roles: Mapping[str, int], target_ids: Mapping[int, int]
) -> int | list[int] | None:
    """Return the value of a setting (an id, a list of ids or None) with target ids."""
    role = name.removesuffix("_token_id")
    if isinstance(value, list):
        return [target_ids[id] for id in value if id in target_ids] or roles.get(role)
    if role in ROLES and role in roles:
        return roles[role]
    return target_ids.get(value) if isinstance(value, int) else value


def _listed_value(name: str, value: Any, kept: Mapping[int, int]) -> list[Any] | None:
    """Return the value of one of the `_LISTED_IDS` settings with target ids; None if it would be empty."""
    if name == "forced_decoder_ids":  # pairs of position and id
        target_value = [[position, kept[id]] for position, id in value if id in kept]
    elif name == "sequence_bias":  # a word and its bias, as a dictionary or as a list of pairs
        biases = value.items() if isinstance(value, Mapping) else value
        target_value = [[[kept[id] for id in word], bias] for word, bias in biases if all(id in kept for id in word)]
    else:
        target_value = [[kept[id] for id in word] for word in value if all(id in kept for id in word)]
    return target_value or None


def _kept(mixture: Mixture) -> dict[int, int]:
    """Return the target id of every kept source token if one vocabulary contains the other; otherwise an empty dict."""
    weights = mixture.weights
    rows = np.flatnonzero(np.diff(weights.indptr) == 1)
    entries = weights.indptr[rows]
    copied = weights.data[entries] == 1
    pairs = zip(weights.indices[entries][copied].tolist(), rows[copied].tolist(), strict=True)
    kept = {source: row for source, row in pairs if mixture.source_tokens[source] == mixture.target_tokens[row]}
    sizes = {sum(map(bool, tokens)) for tokens in (mixture.source_tokens, mixture.target_tokens)}
    return kept if len(kept) in sizes else {}


def _copied(mixture: Mixture) -> dict[int, int]:
    """Return the target id of every source special token that was copied; if it was copied repeatedly, the first id."""
    target_ids: dict[int, int] = {}
    for id in np.flatnonzero(mixture.origin == Origin.SPECIAL):
        for source in mixture.weights.indices[mixture.weights.indptr[id] : mixture.weights.indptr[id + 1]]:
            target_ids.setdefault(int(source), int(id))
    return target_ids


def _same_spelling(mixture: Mixture, vocabulary: Vocabulary) -> dict[int, int]:
    """Return the target id of every source token that is spelled like a target special token.

    Mixtures that do not copy special tokens need these ids.
    """
    special = {token: id for id, token in enumerate(vocabulary.tokens) if token and vocabulary.forms[id].is_special}
    return {source: special[token] for source, token in enumerate(mixture.source_tokens) if token in special}
