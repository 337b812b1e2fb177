"""From a masked language model to one with a TRILayer, which begins where the model was."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

import torch

from relexify.errors import GraftError, InputError
from relexify.pretrained.languages import check_languages
from relexify.systems.trelm.model.backbone import family_of, layers_of
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.encoder import TriLayerModel
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM

__all__ = ["check_second", "copy_vocabularies", "one_language", "vocabulary_entries", "with_trilayer"]

_WORDS = "embeddings.word_embeddings.weight"
_LEXICAL = (_WORDS, "embeddings.position_ids", "embeddings.token_type_ids")
_WANTED = "give the model that the other was transferred from, and the other as relexify transfer wrote it"

logger = logging.getLogger(__name__)


def with_trilayer(
    model: Any,
    languages: Sequence[str] = ("source", "target"),
    *,
    target: Any = None,
    trilayer: bool = True,
    embedding_size: int | None = None,
    seed: int = 0,
) -> TriLayerForMaskedLM:
    """Put a TRILayer and language embeddings into a copy of a masked language model.

    The TRILayer begins as a copy of the layer below it, [P] as the mean of the word embeddings, and the language
    embeddings as orthogonal rows of length one. A head for next sentences comes along. The layers of an ALBERT, which
    are one and the same, become so many equal ones, since the two halves are trained apart.

    Args:
        model: A BERT, RoBERTa or ALBERT with its head for masked tokens; it stays as it is.
        languages: What the languages are called: the one the model comes from first, the one it goes to last.
        target: The same model with the vocabulary of the second language, as `graft` makes it: each language then has
            a vocabulary of its own, and there are no language embeddings. The encoder is that of `model`.
        trilayer: Leave the TRILayer out if False; language embeddings are then all that is new.
        embedding_size: Write the word embeddings as so many columns and a projection (the best such product, by a
            singular value decomposition).
        seed: Of the language embeddings.

    Raises:
        GraftError: A TRILayer cannot be put into such a model, or `target` has another encoder.
        InputError: The names of the languages or the width do not do.
    """
    _check_languages(languages)
    if target is not None:
        _check_separate(languages, embedding_size)
        check_second(model, target)
    config = _config_of(model, languages, target, trilayer, embedding_size)
    with torch.random.fork_rng(devices=[]):  # what it draws is overwritten below
        built: TriLayerForMaskedLM = TriLayerForMaskedLM(config).to(model.dtype)
    if built.model.language_embeddings is not None:
        _draw(built.model.language_embeddings.weight, seed)
    _copy_backbone(model, built.model.backbone)
    _copy_head(model, built)
    if target is not None:
        copy_vocabularies(built, model, target)
    if embedding_size is not None:
        _narrow(built, _words(model), model.get_output_embeddings().weight)
    if built.model.trilayer is not None and built.model.placeholder is not None:
        built.model.trilayer.load_state_dict(built.model.lower[-1].state_dict())
        with torch.no_grad():
            built.model.placeholder.copy_(_all_words(built.model).mean(dim=0))
    built.tie_weights()
    built.to(model.device).eval()
    return built


def _config_of(
    model: Any, languages: Sequence[str], target: Any, trilayer: bool, embedding_size: int | None
) -> TriLayerConfig:
    family_of(model.config)
    if not type(model).__name__.endswith(("ForMaskedLM", "BertForPreTraining")):
        raise GraftError(f"{type(model).__name__} has no head for masked tokens: load it with one")
    if model.config.num_hidden_layers < 2:
        raise GraftError("the model has one layer, which cannot be cut into two halves: take a deeper one")
    inner = copy.deepcopy(model.config)
    if inner.model_type == "albert":
        inner.num_hidden_groups = inner.num_hidden_layers
    if target is not None:
        for name, value in vocabulary_entries(model, target).items():
            setattr(inner, name, value)
    width = _words(model).shape[1]
    if embedding_size is not None and not 1 <= embedding_size < width:
        raise InputError(
            f"embedding_size = {embedding_size} is not possible: give a number below the {width} of the model"
        )
    return TriLayerConfig(
        backbone=inner,
        languages=languages,
        trilayer=trilayer,
        vocabularies="joint" if target is None else "separate",
        source_vocab_size=None if target is None else int(_words(model).shape[0]),
        embedding_size=embedding_size,
        next_sentence=_next_sentence(model) is not None,
        initializer_range=inner.initializer_range,
        dtype=model.dtype,
    )


def _copy_backbone(model: Any, backbone: Any) -> None:
    """All but the word embeddings where those have another width, which come later."""
    values, wanted = model.base_model.state_dict(), backbone.state_dict()
    if model.config.model_type == "albert":
        values = _unshared(model, values)
    missing = sorted(wanted.keys() - values.keys())
    if missing:
        raise GraftError(f"{type(model).__name__} lacks {missing[0]}, which {type(backbone).__name__} needs")
    chosen = {name: values[name] for name in wanted if values[name].shape == wanted[name].shape}
    backbone.load_state_dict(chosen, strict=False)


def _unshared(model: Any, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The parameters of an ALBERT with those of a group repeated for every layer that it stands for."""
    prefix = f"{family_of(model.config).layers}."
    plain = {name: value for name, value in values.items() if not name.startswith(prefix)}
    groups, count = layers_of(model.base_model), model.config.num_hidden_layers
    for place in range(count):
        group = groups[int(place / (count / len(groups)))]
        plain |= {f"{prefix}{place}.{name}": value for name, value in group.state_dict().items()}
    return plain


