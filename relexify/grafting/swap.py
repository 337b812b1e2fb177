"""Zero-shot transfer: apply a model that was trained on a task in one language to another language.

RAMEN (section 4) fine-tunes a model with its English embeddings. To test it in another language, it replaces only the
tokenizer and the embeddings.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from relexify.grafting.vocabulary import load_own_tokenizer
from relexify.pretrained.architecture import check_fit, inner_encoder
from relexify.pretrained.loading import load_model
from relexify.pretrained.parameters.lexical import count_rows, lexical_axes, resize
from relexify.pretrained.parameters.same_encoder import check_same_encoder

__all__ = ["Lexicon", "load_lexicon", "swap_lexicon"]

Model = TypeVar("Model", bound=PreTrainedModel)


@dataclass(frozen=True)
class Lexicon:
    """The vocabulary of a model: its tokenizer, and the parameters with one entry per token.

    Attributes:
        name: The model that the lexicon is from.
        tokenizer: The tokenizer of that model.
        config: The config of that model.
        encoder: The encoder of that model, without heads.
        parameters: Names of the lexical parameters and buffers of the encoder.
    """

    name: str
    tokenizer: PreTrainedTokenizerFast
    config: PreTrainedConfig
    encoder: PreTrainedModel
    parameters: frozenset[str]


def load_lexicon(name: str | Path) -> Lexicon:
    """Load the lexicon of a model.

    Args:
        name: A folder or name, as for `load_model`.

    Raises:
        InputError: There is no such model.
        VocabularyError: The tokenizer does not match the model.
        GraftError: The vocabulary of the model cannot be changed.
    """
    model, tokenizer = load_model(name), load_own_tokenizer(name)
    check_fit(model, tokenizer)
    encoder = inner_encoder(model)
    return Lexicon(str(name), tokenizer, model.config, encoder, frozenset(lexical_axes(encoder)))


def swap_lexicon(model: Model, lexicon: Lexicon) -> Model:
    """Return a copy of a trained model with the lexicon of another language; everything else is kept.

    Args:
        model: A model with a task head on `model.base_model`, such as a classifier or a parser; it is not changed.
        lexicon: The lexicon of a model that shares its encoder.

    Raises:
        GraftError: The two encoders have different shapes, or count positions from different padding ids.
    """
    check_same_encoder(model.base_model, lexicon.encoder, lexicon.parameters, names=("the trained model", lexicon.name))
    swapped = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):  # resizing draws random rows, which are overwritten below
        resize(swapped, count_rows(lexicon.encoder))
    inner = dict(swapped.base_model.named_parameters()) | dict(swapped.base_model.named_buffers())
    with torch.no_grad():
        for name, tensor in lexicon.encoder.state_dict().items():
            if name in lexicon.parameters:
                inner[name].copy_(tensor)
    # A parser's config contains the config of its encoder, and the encoder itself has a copy: update all of them.
    nested = [getattr(swapped.config, name) for name in swapped.config.sub_configs]
    for config in (swapped.config, swapped.base_model.config, *nested):
        if type(config) is type(lexicon.config):
            for name, value in vars(lexicon.config).items():
                if name.endswith("_token_id"):
                    setattr(config, name, value)
    return swapped
