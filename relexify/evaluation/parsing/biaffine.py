"""A dependency parser on any model of transformers: deep biaffine attention (Dozat & Manning, 2017).

A word is represented by the mean of the last hidden states of its pieces; part-of-speech tags are not used (RAMEN,
section 4.2). ROOT is a learned vector rather than a special token, because not every model has a suitable token, and
because the vector does not change when the lexicon is swapped. Words without pieces share another learned vector. Four
small perceptrons represent every word as a head and as a dependent, for arcs and for labels:

    arc(d, h)      = [dependent_d; 1] A head_h
    label(d, h, r) = [dependent_d; 1] L_r [head_h; 1]
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import MODEL_MAPPING, AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput

from relexify.errors import GraftError
from relexify.pretrained.architecture import IGNORED, hidden_width, inner_encoder
from relexify.pretrained.kinds import kind_of_config, kind_of_entries

__all__ = ["BiaffineConfig", "BiaffineOutput", "BiaffineParser", "WordScores", "full_precision"]

SLOPE = 0.1
"""Slope of the leaky rectifier below zero, as in Dozat & Manning."""


class BiaffineConfig(PreTrainedConfig):  # type: ignore[misc]
    """The config of a parser.

    Attributes:
        encoder: The config of the encoder.
        relations: The relations, in the order of their scores.
        arc_size: Width of the perceptrons for arcs.
        label_size: Width of the perceptrons for labels.
        dropout: Dropout on the word vectors and inside the perceptrons.
        pooling: Whether a word is represented by the mean of its pieces, or by the first one.
        initializer_range: Standard deviation of the two learned vectors before training.
    """

    model_type = "relexify-biaffine"
    sub_configs = {"encoder": AutoConfig}  # noqa: RUF012 (a class attribute that transformers reads)

    def __init__(
        self,
        encoder: PreTrainedConfig | dict[str, Any] | None = None,
        relations: Sequence[str] = (),
        arc_size: int = 500,
        label_size: int = 100,
        dropout: float = 0.33,
        pooling: Literal["mean", "first"] = "mean",
        initializer_range: float = 0.02,
        **rest: Any,
    ) -> None:
        if isinstance(encoder, dict):
            # transformers finds config classes by `model_type`; in a new process, relexify's must be registered first.
            if (kind := kind_of_entries(encoder)) is not None:
                kind.register()
            encoder = AutoConfig.for_model(**encoder)
        self.encoder = encoder
        self.relations = list(relations)
        self.arc_size = arc_size
        self.label_size = label_size
        self.dropout = dropout
        self.pooling = pooling
        self.initializer_range = initializer_range
        super().__init__(**rest)


@dataclass
class BiaffineOutput(ModelOutput):  # type: ignore[misc]
    """The output of a parser for a batch.

    Attributes:
        loss: The mean cross entropy of the words' heads, plus the mean cross entropy of the labels of gold arcs.
        arc_scores: Score of each head (0 is ROOT) for each word; minus infinity for the word itself and for padding
            [batch × words × 1 + words].
        label_heads: Words as heads, for `BiaffineParser.label_scores` [batch × 1 + words × label size].
        label_dependents: Words as dependents, for the same method [batch × words × label size].
    """

    loss: torch.Tensor | None = None
    arc_scores: torch.Tensor | None = None
    label_heads: torch.Tensor | None = None
    label_dependents: torch.Tensor | None = None


class WordScores(NamedTuple):
    """Scores of words as heads and dependents, as in `BiaffineOutput`, but without excluding any arcs."""

    arc_scores: torch.Tensor
    label_heads: torch.Tensor
    label_dependents: torch.Tensor


class BiaffineParser(PreTrainedModel):  # type: ignore[misc]
    """An encoder with arc and label scorers on top."""

    config_class = BiaffineConfig
    base_model_prefix = "encoder"
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: BiaffineConfig) -> None:
        super().__init__(config)
        self.encoder = _bare_encoder(config.encoder)
        width = hidden_width(self.encoder)
        self.root = nn.Parameter(torch.zeros(width))
        self.without_pieces = nn.Parameter(torch.zeros(width))
        self.dropout = nn.Dropout(config.dropout)
        self.arc_head = _perceptron(width, config.arc_size, config.dropout)
        self.arc_dependent = _perceptron(width, config.arc_size, config.dropout)
        self.label_head = _perceptron(width, config.label_size, config.dropout)
        self.label_dependent = _perceptron(width, config.label_size, config.dropout)
        self.arc = Biaffine(config.arc_size, 1, bias_of_heads=False)
        self.label = Biaffine(config.label_size, len(config.relations), bias_of_heads=True)
        self.post_init()

    @classmethod
    def on_top_of(
        cls,
        model: PreTrainedModel,
        relations: Sequence[str],
        *,
        arc_size: int = 500,
        label_size: int = 100,
        dropout: float = 0.33,
        pooling: Literal["mean", "first"] = "mean",
    ) -> BiaffineParser:
        """Return an untrained parser on a copy of a model's encoder, in float32.

        Args:
            model: A model with or without a head; of an encoder-decoder, only the encoder is used.
            relations: The relations to distinguish.
            arc_size: As in `BiaffineConfig`.
            label_size: As in `BiaffineConfig`.
            dropout: As in `BiaffineConfig`.
            pooling: As in `BiaffineConfig`.

        Raises:
            GraftError: The model lacks a parameter of its encoder.
        """
        config = copy.deepcopy(model.config)
        config.dtype = torch.float32
        if getattr(config, "use_cache", None) is not None:
            config.use_cache = False  # a decoder would store keys and values, which are needed only for generation
        parser = cls(
            BiaffineConfig(
                encoder=config,
                relations=relations,
                arc_size=arc_size,
                label_size=label_size,
                dropout=dropout,
                pooling=pooling,
            )
        )
        expected = parser.encoder.state_dict()
        values = inner_encoder(model).state_dict()
        if missing := sorted(expected.keys() - values.keys()):
            raise GraftError(
                f"{type(model).__name__} lacks {missing[0]}, which {type(parser.encoder).__name__} needs: give another "
                "model"
            )
        parser.encoder.load_state_dict({name: values[name] for name in expected})
        return parser

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_of_piece: torch.Tensor,
        word_mask: torch.Tensor,
        heads: torch.Tensor | None = None,
        relations: torch.Tensor | None = None,
    ) -> BiaffineOutput:
        """Score every possible arc; with gold heads and relations, compute the loss as well.

        Args:
            input_ids: Pieces and special tokens [batch × pieces].
            attention_mask: 1 for tokens, 0 for padding [batch × pieces].
            word_of_piece: Index of the word that a piece belongs to, -1 for none [batch × pieces].
            word_mask: True for words, False for padding [batch × words].
            heads: Gold heads, 0 for ROOT, `IGNORED` for words without a label [batch × words].
            relations: Gold relations by index, `IGNORED` as in `heads` [batch × words].
        """
        words = self.score_words(input_ids, attention_mask, word_of_piece, word_mask.shape[1])
        padding = torch.cat([torch.zeros_like(word_mask[:, :1]), ~word_mask], dim=1)[:, None, :]
        itself = torch.eye(word_mask.shape[1] + 1, dtype=torch.bool, device=word_mask.device)[1:]
        arcs = words.arc_scores.masked_fill(padding | itself, -torch.inf)
        output = BiaffineOutput(None, arcs, words.label_heads, words.label_dependents)
        if heads is not None and relations is not None:
            with full_precision(arcs):
                labels = self.label_scores(words, heads.clamp(min=0))
                output.loss = _mean_nats(arcs, heads) + _mean_nats(labels, relations)
        return output

    def score_words(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, word_of_piece: torch.Tensor, words: int
    ) -> WordScores:
        """Score an arc from every word to every word and to ROOT, including impossible arcs.

        Args:
            input_ids: As for `forward`.
            attention_mask: As for `forward`.
            word_of_piece: As for `forward`.
            words: The number of words in the longest sentence.
        """
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        with full_precision(hidden):
            vectors = self.dropout(self._words(hidden.to(self.root.dtype), word_of_piece, words))
            nodes = torch.cat([self.root.expand(len(vectors), 1, -1), vectors], dim=1)
            arcs = self.arc(self.arc_dependent(vectors), self.arc_head(nodes))[..., 0]
            return WordScores(arcs, self.label_head(nodes), self.label_dependent(vectors))

    def label_scores(self, words: WordScores, heads: torch.Tensor) -> torch.Tensor:
        """Score the relations between every word and its head.

        Args:
            words: The result of `score_words`, or the output of `forward`, which has the same word vectors.
            heads: A head for every word, 0 for ROOT [batch × words].

        Returns:
            The score of each relation [batch × words × relations].
        """
        chosen = heads[..., None].expand(-1, -1, words.label_heads.shape[-1])
        scores: torch.Tensor = self.label.between(words.label_dependents, words.label_heads.gather(1, chosen))
        return scores

    def get_input_embeddings(self) -> nn.Module:
        """Return the embeddings of the encoder."""
        embeddings: nn.Module = self.encoder.get_input_embeddings()
        return embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the embeddings of the encoder."""
        self.encoder.set_input_embeddings(value)

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Module:
        """Resize the embeddings of the encoder, and update its config."""
        embedding: nn.Embedding = self.encoder.resize_token_embeddings(
            new_num_tokens, pad_to_multiple_of, mean_resizing
        )
        self.config.encoder.vocab_size = embedding.weight.shape[0]
        return embedding

    def _words(self, hidden: torch.Tensor, word_of_piece: torch.Tensor, words: int) -> torch.Tensor:
        """Return the vectors of words, computed from the vectors of their pieces [batch × words × width]."""
        # Whether a piece belongs to a word [batch × words × pieces].
        belongs = word_of_piece[:, None, :] == torch.arange(words, device=hidden.device)[:, None]
        if self.config.pooling == "first":
            belongs = belongs & (belongs.cumsum(-1) == 1)
        count = belongs.sum(-1, keepdim=True)
        # Hidden states of padding may be NaN, and 0 · NaN would make the product NaN.
        seen = hidden.masked_fill((word_of_piece < 0)[..., None], 0.0)
        mean = (belongs.to(hidden.dtype) @ seen) / count.clamp(min=1)
        return torch.where(count > 0, mean, self.without_pieces)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialise as in Dozat & Manning: perceptrons orthogonal, biaffine weights zero."""
        if isinstance(module, nn.Linear):
            init.orthogonal_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, Biaffine):
            init.zeros_(module.weight)
        elif module is self:
            init.normal_(self.root, std=self.config.initializer_range)
            init.normal_(self.without_pieces, std=self.config.initializer_range)


class Biaffine(nn.Module):
    """A bilinear form with a one appended to the dependent and, if heads have a bias, to the head."""

    def __init__(self, size: int, outputs: int, *, bias_of_heads: bool) -> None:
        super().__init__()
        self.bias_of_heads = bias_of_heads
        self.weight = nn.Parameter(torch.zeros(outputs, size + 1, size + bias_of_heads))

    def forward(self, dependents: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
        """Score every dependent with every head [batch × dependents × heads × outputs]."""
        if self.bias_of_heads:
            heads = _with_one(heads)
        return torch.einsum("bdi,oij,bhj->bdho", _with_one(dependents), self.weight, heads)

    def between(self, dependents: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
        """Score every dependent with its own head [batch × dependents × outputs]."""
        if self.bias_of_heads:
            heads = _with_one(heads)
        return torch.einsum("bdi,oij,bdj->bdo", _with_one(dependents), self.weight, heads)


def full_precision(tensor: torch.Tensor) -> torch.autocast:
    """Disable autocast, because bfloat16 is too imprecise for scores of arcs."""
    return torch.autocast(tensor.device.type, enabled=False)


def _bare_encoder(config: PreTrainedConfig) -> PreTrainedModel:
    """Build an encoder without a head and, if possible, without a pooler."""
    parameters = inspect.signature(MODEL_MAPPING[type(config)]).parameters
    options = {"add_pooling_layer": False} if "add_pooling_layer" in parameters else {}
    model = AutoModel.from_config(config, trust_remote_code=False, **options)
    if (kind := kind_of_config(config)) is not None:
        kind.convert_encoder(model)
    return inner_encoder(model)


def _perceptron(width: int, size: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, size), nn.LeakyReLU(SLOPE), nn.Dropout(dropout))


def _with_one(vectors: torch.Tensor) -> torch.Tensor:
    return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)


def _mean_nats(scores: torch.Tensor, gold: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy of the words with a label; 0 if there are none."""
    total = cross_entropy(scores.flatten(0, 1), gold.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (gold != IGNORED).sum().clamp(min=1)


AutoConfig.register(BiaffineConfig.model_type, BiaffineConfig, exist_ok=True)
AutoModel.register(BiaffineConfig, BiaffineParser, exist_ok=True)
