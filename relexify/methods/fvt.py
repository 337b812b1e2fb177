"""Fast vocabulary transfer: a target token is the mean of its source pieces (Gee et al., EMNLP 2022)."""

from __future__ import annotations

from collections.abc import Mapping

from relexify.methods.parts.copying import special
from relexify.methods.registry import METHODS, Method
from relexify.mixture import Mixture, Origin, first_of, mixture_of_rows
from relexify.tokens import AnyTokenizer, source_pieces, vocabulary_of

__all__ = ["fvt", "pieces"]


def pieces(source_tokenizer: AnyTokenizer, target_tokenizer: AnyTokenizer) -> Mixture:
    """Mix every token from its source pieces with equal weights; special tokens remain empty."""
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    rows = source_pieces(source_tokenizer, target)
    return mixture_of_rows(rows, source, target, method="pieces", origin=Origin.PIECES)


def fvt(
    source_tokenizer: AnyTokenizer,
    target_tokenizer: AnyTokenizer,
    *,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Copy shared tokens, and use the mean of the source pieces for all others.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        overrides: Source token by target token, as in `special`.
    """
    special_tokens = special(source_tokenizer, target_tokenizer, overrides=overrides)
    return first_of(special_tokens, pieces(source_tokenizer, target_tokenizer), method="fvt")


METHODS.add(
    "fvt",
    Method(
        becomes="the mean of its source pieces",
        evidence="the two tokenizers alone",
        paper="Gee et al. 2022",
        build=lambda inputs: fvt(inputs.source, inputs.target, overrides=inputs.overrides),
        uses=("overrides",),
    ),
)
