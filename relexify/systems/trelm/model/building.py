"""Build a model with a TRILayer from a masked language model, or extract one of its languages.

Parameters are initialised as in section 3.3: the parameters of the masked language model are copied, the TRILayer is a
copy of the layer below it, and the language embeddings are orthogonal. The paper does not specify the initial value of
[P]; here it is the mean of the word embeddings.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn
from transformers import PreTrainedModel

from relexify.errors import GraftError, InputError
from relexify.pretrained.languages import check_languages
from relexify.pretrained.parameters.same_encoder import check_same_encoder, warn_if_trained_apart
from relexify.systems.trelm.model.backbone import encoder_layers, family_of
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.model.xlm import as_bert

__all__ = ["with_one_language", "with_trilayer"]

_WORDS = "embeddings.word_embeddings.weight"
"""The name of the word embeddings inside an encoder."""
_VOCABULARY_ENTRIES = ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
"""Entries of a config that belong to the vocabulary."""


def with_trilayer(
    model: PreTrainedModel,
    languages: Sequence[str] = ("source", "target"),
    *,
    target: PreTrainedModel | None = None,
    trilayer: bool = True,
    embedding_size: int | None = None,
    seed: int = 0,
) -> TriLayerForMaskedLM:
    """Add a TRILayer and language embeddings to a copy of a masked language model.

    A head for next sentences is kept if the model has one. ALBERT's layers, which share their parameters, become
    separate layers with equal parameters, because the two halves are trained separately.

    Args:
        model: A BERT, RoBERTa, ALBERT or XLM with its head for masked tokens; it is not changed.
        languages: Names of the languages, beginning with the source language and ending with the target language.
        target: The same model with the vocabulary of the second language, as `graft` returns it. If given, each
            language has its own vocabulary, and there are no language embeddings. The encoder of `model` is used.
        trilayer: If False, add only the language embeddings, not the TRILayer.
        embedding_size: Factor the word embeddings into a matrix with this many columns and a projection, by a singular
            value decomposition.
        seed: Random seed of the language embeddings.

    Raises:
        GraftError: A TRILayer cannot be added to such a model, or `target` has another encoder.
        InputError: The names of the languages or the width are invalid.
    """
    if len(languages) < 2 or len(set(languages)) < len(languages) or not all(languages):
        raise InputError(f"the languages are called {list(languages)}: give at least two distinct names")
    if target is not None:
        check_languages(languages)
        if embedding_size is not None:
            raise InputError("`embedding_size` is for a joint vocabulary: remove it, or use a joint vocabulary")
        target = as_bert(target)
    model = as_bert(model)
    if target is not None:
        _check_target(model, target)
    config = _build_config(model, languages, target, trilayer, embedding_size)
    with torch.random.fork_rng(devices=[]):  # random initial parameters are overwritten below
        built: TriLayerForMaskedLM = TriLayerForMaskedLM(config).to(model.dtype)
    encoder = built.model
    if encoder.language_embeddings is not None:
        rows = torch.empty(encoder.language_embeddings.weight.shape)  # on the CPU: the same for every device
        nn.init.orthogonal_(rows, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            encoder.language_embeddings.weight.copy_(rows)
    _copy_encoder(model, encoder.backbone)
    _copy_head(model, built)
    if target is not None and encoder.source_words is not None and built.head.source_decoder is not None:
        _copy_vocabulary(model, encoder.source_words, built.head.source_decoder)
        _copy_vocabulary(target, built.get_input_embeddings(), built.head.decoder)
    _factor_embeddings(built, model)
    if encoder.trilayer is not None and encoder.placeholder is not None:
        encoder.trilayer.load_state_dict(encoder.lower[-1].state_dict())
        tables = (encoder.source_words, encoder.backbone.embeddings.word_embeddings)
        words = torch.cat([table.weight.float() for table in tables if table is not None])
        with torch.no_grad():
            encoder.placeholder.copy_(words.mean(dim=0))
    built.tie_weights()
    built.to(model.device).eval()
    return built


def with_one_language(model: TriLayerForMaskedLM, language: str) -> TriLayerForMaskedLM:
    """Return a copy of a model with separate vocabularies that has only the vocabulary of one language.

    For this language, its outputs are bit-identical.

    Args:
        model: A model with separate vocabularies; it is not changed.
        language: Name of the language to keep.

    Raises:
        InputError: The model does not have the language, or has one vocabulary for all languages.
    """
    index = model.config.language_index(language)
    if not model.config.separate:
        raise InputError("the model has one vocabulary for all its languages: a single language cannot be extracted")
    config = copy.deepcopy(model.config)
    config.languages, config.source_vocab_size = [language], None
    values = model.state_dict()
    if model.config.source_vocab_size is not None and index == 0:
        config.backbone.vocab_size = model.config.source_vocab_size
        values |= {
            f"model.backbone.{_WORDS}": values["model.source_words.weight"],
            "head.decoder.weight": values["head.source_decoder.weight"],
            "head.decoder.bias": values["head.source_decoder.bias"],
        }
    with torch.random.fork_rng(devices=[]):  # random initial parameters are overwritten
        built: TriLayerForMaskedLM = TriLayerForMaskedLM(config).to(model.dtype)
    expected = built.state_dict().keys()
    built.load_state_dict({name: value for name, value in values.items() if name in expected})
    built.tie_weights()
    built.to(model.device).eval()
    return built


def _build_config(
    model: PreTrainedModel,
    languages: Sequence[str],
    target: PreTrainedModel | None,
    trilayer: bool,
    embedding_size: int | None,
) -> TriLayerConfig:
    family_of(model.config)
    if not type(model).__name__.endswith(("ForMaskedLM", "BertForPreTraining")):
        raise GraftError(f"{type(model).__name__} has no head for masked tokens: load it with one")
    if model.config.num_hidden_layers < 2:
        raise GraftError("the model has one layer, but a TRILayer is put between two halves: give a deeper model")
    inner = copy.deepcopy(model.config)
    if inner.model_type == "albert":
        inner.num_hidden_groups = inner.num_hidden_layers
    if target is not None:
        for name in _VOCABULARY_ENTRIES:
            if hasattr(model.config, name):
                setattr(inner, name, getattr(target.config, name))
    rows, width = model.get_input_embeddings().weight.shape
    if embedding_size is not None and not 1 <= embedding_size < width:
        raise InputError(
            f"`embedding_size={embedding_size}` is not possible: give a number from 1 to {width - 1}, below the width "
            "of the model"
        )
    return TriLayerConfig(
        backbone=inner,
        languages=languages,
        trilayer=trilayer,
        vocabularies="joint" if target is None else "separate",
        source_vocab_size=None if target is None else int(rows),
        embedding_size=embedding_size,
        next_sentence=_next_sentence_head(model) is not None,
        initializer_range=inner.initializer_range,
        dtype=model.dtype,
    )


def _copy_encoder(model: PreTrainedModel, backbone: PreTrainedModel) -> None:
    """Copy every parameter of the same shape; word embeddings of another shape are set later."""
    values, expected = model.base_model.state_dict(), backbone.state_dict()
    if model.config.model_type == "albert":  # repeat the parameters of a group for every layer that uses it
        prefix = f"{family_of(model.config).layers}."
        values = {name: value for name, value in values.items() if not name.startswith(prefix)}
        groups, count = encoder_layers(model.base_model), model.config.num_hidden_layers
        for layer in range(count):
            group = groups[int(layer / (count / len(groups)))]  # as AlbertTransformer computes it
            values |= {f"{prefix}{layer}.{name}": value for name, value in group.state_dict().items()}
    missing = sorted(expected.keys() - values.keys())
    if missing:
        raise GraftError(
            f"{type(model).__name__} lacks {missing[0]}, which {type(backbone).__name__} needs: give another model"
        )
    chosen = {name: values[name] for name in expected if values[name].shape == expected[name].shape}
    backbone.load_state_dict(chosen, strict=False)


def _copy_head(model: PreTrainedModel, built: TriLayerForMaskedLM) -> None:
    """Copy the parts of the head for masked tokens that have the same shape, and the head for next sentences."""
    family = family_of(model.config)
    if getattr(model.config, "head_transform", True):
        built.head.dense.load_state_dict(model.get_submodule(family.dense).state_dict())
        built.head.norm.load_state_dict(model.get_submodule(family.norm).state_dict())
    decoder = model.get_output_embeddings()
    with torch.no_grad():
        if built.head.decoder.bias.shape == decoder.bias.shape:
            built.head.decoder.bias.copy_(decoder.bias)
        if built.head.decoder.weight.shape == decoder.weight.shape:
            built.head.decoder.weight.copy_(decoder.weight)
    next_sentence = _next_sentence_head(model)
    if built.next_sentence is not None and next_sentence is not None:
        built.next_sentence.load_state_dict(next_sentence.state_dict())


def _copy_vocabulary(model: PreTrainedModel, words: nn.Embedding, decoder: nn.Linear) -> None:
    """Copy the word embeddings, output embedding and output bias of a model."""
    model_decoder = model.get_output_embeddings()
    with torch.no_grad():
        words.weight.copy_(model.get_input_embeddings().weight)
        decoder.weight.copy_(model_decoder.weight)
        decoder.bias.copy_(model_decoder.bias)


def _factor_embeddings(built: TriLayerForMaskedLM, model: PreTrainedModel) -> None:
    """Set narrow word embeddings, if there are any, and both projections to the best approximation E ≈ (U S) Vᵀ.

    The projection in the head is the transpose of the projection of the embeddings.
    """
    size, widening, narrowing = built.config.embedding_size, built.model.widening, built.head.narrowing
    if widening is None or narrowing is None:
        return
    words, scoring = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    # In double precision on the CPU, so that the result is the same for every device.
    left, values, right = torch.linalg.svd(words.detach().double().cpu(), full_matrices=False)
    with torch.no_grad():
        built.get_input_embeddings().weight.copy_(left[:, :size] * values[:size])
        widening.weight.copy_(right[:size].T)
        narrowing.weight.copy_(right[:size])
        if not built.config.tie_word_embeddings:
            built.head.decoder.weight.copy_(scoring.double().cpu() @ right[:size].T)


def _next_sentence_head(model: PreTrainedModel) -> nn.Module | None:
    return getattr(getattr(model, "cls", None), "seq_relationship", None)


def _check_target(source: PreTrainedModel, target: PreTrainedModel) -> None:
    """Validate that a target model is the source model with another vocabulary.

    Raises:
        GraftError: The two models do not share an encoder.
    """
    types = [str(getattr(model.config, "model_type", None)) for model in (source, target)]
    if types[0] != types[1]:
        raise GraftError(
            f"the models are a {types[0]} and a {types[1]}: give two models of the same type, the second made from the "
            "first"
        )
    family_of(target.config)
    if target.get_output_embeddings() is None:
        raise GraftError(f"{type(target).__name__} has no head for masked tokens: load it with one")
    check_same_encoder(source.base_model, target.base_model, {_WORDS})
    warn_if_trained_apart(source.base_model, target.base_model, {_WORDS})
