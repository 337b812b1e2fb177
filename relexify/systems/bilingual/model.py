"""A bilingual language model: one encoder, and embeddings and an output layer for each of two languages.

RAMEN (section 2.3) gives a pretrained model the vocabulary of a second language and trains both languages together.
Here, the two languages are two ordinary transformers models that share all modules except those of the vocabulary.
Each model computes exactly the same as it would alone, whatever the details of its architecture (positions, scales,
caps). Switching the language copies nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel

from relexify.errors import GraftError, InputError
from relexify.pretrained.languages import check_languages
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.pretrained.parameters.same_encoder import check_same_encoder, warn_if_trained_apart
from relexify.systems.bilingual.kind import MODEL_TYPE

__all__ = ["MEMBERS", "BilingualConfig", "BilingualModel"]

MEMBERS = ("source", "target")
"""Names of the attributes for the two models; they do not depend on the names of the languages."""


class BilingualConfig(PreTrainedConfig):  # type: ignore[misc]
    """The config of a bilingual model.

    Attributes:
        source: The config of the model of the source language.
        target: The config of the model of the target language.
        languages: Names of the source and the target language.
        lexical: Names of the parameters and buffers that are not shared.
    """

    model_type = MODEL_TYPE
    sub_configs = {"source": AutoConfig, "target": AutoConfig}  # noqa: RUF012 (transformers requires it)

    def __init__(
        self,
        source: PreTrainedConfig | dict[str, Any] | None = None,
        target: PreTrainedConfig | dict[str, Any] | None = None,
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
    """Two language models that share one encoder.

    Attributes:
        source: The ordinary model of the source language.
        target: The ordinary model of the target language; it shares all modules except the vocabulary with `source`.
    """

    config_class = BilingualConfig
    base_model_prefix = ""
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: BilingualConfig) -> None:
        super().__init__(config)
        self.source = _build(config.source)
        self.target = _build(config.target)
        tensors, inside_modules = _share(self.source, self.target, frozenset(config.lexical))
        self._shared_tensors = {f"target.{name}": f"source.{name}" for name in tensors}
        # save_pretrained writes tensors that are listed here only once.
        self._tied_weights_keys = {f"target.{name}": f"source.{name}" for name in (*tensors, *inside_modules)}
        self.post_init()

    @classmethod
    def join(
        cls, source: PreTrainedModel, target: PreTrainedModel, languages: Sequence[str] = MEMBERS
    ) -> BilingualModel:
        """Join two models to a bilingual model with the encoder of the first; neither is changed.

        Args:
            source: A decoder or a masked language model.
            target: The same model with another vocabulary, as `graft` returns it.
            languages: Names of the source and the target language.

        Raises:
            InputError: The names of the languages are invalid.
            GraftError: The two models do not have the same architecture, or one is compressed.
        """
        check_languages(languages)
        lexical = sorted(lexical_axes(source))
        lexical_axes(target)  # raises an error for a compressed model, whose tokens share parameters
        _check_pair(source, target, lexical)
        config = BilingualConfig(_config_of(source, source.dtype), _config_of(target, source.dtype), languages, lexical)
        joined: BilingualModel = cls(config).to(source.dtype)
        source_values, target_values = source.state_dict(), target.state_dict()
        joined.source.load_state_dict(source_values)
        joined.target.load_state_dict(
            {name: value if name in lexical else source_values[name] for name, value in target_values.items()}
        )
        for member, model in ((joined.source, source), (joined.target, target)):
            if model.can_generate():
                member.generation_config = copy.deepcopy(model.generation_config)
        joined.to(source.device).eval()
        return joined

    @property
    def languages(self) -> tuple[str, str]:
        """Names of the source and the target language."""
        source, target = self.config.languages
        return source, target

    def for_language(self, language: str | None) -> PreTrainedModel:
        """Return the ordinary model of one language; its encoder is the shared one, not a copy.

        Raises:
            InputError: The model does not have this language, or none is given.
        """
        if language == self.languages[0]:
            return self.source
        if language == self.languages[1]:
            return self.target
        available = " or ".join(map(repr, self.languages))
        problem = "no language is given" if language is None else f"it does not have the language {language!r}"
        raise InputError(f"the model is bilingual, and {problem}: give {available} (`language`)")

    def lexical_parameter_names(self) -> set[str]:
        """Return the names of the parameters and buffers that belong to only one language."""
        return {f"{member}.{name}" for member in MEMBERS for name in self.config.lexical}

    def loss_members(self) -> tuple[PreTrainedModel, PreTrainedModel]:
        """Return the two models; see `relexify.training.protocol.JointModel`."""
        return self.source, self.target

    def joint_loss(self, input_ids: torch.Tensor, labels: torch.Tensor, language: str | None = None) -> torch.Tensor:
        """Return the summed negative log likelihood of a batch; each member must return its own sum as its output.

        Args:
            input_ids: Tokens [rows × positions].
            labels: Tokens to predict [rows × positions].
            language: The language of all rows. If None, the first half of the rows is in the source language and the
                second half in the target language. One call then uses all parameters, as wrappers for several devices
                require.
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
        """Return the output of the model of one language.

        Args:
            input_ids: Tokens of that language's tokenizer [batch × positions].
            language: Name of the language.
            **inputs: Any other argument of that model: attention_mask, labels, …
        """
        return self.for_language(language)(input_ids=input_ids, **inputs)

    def get_input_embeddings(self) -> nn.Module:
        """Return the input embeddings of the source language."""
        embeddings: nn.Module = self.source.get_input_embeddings()
        return embeddings

    def get_output_embeddings(self) -> nn.Module:
        """Return the output embeddings of the source language."""
        head: nn.Module = self.source.get_output_embeddings()
        return head

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Return the weights to tie after loading: tensors shared by the members, and the ties inside each member.

        Modules that are shared as a whole need no tying, because they are the same objects. Tying them would even be
        wrong: transformers then pads biases to the length of their weights, which is right only for a head.
        """
        ties = dict(self._shared_tensors)
        if all_submodels:
            for member in MEMBERS:
                member_ties = getattr(self, member).get_expanded_tied_weights_keys(all_submodels=True)
                ties |= {f"{member}.{name}": f"{member}.{value}" for name, value in member_ties.items()}
        return ties

    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: all modules belong to a member, which initialises them itself."""


