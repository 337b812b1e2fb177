"""What a model with a TRILayer is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from transformers import AutoConfig, PreTrainedConfig

from relexify.errors import InputError
from relexify.systems.trelm.kind import MODEL_TYPE

__all__ = ["TriLayerConfig", "Vocabularies"]

Vocabularies = Literal["joint", "separate"]


class TriLayerConfig(PreTrainedConfig):  # type: ignore[misc]
    """What a model with a TRILayer is made of.

    Attributes:
        backbone: The config of the encoder around the TRILayer.
        languages: What the languages are called, in the order of their embeddings; text of which no language is told
            is of the last one.
        trilayer: Whether there is a TRILayer; without it, language embeddings are all that is added to the backbone.
        vocabularies: `joint`: one vocabulary, and language embeddings. `separate`: a vocabulary and word embeddings for
            every language, and no language embeddings (section 6.3, CdLM*).
        source_vocab_size: Of separate vocabularies, the tokens of the first language; the backbone has those of the
            last. None where there is no other language, as in an export.
        embedding_size: Width of the word embeddings, where a projection widens them to the width of the backbone.
        next_sentence: Whether there is a head for next sentences.
        initializer_range: Standard deviation of new parameters.
    """

    model_type = MODEL_TYPE
    sub_configs = {"backbone": AutoConfig}  # noqa: RUF012 (the name and kind that transformers asks for)

    def __init__(
        self,
        backbone: Any = None,
        languages: Sequence[str] = ("source", "target"),
        trilayer: bool = True,
        vocabularies: Vocabularies = "joint",
        source_vocab_size: int | None = None,
        embedding_size: int | None = None,
        next_sentence: bool = False,
        initializer_range: float = 0.02,
        **rest: Any,
    ) -> None:
        self.backbone = AutoConfig.for_model(**backbone) if isinstance(backbone, dict) else backbone
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
        """Whether every language has a vocabulary of its own."""
        return bool(self.vocabularies == "separate")

    @property
    def vocab_size(self) -> int:
        """Tokens of the joint vocabulary, or of the last language's."""
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
        """Segments that the backbone tells apart."""
        return int(getattr(self.backbone, "type_vocab_size", 0) or 0)

    @property
    def num_hidden_layers(self) -> int:
        """Layers, the TRILayer among them."""
        return int(self.backbone.num_hidden_layers) + self.trilayer

    @property
    def max_position_embeddings(self) -> int:
        """Positions of the backbone, less the one of the placeholder that a TRILayer asks for."""
        return int(self.backbone.max_position_embeddings) - self.trilayer

    def place_of(self, language: str | None) -> int:
        """The place of a language by its name; the last one's if none is named.

        Raises:
            InputError: The model does not know the language.
        """
        if language is None:
            return len(self.languages) - 1
        if language not in self.languages:
            known = ", ".join(map(repr, self.languages))
            raise InputError(f"the model does not know the language {language!r}: give one of {known}")
        return self.languages.index(language)
