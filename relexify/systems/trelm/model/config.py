"""The config of a model with a TRILayer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from transformers import AutoConfig, PreTrainedConfig

from relexify.errors import InputError
from relexify.systems.trelm.kind import MODEL_TYPE

__all__ = ["TriLayerConfig", "Vocabularies"]

Vocabularies = Literal["joint", "separate"]


class TriLayerConfig(PreTrainedConfig):  # type: ignore[misc]
    """The config of a model with a TRILayer.

    Attributes:
        backbone: The config of the encoder around the TRILayer.
        languages: Names of the languages, in the order of their embeddings; text without a language is in the last one.
        trilayer: Whether there is a TRILayer; without it, only language embeddings are added to the backbone.
        vocabularies: `joint`: one vocabulary, and language embeddings. `separate`: a vocabulary and word embeddings for
            every language, and no language embeddings (section 6.3, CdLM*).
        source_vocab_size: With separate vocabularies, the size of the first language's vocabulary; the backbone has the
            vocabulary of the last language. None if there is only one language, as in an export.
        embedding_size: Width of the word embeddings, if a projection widens them to the width of the backbone.
        next_sentence: Whether there is a head for next sentences.
        initializer_range: Standard deviation of untrained parameters.
    """

    model_type = MODEL_TYPE
    sub_configs = {"backbone": AutoConfig}  # noqa: RUF012 (name and type are fixed by transformers)

    def __init__(
        self,
        backbone: PreTrainedConfig | dict[str, Any] | None = None,
        languages: Sequence[str] = ("source", "target"),
        trilayer: bool = True,
        vocabularies: Vocabularies = "joint",
        source_vocab_size: int | None = None,
        embedding_size: int | None = None,
        next_sentence: bool = False,
        initializer_range: float = 0.02,
        **rest: Any,
    ) -> None:
        # If a config is read from json, its sub-config is a dict; transformers also creates configs without arguments.
        self.backbone: Any = AutoConfig.for_model(**backbone) if isinstance(backbone, dict) else backbone
        self.languages = list(languages)
        self.trilayer = trilayer
        self.vocabularies = vocabularies
        self.source_vocab_size = source_vocab_size
        self.embedding_size = embedding_size
        self.next_sentence = next_sentence
        self.initializer_range = initializer_range
        rest.setdefault("tie_word_embeddings", getattr(self.backbone, "tie_word_embeddings", True))
        super().__init__(**rest)

    @property
    def separate(self) -> bool:
        """Whether every language has its own vocabulary."""
        return bool(self.vocabularies == "separate")

    @property
    def vocab_size(self) -> int:
        """Size of the joint vocabulary, or of the last language's vocabulary."""
        return int(self.backbone.vocab_size)

    @vocab_size.setter
    def vocab_size(self, value: int) -> None:
        self.backbone.vocab_size = value

    @property
    def hidden_size(self) -> int:
        """Width of the backbone."""
        return int(self.backbone.hidden_size)

    @property
    def type_vocab_size(self) -> int:
        """Number of segments that the backbone distinguishes."""
        return int(getattr(self.backbone, "type_vocab_size", 0) or 0)

    @property
    def num_hidden_layers(self) -> int:
        """Number of layers, including the TRILayer."""
        return int(self.backbone.num_hidden_layers) + self.trilayer

    @property
    def max_position_embeddings(self) -> int:
        """Number of positions of the backbone, minus one for the placeholder [P] if there is a TRILayer."""
        return int(self.backbone.max_position_embeddings) - self.trilayer

    def language_index(self, language: str | None) -> int:
        """Return the index of a language by its name, or the index of the last language if no name is given.

        Raises:
            InputError: The model does not have the language.
        """
        if language is None:
            return len(self.languages) - 1
        if language not in self.languages:
            available = ", ".join(map(repr, self.languages))
            raise InputError(f"the model does not have the language {language!r}: give one of {available}")
        return self.languages.index(language)
