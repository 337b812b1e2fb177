"""Zero-shot parsing (RAMEN, section 4.2).

A parser that was trained on one language takes the tokenizer and the embeddings of a model of another language, keeps
its encoder and its scorers, and parses that language.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from relexify.errors import GraftError
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.grafting.swap import check_positions
from relexify.pretrained.architecture import check_fit, inner_encoder
from relexify.pretrained.lexical import lexical_axes
from relexify.pretrained.loading import load_model, load_tokenizer

__all__ = ["swap_lexicon"]


def swap_lexicon(parser: BiaffineParser, target: str | Path) -> tuple[BiaffineParser, Any]:
    """A parser for another language: the tokenizer and embeddings of a model of it, all else as it is.

    Args:
        parser: Left as it is.
        target: A folder or name of a model that shares the parser's encoder.

    Returns:
        The new parser, and the tokenizer to parse with.

    Raises:
        GraftError: The model's encoder is not built like the parser's.
        VocabularyError: The model's tokenizer is not its own.
    """
    model, tokenizer = load_model(target), load_tokenizer(target)
    check_fit(model, tokenizer)
    encoder = inner_encoder(model)
    check_positions(parser.encoder, encoder, target)
    config = copy.deepcopy(parser.config)
    own = config.encoder
    config.encoder = copy.deepcopy(model.config)
    config.encoder.dtype = own.dtype
    if getattr(own, "use_cache", None) is not None:
        config.encoder.use_cache = own.use_cache
    swapped = BiaffineParser(config).to(parser.dtype)
    lexical = lexical_axes(encoder)
    values = parser.state_dict()
    values |= {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items() if name in lexical}
    _check_same_build(swapped, values, target)
    swapped.load_state_dict(values)
    return swapped.to(parser.device).train(parser.training), tokenizer


def _check_same_build(swapped: BiaffineParser, values: dict[str, torch.Tensor], target: str | Path) -> None:
    wanted = {name: tuple(tensor.shape) for name, tensor in swapped.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in values.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise GraftError(
                f"the encoder of {target} is not built like the parser's ({name} is {wanted.get(name)} there, "
                f"{found.get(name)} here): give a model that shares the parser's encoder"
            )
