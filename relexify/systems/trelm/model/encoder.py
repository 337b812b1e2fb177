"""The encoder with the TRILayer (section 3.2): the two halves of a BERT with one more layer between them.

The N layers of a BERT, RoBERTa or ALBERT are split into two halves, and the TRILayer is placed between them, for a
total of N + 1 layers. The lower half reads a sentence; its states are re-ordered by a word alignment O into the order
and length of the translation. Re-ordering loses the positions, so position and (target) language are added again:

    E_inp = E_word + E_seg + E_pos + E_lng                 the sentence X, with the placeholder [P] after it
    H     = lower half(E_inp)                              [batch × source + 1 × width]
    H^O   = H[ALNIDX(y_1)], …, H[ALNIDX(y_T')]             [batch × target × width]; [P] where y_i is unaligned (Eq. 3)
    H_TL  = TRANSFORMER_TL(H^O + E_lng(Y) + E_pos)         the TRILayer
    out   = upper half(H_TL)                               [batch × target × width]

Without O, the order is not changed, so masked language modelling uses the same forward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput

from relexify.errors import InputError
from relexify.systems.trelm.model.backbone import build_backbone, encoder_layers, new_layer, position_ids, widen
from relexify.systems.trelm.model.config import TriLayerConfig

__all__ = [
    "UNALIGNED",
    "LanguageEmbedding",
    "TriLayerModel",
    "TriLayerPreTrainedModel",
    "check_order",
    "reorder",
]

UNALIGNED = -1
"""In O, marks a target position without a source position; it gets the state of the placeholder [P]."""


class LanguageEmbedding(nn.Embedding):
    """One row per language (E_lng); the rows are orthogonal before training."""


class TriLayerPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    """Base of all models with a TRILayer: config, attention implementations and initialisation."""

    config_class = TriLayerConfig
    base_model_prefix = "model"
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, LanguageEmbedding):
            init.orthogonal_(module.weight)
        elif isinstance(module, TriLayerModel):
            if module.placeholder is not None:
                init.normal_(module.placeholder, std=self.config.initializer_range)
        else:
            super()._init_weights(module)


class TriLayerModel(TriLayerPreTrainedModel):
    """The encoder: a backbone with language embeddings, and a TRILayer between its halves.

    With separate vocabularies (section 6.3, CdLM*), `source_words` is the embedding table of the first language, the
    backbone has the table of the last language, and there are no language embeddings.
    """

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__(config)
        self.backbone = build_backbone(config.backbone, with_pooler=config.next_sentence)
        embeddings = self.backbone.embeddings
        self.language_embeddings: LanguageEmbedding | None = None
        if not config.separate:
            width = embeddings.position_embeddings.embedding_dim
            self.language_embeddings = LanguageEmbedding(len(config.languages), width)
        self.source_words: nn.Embedding | None = None
        if config.source_vocab_size is not None:
            self.source_words = nn.Embedding(config.source_vocab_size, embeddings.word_embeddings.embedding_dim)
        self.widening: nn.Linear | None = None
        if config.embedding_size is not None:
            width = embeddings.word_embeddings.embedding_dim
            padding = embeddings.word_embeddings.padding_idx
            embeddings.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=padding)
            self.widening = nn.Linear(config.embedding_size, width, bias=False)
        self.trilayer: nn.Module | None = None
        self.placeholder: nn.Parameter | None = None
        if config.trilayer:
            self.trilayer = new_layer(self.backbone)
            # [P] has an embedding but no token, so tokenizers need not be changed.
            self.placeholder = nn.Parameter(torch.zeros(embeddings.word_embeddings.embedding_dim))
        self.post_init()

    @property
    def lower(self) -> list[nn.Module]:
        """The layers before the TRILayer."""
        layers = encoder_layers(self.backbone)
        return layers[: len(layers) // 2]

    @property
    def upper(self) -> list[nn.Module]:
        """The layers after the TRILayer."""
        layers = encoder_layers(self.backbone)
        return layers[len(layers) // 2 :]

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        *,
        language: str | None = None,
        languages: torch.Tensor | None = None,
        order: torch.Tensor | None = None,
        target_attention_mask: torch.Tensor | None = None,
        target_languages: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        **rest: Any,
    ) -> BaseModelOutput:
        """Read a sentence, and return states in the order and length of its translation.

        Args:
            input_ids: The sentence, without the placeholder [batch × source].
            attention_mask: 1 for tokens, 0 for (right) padding [batch × source].
            token_type_ids: Segments [batch × source].
            language: Name of the language of all rows, as input and as output; the last language if neither this nor
                `languages` is given.
            languages: Index of the language of every row [batch], or of every token [batch × source].
            order: O: for every target position, the source position that it is aligned to, from 0, or `UNALIGNED`
                [batch × target]. If None, the order is not changed.
            target_attention_mask: 1 for target positions, 0 for (right) padding; needed if O is padded
                [batch × target].
            target_languages: As `languages`, for the target sentence; the same as `languages` if None.
            output_hidden_states: Also return the states of all layers.
            **rest: Other arguments that transformers passes to every model; ignored.

        Raises:
            InputError: The sentence is too long, or the order does not fit it.
        """
        indices = self._language_indices(languages, language)
        embedded, mask = self._embed(input_ids, attention_mask, token_type_ids, indices)
        hidden, states = self._run_layers(embedded, self.lower, mask)
        target_mask, tokens = attention_mask, input_ids.shape[1]
        if self.trilayer is not None:
            if order is None:
                hidden = hidden[:, :tokens]  # without [P], which no position is aligned to
                positions = self._positions(input_ids, attention_mask)
            else:
                check_order(order, _mask_or_ones(input_ids, attention_mask), self._max_tokens)
                hidden = reorder(hidden, order)
                target_mask = target_attention_mask
                positions = position_ids(self.backbone, _mask_or_ones(order, target_mask))
            targets = target_languages if target_languages is not None else languages
            target_language = self._embed_languages(self._language_indices(targets, language), hidden.shape[1])
            position = self.backbone.embeddings.position_embeddings(positions)
            hidden = self._add_again(hidden, target_language, position)
            hidden, between = self._run_layers(hidden, [self.trilayer], target_mask)
            states += between
        elif order is not None:
            raise InputError("the model has no TRILayer, so it cannot reorder a sentence: build it with a TRILayer")
        hidden, above = self._run_layers(hidden, self.upper, target_mask)
        return BaseModelOutput(
            last_hidden_state=hidden, hidden_states=(embedded, *states, *above) if output_hidden_states else None
        )

    @property
    def _max_tokens(self) -> int:
        """Maximum number of tokens of a sentence: RoBERTa's first positions are unused, and [P] takes one position."""
        table = self.backbone.embeddings.position_embeddings
        first = 0 if table.padding_idx is None else table.padding_idx + 1
        return int(table.num_embeddings) - first - (self.trilayer is not None)

    def _language_indices(self, languages: torch.Tensor | None, language: str | None) -> torch.Tensor:
        """Return the indices of languages, [batch or 1] or [batch × tokens]."""
        if languages is not None:
            return languages
        return torch.tensor([self.config.language_index(language)], device=self.device)

    def _embed_languages(self, indices: torch.Tensor, tokens: int) -> torch.Tensor | None:
        """Return E_lng, [batch or 1 × tokens or 1 × width]; None if the vocabularies are separate."""
        if indices.dim() == 2 and indices.shape[1] != tokens:
            raise InputError(
                f"languages are given for {indices.shape[1]} tokens, but a sentence has {tokens}: give one for every "
                "token, or one for every sentence"
            )
        if self.language_embeddings is None:
            return None
        vectors: torch.Tensor = self.language_embeddings(indices if indices.dim() == 2 else indices[:, None])
        return vectors

    def _embed_words(self, input_ids: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """Return E_word [batch × tokens × width], using for each token the table of its language."""
        words: torch.Tensor
        if self.source_words is None:
            words = self.backbone.embeddings.word_embeddings(input_ids)
            return words
        indices = (indices if indices.dim() == 2 else indices[:, None]).expand(input_ids.shape)
        is_source = indices != len(self.config.languages) - 1
        # Look up all positions in both tables, with id 0 for tokens of the other language, whose ids may be too large.
        # Selecting positions by a mask instead would give shapes that depend on the data.
        words = self.backbone.embeddings.word_embeddings(input_ids.masked_fill(is_source, 0))
        others = self.source_words(input_ids.masked_fill(~is_source, 0)).to(words.dtype)
        return torch.where(is_source[..., None], others, words)

    def _positions(self, input_ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        padding = self.backbone.embeddings.word_embeddings.padding_idx
        counted = _mask_or_ones(input_ids, mask)
        if mask is None and padding is not None:  # RoBERTa counts the tokens that are not padding
            counted = (input_ids != padding).long()
        return position_ids(self.backbone, counted)

    def _embed(
        self,
        input_ids: torch.Tensor,
        mask: torch.Tensor | None,
        types: torch.Tensor | None,
        indices: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return E_inp of the sentence and, with a TRILayer, of [P] after it, and their attention mask.

        Args:
            input_ids: Tokens [batch × source].
            mask: 1 for tokens, 0 for padding [batch × source].
            types: Segments [batch × source].
            indices: Languages, [batch or 1] or [batch × source].

        Returns:
            [batch × source + 1 × width], and [batch × source + 1] or None.
        """
        rows, tokens = input_ids.shape
        if tokens > self._max_tokens:
            raise InputError(
                f"a sentence has {tokens} tokens, but the model can read at most {self._max_tokens}: truncate it, or "
                "leave it out"
            )
        language = self._embed_languages(indices, tokens)
        words, positions = self._embed_words(input_ids, indices), self._positions(input_ids, mask)
        if types is None:
            types = torch.zeros_like(input_ids)
        if self.placeholder is not None:
            words = torch.cat([words, self.placeholder.to(words.dtype).expand(rows, 1, -1)], dim=1)
            if language is not None and language.shape[1] > 1:
                language = torch.cat([language, language[:, :1]], dim=1)
            # [P] is always in the last column, after any padding, but its position id follows that of the last token.
            positions = positions.expand(rows, -1)
            of_tokens = positions if mask is None else positions * mask.to(positions.dtype)
            after = of_tokens.max(dim=1, keepdim=True).values + 1
            positions = torch.cat([positions, after], dim=1)
            types = torch.cat([types, torch.zeros_like(types[:, :1])], dim=1)
            mask = None if mask is None else torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        if self.widening is not None:
            words = self.widening(words)
        if language is not None:
            words = words + language
        # The backbone's own embedding module adds E_seg and E_pos, and applies its norm and dropout.
        embedded = self.backbone.embeddings(inputs_embeds=words, token_type_ids=types, position_ids=positions)
        return widen(self.backbone, embedded), mask

    def _add_again(self, hidden: torch.Tensor, language: torch.Tensor | None, position: torch.Tensor) -> torch.Tensor:
        """Return H^O + E_lng + E_pos; narrower embeddings (ALBERT) are projected like word embeddings."""
        if position.shape[-1] == hidden.shape[-1]:
            if language is not None:
                hidden = hidden + language.to(hidden.dtype)
            return hidden + position.to(hidden.dtype)
        narrow = position if language is None else language + position
        return hidden + widen(self.backbone, narrow, bias=False).to(hidden.dtype)

    def _run_layers(
        self, hidden: torch.Tensor, layers: list[nn.Module], mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Run layers one after another; return the last state, and the states after every layer."""
        visible = create_bidirectional_mask(config=self.backbone.config, inputs_embeds=hidden, attention_mask=mask)
        states = []
        for layer in layers:
            hidden = layer(hidden, visible)
            states.append(hidden)
        return hidden, tuple(states)

    def get_input_embeddings(self) -> nn.Module:
        """Return the word embeddings of the backbone, which are the last language's if vocabularies are separate."""
        embeddings: nn.Module = self.backbone.embeddings.word_embeddings
        return embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embeddings of the backbone."""
        self.backbone.embeddings.word_embeddings = value


def reorder(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return H^O: for every target position, the state of the source position that it is aligned to.

    Args:
        states: H of a source sentence, with the placeholder in the last column [batch × source + 1 × width].
        order: O: source positions from 0, or `UNALIGNED` for the placeholder [batch × target].

    Returns:
        [batch × target × width].
    """
    columns = torch.where(order == UNALIGNED, states.shape[1] - 1, order)
    return states.gather(1, columns[..., None].expand(-1, -1, states.shape[-1]))


def check_order(order: torch.Tensor, source_mask: torch.Tensor, max_tokens: int) -> None:
    """Validate that O fits its sentences.

    Args:
        order: As in `reorder` [batch × target].
        source_mask: 1 for tokens, 0 for padding [batch × source].
        max_tokens: Maximum number of positions of the model.

    Raises:
        InputError: O has a wrong number of rows or too many positions, or refers to a position outside its source
            sentence.
    """
    if order.dim() != 2 or len(order) != len(source_mask):
        raise InputError(
            f"an order of shape {list(order.shape)} does not fit {len(source_mask)} sentences: "
            "give one row of source positions for every sentence"
        )
    if order.shape[1] > max_tokens:
        raise InputError(
            f"an order has {order.shape[1]} target positions, but the model can read at most {max_tokens}: "
            "truncate the sentences, or leave them out"
        )
    if order.is_cuda and torch.cuda.is_current_stream_capturing():
        return  # values cannot be read while a CUDA graph is recorded
    # The number of tokens of a row is the index of its last 1, plus one.
    lengths = source_mask.shape[1] - source_mask.flip(1).to(torch.bool).int().argmax(1)
    outside = (order < UNALIGNED) | (order >= lengths[:, None])
    if bool(outside.any()):
        row, position = (int(number) for number in outside.nonzero()[0])
        raise InputError(
            f"in sentence {row} of the batch, target position {position} is aligned to source position "
            f"{int(order[row, position])}, but the source sentence has {int(lengths[row])} tokens: count from 0, "
            f"and write {UNALIGNED} for positions that are not aligned"
        )


def _mask_or_ones(like: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return torch.ones_like(like) if mask is None else mask
