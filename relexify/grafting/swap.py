"""Zero-shot transfer: a model that has learnt a task in one language is tested through the lexicon of another one.

RAMEN (section 4) fine-tunes through the English embeddings, puts the tokenizer and the embeddings of the other language
in their place, keeps everything else, and measures.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from relexify.errors import GraftError, VocabularyError
from relexify.pretrained.architecture import check_fit, inner_encoder, position_padding
from relexify.pretrained.lexical import lexical_axes, resize
from relexify.pretrained.loading import load_model, load_tokenizer

__all__ = ["Lexicon", "check_positions", "load_lexicon"]


class Lexicon:
    """The tokenizer of a language, and the parameters with one entry for each of its tokens.

    Attributes:
        name: Of the model that it comes from.
        tokenizer: To read with.
        config: Of the model that it comes from.
        encoder: Of that model.
        tensors: By their names in the encoder.
        shapes: Of all that the encoder has, by name.
    """

    def __init__(self, name: str | Path, model: Any, tokenizer: Any) -> None:
        encoder = inner_encoder(model)
        lexical = lexical_axes(encoder)
        values = encoder.state_dict()
        self.name, self.tokenizer, self.config, self.encoder = name, tokenizer, model.config, encoder
        self.tensors = {each: values[each] for each in values if each in lexical}
        self.shapes = {each: tuple(tensor.shape) for each, tensor in values.items()}

    def put_into(self, learner: Any) -> Any:
        """A copy of a fine-tuned model that reads this language, all else as it is.

        Raises:
            GraftError: The encoders are not built alike.
        """
        self._check_same_build(learner.base_model)
        check_positions(learner.base_model, self.encoder, self.name)
        swapped = copy.deepcopy(learner)
        rows = self.encoder.get_input_embeddings().weight.shape[0]
        with torch.random.fork_rng(devices=[]):  # it draws rows that are overwritten below
            resize(swapped, rows)
        inner = dict(swapped.base_model.named_parameters()) | dict(swapped.base_model.named_buffers())
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                inner[name].copy_(tensor)
        for name, value in vars(self.config).items():
            if name.endswith("_token_id"):
                setattr(swapped.config, name, value)
        return swapped

    def _check_same_build(self, encoder: Any) -> None:
        for name, tensor in encoder.state_dict().items():
            there, here = self.shapes.get(name), tuple(tensor.shape)
            first = 1 if name in self.tensors else 0  # vocabularies may be of any size
            if "pooler" not in name and (there is None or there[first:] != here[first:]):
                raise GraftError(
                    f"the encoder of {self.name} is not built like the one that was fine-tuned ({name} is {there} "
                    f"there, {here} here): give a model that shares its encoder"
                )


def load_lexicon(target: str | Path) -> Lexicon:
    """The lexicon of a model.

    Args:
        target: A folder or name of a model that shares the encoder of the one to be tested.

    Raises:
        InputError: There is no such model.
        VocabularyError: Its tokenizer is not its own, or has no token to pad with.
    """
    model, tokenizer = load_model(target), load_tokenizer(target)
    check_fit(model, tokenizer)
    if tokenizer.pad_token_id is None:
        raise VocabularyError(f"the tokenizer of {target} has no token to pad with: set its pad_token")
    return Lexicon(target, model, tokenizer)


def check_positions(ours: Any, theirs: Any, target: str | Path) -> None:
    """Refuse a lexicon whose padding id would move the positions, where they are counted from it as in RoBERTa.

    Raises:
        GraftError: It would.
    """
    here, there = position_padding(ours), position_padding(theirs)
    if here != there:
        raise GraftError(
            f"{target} counts positions from its padding id {there}, the encoder here from {here}: "
            "give a model whose padding token has the same id"
        )