def _copy_head(model: Any, built: TriLayerForMaskedLM) -> None:
    family = family_of(model.config)
    built.head.dense.load_state_dict(model.get_submodule(family.dense).state_dict())
    built.head.norm.load_state_dict(model.get_submodule(family.norm).state_dict())
    decoder = model.get_submodule(family.decoder)
    with torch.no_grad():
        if built.head.decoder.bias.shape == decoder.bias.shape:
            built.head.decoder.bias.copy_(decoder.bias)
        if built.head.decoder.weight.shape == decoder.weight.shape:
            built.head.decoder.weight.copy_(decoder.weight)
    if built.next_sentence is not None:
        built.next_sentence.load_state_dict(_next_sentence(model).state_dict())


def _narrow(built: TriLayerForMaskedLM, words: torch.Tensor, scoring: torch.Tensor) -> None:
    """The best product of so many columns: E ≈ (U S) Vᵀ, and the head narrowed by the same projection."""
    size, widening, narrowing = built.config.embedding_size, built.model.widening, built.head.narrowing
    if widening is None or narrowing is None:
        return
    left, values, right = torch.linalg.svd(words.detach().double().cpu(), full_matrices=False)
    with torch.no_grad():
        built.get_input_embeddings().weight.copy_(left[:, :size] * values[:size])
        widening.weight.copy_(right[:size].T)
        narrowing.weight.copy_(right[:size])
        if not built.config.tie_word_embeddings:
            built.head.decoder.weight.copy_(scoring.double().cpu() @ right[:size].T)


def _next_sentence(model: Any) -> Any:
    return getattr(getattr(model, "cls", None), "seq_relationship", None)


def _draw(rows: torch.Tensor, seed: int) -> None:
    """Orthogonal rows, whatever the device draws."""
    drawn = torch.empty(rows.shape)
    torch.nn.init.orthogonal_(drawn, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        rows.copy_(drawn)


def _all_words(encoder: TriLayerModel) -> torch.Tensor:
    """The rows of all tables."""
    tables = (encoder.source_words, encoder.backbone.embeddings.word_embeddings)
    return torch.cat([table.weight.float() for table in tables if table is not None])


def _words(model: Any) -> torch.Tensor:
    weight: torch.Tensor = model.get_input_embeddings().weight
    return weight


def _check_languages(languages: Sequence[str]) -> None:
    if len(languages) < 2 or len(set(languages)) < len(languages) or not all(languages):
        raise InputError(f"the languages are called {list(languages)}: give two names or more, each another one")


def _check_separate(languages: Sequence[str], embedding_size: int | None) -> None:
    check_languages(languages)
    if embedding_size is not None:
        raise InputError("embedding_size is for a joint vocabulary: leave it out where each language has its own")


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
