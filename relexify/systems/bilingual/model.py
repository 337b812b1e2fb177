"""A bilingual language model: one encoder, and for each of two languages embeddings and an output layer of its own.

RAMEN (section 2.3) plugs the vocabulary of a second language into a pretrained model and trains both languages on.
Here the two languages are two ordinary models of transformers which share every module but those of the vocabulary:
what one of them computes is what it would compute alone, whatever its family does with positions, scales or caps, and
nothing is copied when the language changes.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel

from relexify.errors import GraftError, InputError
from relexify.pretrained.architecture import position_padding
from relexify.pretrained.languages import check_languages
from relexify.pretrained.lexical import lexical_axes
from relexify.systems.bilingual.kind import MODEL_TYPE
from relexify.systems.compression.model import is_compressed

__all__ = ["MEMBERS", "BilingualConfig", "BilingualModel"]

MEMBERS = ("source", "target")
"""What the two models are called inside, whatever the languages are called."""

logger = logging.getLogger(__name__)


class BilingualConfig(PreTrainedConfig):  # type: ignore[misc]
    """What a bilingual model is made of.

    Attributes:
        source: The config of the model of the first language.
        target: The config of the model of the second one.
        languages: What the two languages are called.
        lexical: Names of the parameters and buffers that each language has for itself.
    """

    model_type = MODEL_TYPE
    sub_configs = {"source": AutoConfig, "target": AutoConfig}  # noqa: RUF012 (the name and kind that transformers asks for)

    def __init__(
        self,
        source: Any = None,
        target: Any = None,
        languages: Sequence[str] = MEMBERS,
        lexical: Sequence[str] = (),
        **rest: Any,
    ) -> None:
        self.source = AutoConfig.for_model(**source) if isinstance(source, dict) else source
        self.target = AutoConfig.for_model(**target) if isinstance(target, dict) else target
        self.languages = list(languages)
        self.lexical = list(lexical)
        super().__init__(**rest)


class BilingualModel(PreTrainedModel):  # type: ignore[misc]
    """Two language models with one encoder between them."""

    config_class = BilingualConfig
    base_model_prefix = ""
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: BilingualConfig) -> None:
        super().__init__(config)
        self.source = _member(config.source)
        self.target = _member(config.target)
        single, inside = _share(self.source, self.target, frozenset(config.lexical))
        self._single = {f"target.{name}": f"source.{name}" for name in single}
        # What is named here is written once.
        self._tied_weights_keys = {f"target.{name}": f"source.{name}" for name in (*single, *inside)}
        self.post_init()

    @classmethod
    def join(cls, source: Any, target: Any, languages: Sequence[str] = MEMBERS) -> BilingualModel:
        """A bilingual model of two, with the first one's encoder; both stay as they are.

        Args:
            source: A decoder or a masked language model.
            target: The same model with another vocabulary, as `graft` makes it.
            languages: What the two languages are called.

        Raises:
            InputError: The names of the languages do not do.
            GraftError: The two models are not built alike.
        """
        check_languages(languages)
        _check_alike(source, target)
        lexical = sorted(lexical_axes(source))
        _check_inner(source, target, lexical)
        first, second = (_config_of(model, source.dtype) for model in (source, target))
        built: BilingualModel = cls(BilingualConfig(first, second, languages, lexical)).to(source.dtype)
        values, foreign = source.state_dict(), target.state_dict()
        built.source.load_state_dict(values)
        built.target.load_state_dict({name: (foreign if name in lexical else values)[name] for name in foreign})
        for name, model in zip(MEMBERS, (source, target), strict=True):
            if model.can_generate():
                getattr(built, name).generation_config = copy.deepcopy(model.generation_config)
        built.to(source.device).eval()
        return built

    @property
    def languages(self) -> tuple[str, str]:
        """What the two languages are called."""
        first, second = self.config.languages
        return first, second

    def for_language(self, language: str | None) -> Any:
        """The ordinary model of one language; its encoder is the one of both, not a copy.

        Raises:
            InputError: The model does not know the language.
        """
        return getattr(self, MEMBERS[self.index_of(language)])

    def index_of(self, language: str | None) -> int:
        """0 for the first language, 1 for the second.

        Raises:
            InputError: The model does not know the language.
        """
        if language not in self.languages:
            known = " or ".join(map(repr, self.languages))
            found = "no language was named" if language is None else f"it does not know the language {language!r}"
            raise InputError(f"the model is bilingual, and {found}: give {known} (--language)")
        return self.languages.index(language)

    def lexical_parameter_names(self) -> set[str]:
        """Return the names of the parameters and buffers that belong to one language alone."""
        return {f"{member}.{name}" for member in MEMBERS for name in self.config.lexical}

    def loss_members(self) -> tuple[Any, Any]:
        """Return the two models; see `relexify.training.protocol.JointModel`."""
        return self.source, self.target

    def joint_loss(self, input_ids: torch.Tensor, labels: torch.Tensor, language: str | None = None) -> torch.Tensor:
        """Return the summed negative log likelihood of a batch, while each member returns its own.

        Args:
            input_ids: Tokens [rows × positions].
            labels: Tokens to predict [rows × positions].
            language: That of all rows. If None, the first half of the rows is in the first language and the other half
                in the second, so that one call reaches all parameters, as wrappers for several devices need it.
        """
        nats: torch.Tensor
        if language is not None:
            nats = self.for_language(language)(input_ids=input_ids, labels=labels)
            return nats
        first_inputs, second_inputs = input_ids.chunk(2)
        first_labels, second_labels = labels.chunk(2)
        nats = self.source(input_ids=first_inputs, labels=first_labels)
        nats = nats + self.target(input_ids=second_inputs, labels=second_labels)
        return nats

    def forward(self, input_ids: torch.Tensor | None = None, *, language: str | None = None, **inputs: Any) -> Any:
        """What the model of a language makes of its tokens.

        Args:
            input_ids: Tokens of that language's tokenizer [batch × tokens].
            language: Which one.
            **inputs: Whatever else the model of one language takes: attention_mask, labels, …
        """
        return getattr(self, MEMBERS[self.index_of(language)])(input_ids=input_ids, **inputs)

    def get_input_embeddings(self) -> Any:
        """Those of the first language."""
        return self.source.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """Those of the first language."""
        return self.source.get_output_embeddings()

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """What has to be tied anew after loading: what its family ties within each language.

        Whole modules that are shared need no tying, since what is loaded into one is loaded into the other; and tying
        pads biases to the length of their weights, which is right for a head alone.
        """
        found = dict(self._single)
        if all_submodels:
            for member in MEMBERS:
                own = getattr(self, member).get_expanded_tied_weights_keys(all_submodels=True)
                found |= {f"{member}.{name}": f"{member}.{value}" for name, value in own.items()}
        return found

    def _init_weights(self, module: nn.Module) -> None:
        """All modules belong to a member, whose own rule holds."""


def _member(config: Any) -> Any:
    """A model of one language, by the class that its config names."""
    return getattr(transformers, config.architectures[0])._from_config(config)


def _config_of(model: Any, dtype: torch.dtype) -> Any:
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    config.dtype = dtype
    return config


def _share(
    source: nn.Module, target: nn.Module, lexical: frozenset[str], prefix: str = ""
) -> tuple[list[str], list[str]]:
    """Put the source's modules into the target, but for the lexical ones.

    Returns:
        Names of the single parameters and buffers that were shared because they lie beside a lexical one, and of those
        inside shared modules.
    """
    single: list[str] = []
    inside: list[str] = []
    kept = source.state_dict(prefix=prefix)
    for owned in ("_parameters", "_buffers"):
        for name, tensor in getattr(source, owned).items():
            if prefix + name in kept and prefix + name not in lexical:
                getattr(target, owned)[name] = tensor
                single.append(prefix + name)
    for name, module in source.named_children():
        below = f"{prefix}{name}."
        if any(each.startswith(below) for each in lexical):
            found = _share(module, target.get_submodule(name), lexical, below)
            single, inside = single + found[0], inside + found[1]
        else:
            setattr(target, name, module)
            inside += list(module.state_dict(prefix=below))
    return single, inside


def _check_alike(source: Any, target: Any) -> None:
    if is_compressed(source) or is_compressed(target):
        raise GraftError("a compressed model cannot be one of two languages: expand it first (relexify expand)")
    if type(source) is not type(target):
        raise GraftError(
            f"the models are a {type(source).__name__} and a {type(target).__name__}: give two of one family, "
            "the second made from the first by relexify transfer"
        )
    if source.get_output_embeddings() is None or getattr(source.config, "is_encoder_decoder", False):
        raise GraftError(
            f"{type(source).__name__} is neither a decoder nor a masked language model: only those can be bilingual"
        )
    if position_padding(source) is not None and source.config.pad_token_id != target.config.pad_token_id:
        raise GraftError(
            f"{type(source).__name__} counts positions from its padding id, which is {source.config.pad_token_id} in "
            f"one model and {target.config.pad_token_id} in the other: give models with the same padding id"
        )


def _check_inner(source: Any, target: Any, lexical: Sequence[str]) -> None:
    """Refuse encoders of different shapes, and tell of different values."""
    ours, theirs = source.state_dict(), target.state_dict()
    for name in sorted({*ours, *theirs} - set(lexical)):
        here, there = (tuple(values[name].shape) if name in values else None for values in (ours, theirs))
        if here != there:
            raise GraftError(
                f"the two models do not share an encoder: {name} is {here} in one and {there} in the other; "
                "give the model that the other was transferred from"
            )
    for name in lexical:
        here, there = tuple(ours[name].shape), tuple(theirs[name].shape)
        if here[1:] != there[1:]:
            raise GraftError(f"the two models do not share an encoder: {name} is {here} in one, {there} in the other")
    inner = [name for name in ours if name not in lexical]
    changed = [name for name in inner if not torch.equal(ours[name].cpu().float(), theirs[name].cpu().float())]
    if changed:
        logger.warning(
            "the encoders of the two models differ in %d of %d parameters: the first one's is taken, "
            "to which the embeddings of the second were not trained",
            len(changed),
            len(inner),
        )


AutoConfig.register(BilingualConfig.model_type, BilingualConfig, exist_ok=True)
AutoModel.register(BilingualConfig, BilingualModel, exist_ok=True)
