"""Whether a grafted model still has the tokenizer that its embeddings were built for."""

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
    """Validate that the tokens of a grafted model are those that its embeddings were built for.

    A tokenizer of the same size with other tokens, or with the same ones in another order, would otherwise only show
    in poor scores. Models without a mixture are not checked.

    Args:
        model: As for `load_model`.
        tokenizer: Its tokenizer; if None, it is loaded if there is a mixture.

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
    """Load the tokenizer of a model, and validate it as `check_own_tokenizer` does, before the model is read.

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
    """Say which ids of a tokenizer stand for other tokens than expected; empty if none does.

    Args:
        found: The tokens of the tokenizer, by id.
        expected: Those of the mixture, by id; `""` for an id without a token, which may have one now. Ids that only one
            of them has are not compared either.
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
