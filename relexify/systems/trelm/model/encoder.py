"""The encoder with a TRILayer between its halves; what it computes is told in `trilayer`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput

from relexify.errors import InputError
from relexify.systems.trelm.model.backbone import bare_backbone, layers_of, new_layer, positions_of, widened
from relexify.systems.trelm.model.config import TriLayerConfig

__all__ = ["UNALIGNED", "LanguageEmbedding", "TriLayerModel", "TriLayerPreTrainedModel", "check_alignment", "reorder"]

UNALIGNED = -1
"""In an alignment, a place that corresponds to nothing; it takes the state of the placeholder [P]."""


class LanguageEmbedding(nn.Embedding):
    """A row for every language; orthogonal rows before training."""


class TriLayerPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    """What both classes below have in common."""

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
    """The encoder: a backbone with language embeddings, and a TRILayer between its halves."""

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__(config)
        self.backbone = bare_backbone(config.backbone, pooled=config.next_sentence)
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
            self.placeholder = nn.Parameter(torch.zeros(embeddings.word_embeddings.embedding_dim))
        self.post_init()

    @property
    def lower(self) -> list[nn.Module]:
        """The layers before the TRILayer."""
        layers = layers_of(self.backbone)
        return layers[: len(layers) // 2]

    @property
    def upper(self) -> list[nn.Module]:
        """The layers after the TRILayer."""
        layers = layers_of(self.backbone)
        return layers[len(layers) // 2 :]

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        *,
        language: str | None = None,
        languages: torch.Tensor | None = None,
        alignment: torch.Tensor | None = None,
        target_attention_mask: torch.Tensor | None = None,
        target_languages: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        **rest: Any,
    ) -> BaseModelOutput:
        """Read a sentence, and write it in the order and length of its translation.

        Args:
            input_ids: The sentence, without the placeholder [batch × source].
            attention_mask: 1 for what is no padding, which comes last [batch × source].
            token_type_ids: Segments [batch × source].
            language: The language of all rows by its name, read and written; the last one if neither this nor
                `languages` is given.
            languages: The language of every row [batch], or of every token [batch × source].
            alignment: For every target position the source position that it is aligned to, from 0; `UNALIGNED` for
                none. Without it the order stays as it is [batch × target].
            target_attention_mask: 1 for target positions that are no padding; needed where an alignment is padded
                [batch × target].
            target_languages: As `languages`, of the target; the same ones if not given.
            output_hidden_states: Give the states of all layers too.
            **rest: What other models take; it has no meaning here.

        Raises:
            InputError: The sentence is too long, or the alignment does not fit it.
        """
        embedded, mask = self._embedded(input_ids, attention_mask, token_type_ids, self._places(languages, language))
        hidden, states = self._half(embedded, self.lower, mask)
        target_mask, tokens = attention_mask, input_ids.shape[1]
        if self.trilayer is not None:
            targets = target_languages if target_languages is not None else languages
            if alignment is None:
                hidden = hidden[:, :tokens]
                positions = self._positions(input_ids, attention_mask)
            else:
                whole = torch.ones_like(input_ids) if attention_mask is None else attention_mask
                check_alignment(alignment, whole, self._longest)
                hidden = reorder(hidden, alignment)
                target_mask = target_attention_mask
                positions = positions_of(self.backbone, _ones(alignment, target_mask))
            again = self._language_of(self._places(targets, language), hidden.shape[1])
            hidden = self._with(hidden, again, self.backbone.embeddings.position_embeddings(positions))
            hidden, between = self._half(hidden, [self.trilayer], target_mask)
            states += between
        elif alignment is not None:
            raise InputError("the model has no TRILayer and cannot follow an alignment: build it with one")
        hidden, above = self._half(hidden, self.upper, target_mask)
        return BaseModelOutput(
            last_hidden_state=hidden, hidden_states=(embedded, *states, *above) if output_hidden_states else None
        )

    @property
    def _longest(self) -> int:
        table = self.backbone.embeddings.position_embeddings
        first = 0 if table.padding_idx is None else table.padding_idx + 1
        return int(table.num_embeddings) - first - (self.trilayer is not None)

    def _places(self, languages: torch.Tensor | None, language: str | None) -> torch.Tensor:
        """Languages by number [batch or 1] or [batch × tokens]."""
        if languages is not None:
            return languages
        return torch.tensor([self.config.place_of(language)], device=self.device)

    def _language_of(self, places: torch.Tensor, tokens: int) -> torch.Tensor | None:
        """Vectors of languages, for one token of each row or for all of them; None where there are none."""
        if places.dim() == 2 and places.shape[1] != tokens:
            raise InputError(
                f"languages are told of {places.shape[1]} tokens, but a sentence has {tokens}: tell of every token, "
                "or of every sentence"
            )
        if self.language_embeddings is None:
            return None
        vectors: torch.Tensor = self.language_embeddings(places if places.dim() == 2 else places[:, None])
        return vectors

    def _words_of(self, input_ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Vectors of tokens, each by the table of its language [batch × tokens × width]."""
        words: torch.Tensor
        if self.source_words is None:
            words = self.backbone.embeddings.word_embeddings(input_ids)
            return words
        places = (places if places.dim() == 2 else places[:, None]).expand(input_ids.shape)
        of_source = places != len(self.config.languages) - 1
        words = self.backbone.embeddings.word_embeddings(input_ids.masked_fill(of_source, 0))
        others = self.source_words(input_ids.masked_fill(~of_source, 0)).to(words.dtype)
        return torch.where(of_source[..., None], others, words)

    def _positions(self, input_ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        padding = self.backbone.embeddings.word_embeddings.padding_idx
        counted = _ones(input_ids, mask)
        if mask is None and padding is not None:  # RoBERTa counts what is no padding token
            counted = (input_ids != padding).long()
        return positions_of(self.backbone, counted)

    def _embedded(
        self,
        input_ids: torch.Tensor,
        mask: torch.Tensor | None,
        types: torch.Tensor | None,
        places: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """E_inp of the sentence and, where there is a TRILayer, of the placeholder after it; and their mask."""
        rows, tokens = input_ids.shape
        if tokens > self._longest:
            raise InputError(
                f"a sentence has {tokens} tokens, and the model has room for {self._longest}: cut it, or leave it out"
            )
        embeddings = self.backbone.embeddings
        language = self._language_of(places, tokens)
        words, positions = self._words_of(input_ids, places), self._positions(input_ids, mask)
        types = torch.zeros_like(input_ids) if types is None else types
        if self.placeholder is not None:
            words = torch.cat([words, self.placeholder.to(words.dtype).expand(rows, 1, -1)], dim=1)
            if language is not None and language.shape[1] > 1:
                language = torch.cat([language, language[:, :1]], dim=1)
            # Its position is the one after the sentence, however far the sentence is padded.
            positions = positions.expand(rows, -1)
            positions = torch.cat([positions, self._after(input_ids, mask, positions)], dim=1)
            types = torch.cat([types, torch.zeros_like(types[:, :1])], dim=1)
            mask = None if mask is None else torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        words = words if self.widening is None else self.widening(words)
        words = words if language is None else words + language
        embedded = embeddings(inputs_embeds=words, token_type_ids=types, position_ids=positions)
        return widened(self.backbone, embedded), mask

    def _after(self, input_ids: torch.Tensor, mask: torch.Tensor | None, positions: torch.Tensor) -> torch.Tensor:
        """The position after the last token of each sentence [batch × 1]."""
        seen = positions if mask is None else positions * mask.to(positions.dtype)
        return seen.max(dim=1, keepdim=True).values + 1

    def _with(self, hidden: torch.Tensor, language: torch.Tensor | None, position: torch.Tensor) -> torch.Tensor:
        """H^O + E_lng + E_pos; where embeddings are narrower than the layers, widened as those of words are."""
        if position.shape[-1] == hidden.shape[-1]:
            hidden = hidden if language is None else hidden + language.to(hidden.dtype)
            return hidden + position.to(hidden.dtype)
        again = position if language is None else language + position
        return hidden + widened(self.backbone, again, shifted=False).to(hidden.dtype)

    def _half(
        self, hidden: torch.Tensor, layers: list[nn.Module], mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Some layers one after the other: the last state, and all of them."""
        visible = create_bidirectional_mask(config=self.backbone.config, inputs_embeds=hidden, attention_mask=mask)
        states = []
        for layer in layers:
            hidden = layer(hidden, visible)
            states.append(hidden)
        return hidden, tuple(states)

    def get_input_embeddings(self) -> nn.Module:
        """Those of the backbone: of the last language, where each has its own."""
        found: nn.Module = self.backbone.embeddings.word_embeddings
        return found

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Those of the backbone."""
        self.backbone.embeddings.word_embeddings = value


def _ones(like: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return torch.ones_like(like) if mask is None else mask


def reorder(states: torch.Tensor, alignment: torch.Tensor) -> torch.Tensor:
    """Give every target position the state of the source position that it is aligned to: H^O of the paper.

    Args:
        states: Of a source sentence with the placeholder after its last position [batch × source + 1 × width].
        alignment: Source positions from 0, `UNALIGNED` for the placeholder [batch × target].

    Returns:
        [batch × target × width].
    """
    places = torch.where(alignment == UNALIGNED, states.shape[1] - 1, alignment)
    return states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]))


def check_alignment(alignment: torch.Tensor, source_mask: torch.Tensor, longest: int) -> None:
    """Refuse an alignment that does not fit its sentences; nothing can be read while a CUDA graph is recorded.

    Args:
        alignment: As in `reorder` [batch × target].
        source_mask: 1 for what is no padding [batch × source].
        longest: Positions that the model has.

    Raises:
        InputError: It has another number of rows, too many positions, or points outside its source sentence.
    """
    if alignment.dim() != 2 or len(alignment) != len(source_mask):
        raise InputError(
            f"an alignment of shape {list(alignment.shape)} does not fit {len(source_mask)} sentences: "
            "give one row of source positions for every sentence"
        )
    if alignment.shape[1] > longest:
        raise InputError(
            f"an alignment has {alignment.shape[1]} target positions, and the model has room for {longest}: "
            "cut the sentences, or leave them out"
        )
    if alignment.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    lengths = source_mask.shape[1] - source_mask.flip(1).to(torch.bool).int().argmax(1)
    outside = (alignment < UNALIGNED) | (alignment >= lengths[:, None])
    if bool(outside.any()):
        row, place = (int(number) for number in outside.nonzero()[0])
        raise InputError(
            f"in sentence {row} of the batch, target position {place} is aligned to source position "
            f"{int(alignment[row, place])}, but the source sentence has {int(lengths[row])} tokens: count from 0, and "
            f"write {UNALIGNED} for what is aligned to nothing"
        )
