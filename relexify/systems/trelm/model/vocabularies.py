"""A vocabulary for each of two languages around one TRILayer (TreLM, section 6.3: CdLM*), and one of them alone."""

from __future__ import annotations

import copy
import logging
from typing import Any

import torch

from relexify.errors import GraftError, InputError
from relexify.systems.trelm.model.backbone import family_of
from relexify.systems.trelm.model.trilayer import TriLayerForMaskedLM

__all__ = ["check_second", "copy_vocabularies", "one_language", "vocabulary_entries"]

_WORDS = "embeddings.word_embeddings.weight"
_LEXICAL = (_WORDS, "embeddings.position_ids", "embeddings.token_type_ids")

logger = logging.getLogger(__name__)


def check_second(source: Any, target: Any) -> None:
    """Refuse a second model that is not the first one with another vocabulary.

    Raises:
        GraftError: The two do not share an encoder.
    """
    kinds = [str(getattr(model.config, "model_type", None)) for model in (source, target)]
    if kinds[0] != kinds[1]:
        raise GraftError(f"the models are a {kinds[0]} and a {kinds[1]}: {_WANTED}")
    family_of(target.config)
    if target.get_output_embeddings() is None:
        raise GraftError(f"{type(target).__name__} has no head for masked tokens: load it with one")
    ours, theirs = (_inner(model) for model in (source, target))
    for name in sorted({*ours, *theirs}):
        here, there = (tuple(values[name].shape) if name in values else None for values in (ours, theirs))
        if here != there:
            raise GraftError(f"{name} is {here} in one model and {there} in the other: {_WANTED}")
    _check_padding(source, target)
    changed = [name for name in ours if not torch.equal(ours[name].cpu().float(), theirs[name].cpu().float())]
    if changed:
        logger.warning(
            "the encoders of the two models differ in %d of %d parameters: the source model's is taken, to which the "
            "embeddings of the other were not trained",
            len(changed),
            len(ours),
        )


def vocabulary_entries(source: Any, target: Any) -> dict[str, Any]:
    """What the config of the joined model has of each vocabulary, over that of the source model."""
    names = ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
    return {name: getattr(target.config, name) for name in names if hasattr(source.config, name)}


def copy_vocabularies(built: TriLayerForMaskedLM, source: Any, target: Any) -> None:
    """Word embeddings, output embeddings and biases: the target's into the backbone, the source's beside it."""
    words, decoder = built.model.source_words, built.head.source_decoder
    if words is None or decoder is None:
        return
    for model, table, head in (
        (source, words, decoder),
        (target, built.get_input_embeddings(), built.head.decoder),
    ):
        own = model.get_submodule(family_of(model.config).decoder)
        with torch.no_grad():
            table.weight.copy_(model.get_input_embeddings().weight)
            head.weight.copy_(own.weight)
            head.bias.copy_(own.bias)


def one_language(model: TriLayerForMaskedLM, language: str) -> TriLayerForMaskedLM:
    """A model with separate vocabularies without the other language; for its own it computes the same bit for bit.

    Args:
        model: It stays as it is.
        language: By its name.

    Raises:
        InputError: The model does not know the language, or has one vocabulary for all.
    """
    place = model.config.place_of(language)
    if not model.config.separate:
        raise InputError("the model has one vocabulary for all its languages: there is none to take out")
    config = copy.deepcopy(model.config)
    config.languages, config.source_vocab_size = [language], None
    values = model.state_dict()
    if model.config.source_vocab_size is not None and place == 0:
        config.backbone.vocab_size = model.config.source_vocab_size
        values |= {
            f"model.backbone.{_WORDS}": values["model.source_words.weight"],
            "head.decoder.weight": values["head.source_decoder.weight"],
            "head.decoder.bias": values["head.source_decoder.bias"],
        }
    with torch.random.fork_rng(devices=[]):  # what it draws is overwritten
        built: TriLayerForMaskedLM = TriLayerForMaskedLM(config).to(model.dtype)
    wanted = built.state_dict().keys()
    built.load_state_dict({name: value for name, value in values.items() if name in wanted})
    built.tie_weights()
    built.to(model.device).eval()
    return built


_WANTED = "give the model that the other was transferred from, and the other as relexify transfer wrote it"


def _inner(model: Any) -> dict[str, torch.Tensor]:
    """All that two languages share inside the encoder."""
    values = model.base_model.state_dict()
    return {name: value for name, value in values.items() if name not in _LEXICAL and not name.startswith("pooler.")}


def _check_padding(source: Any, target: Any) -> None:
    """Positions that are counted from the padding token's number ask for one number."""
    first, second = (model.config.pad_token_id for model in (source, target))
    positions = source.base_model.embeddings.position_embeddings
    if positions.padding_idx is not None and first != second:
        raise GraftError(
            f"{type(source).__name__} counts positions from its padding id, which is {first} in one model and {second} "
            "in the other: give models with the same padding id"
        )
