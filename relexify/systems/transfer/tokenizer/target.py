"""Load, train or extend the target tokenizer of a transfer, as `choice.py` decides."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from relexify.evidence.evidence import Evidence
from relexify.grafting import load_own_tokenizer
from relexify.methods.registry import METHODS
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.loading import load_config, load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer, train_tokenizer
from relexify.storage.cache import cached, is_cached
from relexify.storage.revisions import TOKENIZERS
from relexify.systems.transfer.options import Transfer, method_options
from relexify.systems.transfer.tokenizer.choice import TokenizerChoice, choose_tokenizer
from relexify.systems.transfer.tokenizer.extension import extend_vocabulary, is_extended
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["known_tokenizer", "load_chosen_tokenizer", "needed_roles", "target_tokenizer"]

_FEW_TOKENS = 0.95
"""Share of the requested tokens below which a trained vocabulary is reported to be small; trainers may miss the number
by a few tokens."""
_CACHED = "tokenizer"
"""The kind of trained tokenizers in the cache."""

logger = logging.getLogger(__name__)


def load_chosen_tokenizer(choice: TokenizerChoice) -> PreTrainedTokenizerFast | None:
    """Load the tokenizer that a choice names; None if it names none, because one is trained or extended.

    The rows of a donor are used with its tokenizer, so that must belong to them. If a model's folder is given as
    tokenizer, nothing else of it is used.

    Raises:
        InputError: There is no such tokenizer.
        VocabularyError: The tokenizer does not belong to the donor.
    """
    if choice.name is None:
        return None
    return load_own_tokenizer(choice.name) if choice.origin == "donor" else load_tokenizer(choice.name)


def target_tokenizer(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> PreTrainedTokenizerFast:
    """Load a given tokenizer or that of a donor, or train or extend one on the text; what is trained is cached."""
    choice, train = choose_tokenizer(options), METHODS[options.method].train_tokenizer
    if choice.origin == "extended":
        return extend_vocabulary(options, source, evidence).tokenizer
    if (chosen := load_chosen_tokenizer(choice)) is not None:
        return chosen
    corpus, size = evidence.corpus, options.vocab_size
    if train is not None:
        trained = train(source, evidence, vocab_size=size, options=method_options(options))
    else:
        config = load_config(options.model)
        trained = cached(
            _CACHED,
            _tokenizer_key(options, source, evidence),
            make=lambda: train_tokenizer(corpus, like=source, vocab_size=size, config=config),
            save=save_tokenizer,
            load=load_tokenizer,
        )
    if (found := len(vocabulary_of(trained))) < _FEW_TOKENS * size:
        logger.warning(
            "the text gives only %s tokens, not %s: give more text, or a smaller vocabulary",
            f"{found:,}",
            f"{size:,}",
        )
    return trained


def known_tokenizer(
    options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence
) -> PreTrainedTokenizerFast | None:
    """Return the result of `target_tokenizer` if one is given, or is in the cache; None if it has to be trained."""
    choice = choose_tokenizer(options)
    is_known = choice.name is not None
    if choice.origin == "extended":
        is_known = is_extended(options, source, evidence)
    elif choice.origin == "like source":
        is_known = is_cached(_CACHED, _tokenizer_key(options, source, evidence))
    return target_tokenizer(options, source, evidence) if is_known else None


def needed_roles(model: PreTrainedModel) -> tuple[str, ...]:
    """Return the special tokens that a tokenizer must have for a model."""
    kind = architecture_of(model)
    return {"encoder": ("mask", "pad"), "encoder-decoder": ("pad", "eos")}.get(kind, ())


def _tokenizer_key(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> dict[str, object]:
    """Return everything that a trained tokenizer depends on, for the cache."""
    return {
        "corpus": evidence.corpus,
        "like": source,
        "vocab_size": options.vocab_size,
        "revision": TOKENIZERS,
        "model_type": load_config(options.model).model_type,
    }
