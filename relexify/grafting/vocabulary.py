"""Validate that a grafted model still has the tokenizer that its embeddings were built for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from relexify.errors import VocabularyError
from relexify.mixture import MIXTURE_FILE, Mixture
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.names import resolve
from relexify.progress import count_of
from relexify.tokens import vocabulary_of

__all__ = ["check_own_tokenizer", "describe_other_tokens", "load_own_tokenizer"]

_SHOWN = 3


def check_own_tokenizer(model: str | Path, tokenizer: PreTrainedTokenizerFast | None = None) -> None:
    """Validate that a grafted model has the tokens that its embeddings were built for.

    Without this check, only poor scores would reveal a tokenizer of the same size with other tokens, or with the same
    tokens in another order. Models without a mixture are not checked.

    Args:
        model: As for `load_model`.
        tokenizer: The model's tokenizer; if None, it is loaded, unless the model has no mixture.

    Raises:
        VocabularyError: An id stands for another token.
        InputError: There is no such model, or the mixture is damaged.
    """
    file = Path(resolve(model)) / MIXTURE_FILE  # not a folder that happens to have the name of a packaged model
    if not file.is_file():
        return
    vocabulary = vocabulary_of(load_tokenizer(model) if tokenizer is None else tokenizer)
    if other := describe_other_tokens(vocabulary.tokens, Mixture.load(file).target_tokens):
        raise VocabularyError(
            f"the tokenizer in {model} is not the one that the embeddings were built for: {other}. Put back the "
            f"tokenizer that was written with them (relexify check {model} lists all problems); if the tokens were "
            f"renamed on purpose, remove {MIXTURE_FILE}"
        )


def load_own_tokenizer(model: str | Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a model, and validate it with `check_own_tokenizer`; the model is not loaded.

    Args:
        model: As for `load_model`.

    Raises:
        VocabularyError: An id stands for another token than the one that its row was built for.
        InputError: There is no such model, or its mixture is damaged.
    """
    tokenizer = load_tokenizer(model)
    check_own_tokenizer(model, tokenizer)
    return tokenizer


def describe_other_tokens(found: Sequence[str], expected: Sequence[str]) -> str:
    """Return a message about the ids of a tokenizer that stand for other tokens than expected; empty if there are none.

    Ids without an expected token, and ids that only one of the two lists has, are not compared.

    Args:
        found: The tokens of the tokenizer, by id.
        expected: The tokens of the mixture, by id; `""` for an id without a token.
    """
    differing = [
        f"{id}: {token!r} instead of {other!r}"
        for id, (token, other) in enumerate(zip(found, expected, strict=False))
        if other and token != other
    ]
    if not differing:
        return ""
    ids = count_of(len(differing), "id of the tokenizer stands", "ids of the tokenizer stand")
    shown = ", ".join(differing[:_SHOWN]) + (", …" if len(differing) > _SHOWN else "")
    return f"{ids} for {'another token' if len(differing) == 1 else 'other tokens'} ({shown})"