def _build(config: PreTrainedConfig) -> PreTrainedModel:
    """Return a model for one language, of the class that its config names."""
    return getattr(transformers, config.architectures[0])._from_config(config)


def _config_of(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedConfig:
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    config.dtype = dtype
    return config


def _share(
    source: nn.Module, target: nn.Module, lexical: frozenset[str], prefix: str = ""
) -> tuple[list[str], list[str]]:
    """Put the modules of the source into the target, except those with lexical parameters.

    Args:
        source: A module of the source model.
        target: The same module of the target model; changed in place.
        lexical: Names of parameters and buffers that are not shared.
        prefix: The name of the module inside the model, followed by a dot.

    Returns:
        Names of the tensors that were shared individually, because their module also has a lexical tensor (such as the
        dense layer of a head), and names of the tensors inside modules that were shared as a whole.
    """
    tensors: list[str] = []
    inside_modules: list[str] = []
    saved = source.state_dict(prefix=prefix)  # excludes buffers that checkpoints do not contain
    for attribute in ("_parameters", "_buffers"):
        for name, tensor in getattr(source, attribute).items():
            if prefix + name in saved and prefix + name not in lexical:
                getattr(target, attribute)[name] = tensor
                tensors.append(prefix + name)
    for name, module in source.named_children():
        below = f"{prefix}{name}."
        if any(each.startswith(below) for each in lexical):
            more_tensors, more_inside = _share(module, target.get_submodule(name), lexical, below)
            tensors += more_tensors
            inside_modules += more_inside
        else:
            setattr(target, name, module)
            inside_modules += list(module.state_dict(prefix=below))
    return tensors, inside_modules


def _check_pair(source: PreTrainedModel, target: PreTrainedModel, lexical: Sequence[str]) -> None:
    """Validate that two models can be joined: same architecture and encoder; warn if the encoders' values differ."""
    if type(source) is not type(target):
        raise GraftError(
            f"the models are a {type(source).__name__} and a {type(target).__name__}: give two models of the same "
            "class, the second one made from the first by relexify transfer"
        )
    if source.get_output_embeddings() is None or getattr(source.config, "is_encoder_decoder", False):
        raise GraftError(
            f"{type(source).__name__} is neither a decoder nor a masked language model: only those can be bilingual"
        )
    check_same_encoder(source, target, lexical)
    warn_if_trained_apart(source, target, lexical)


AutoConfig.register(BilingualConfig.model_type, BilingualConfig, exist_ok=True)
AutoModel.register(BilingualConfig, BilingualModel, exist_ok=True)
