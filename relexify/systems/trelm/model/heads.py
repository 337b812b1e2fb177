"""The heads of the TRILayer encoder: one for masked tokens and translations, and one for next sentences.

The same head predicts masked tokens and translations: the loss of CdLM is the cross entropy of every token y_i of the
target sentence at target position i; the loss of MLM is the cross entropy at the masked positions (section 3.2, L_ULM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, pad
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM
from transformers.activations import ACT2FN
from transformers.utils import ModelOutput

from relexify.errors import InputError
from relexify.pretrained.architecture import IGNORED
from relexify.systems.trelm.model.backbone import family_of
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.encoder import TriLayerModel, TriLayerPreTrainedModel, reorder

__all__ = [
    "MaskedHead",
    "TriLayerForMaskedLM",
    "TriLayerModel",
    "TriLayerOutput",
]


class MaskedHead(nn.Module):
    """Scores of tokens: dense, activation, norm and output embedding, as in BERT, RoBERTa and ALBERT.

    XLM has only the output embedding. With `embedding_size`, a projection reduces the state to the width of the output
    embedding. With separate vocabularies, `source_decoder` is the output embedding of the first language.
    """

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__()
        inner = config.backbone
        width = int(getattr(inner, "embedding_size", inner.hidden_size))  # ALBERT's head is as wide as its embedding
        self.dense: nn.Module = nn.Identity()
        self.activation: nn.Module = nn.Identity()
        self.norm: nn.Module = nn.Identity()
        if getattr(inner, "head_transform", True):
            self.dense = nn.Linear(inner.hidden_size, width)
            self.activation = ACT2FN[family_of(inner).head_activation or inner.hidden_act]
            self.norm = nn.LayerNorm(width, eps=inner.layer_norm_eps)
        narrow = config.embedding_size
        self.narrowing = None if narrow is None else nn.Linear(width, narrow, bias=False)
        self.decoder = nn.Linear(narrow or width, config.vocab_size)
        self.source_decoder: nn.Linear | None = None
        if config.source_vocab_size is not None:
            self.source_decoder = nn.Linear(width, config.source_vocab_size)

    def forward(self, hidden: torch.Tensor, is_source: torch.Tensor | bool = False) -> torch.Tensor:
        """Return logits [batch × target × vocabulary].

        Args:
            hidden: Last states [batch × target × width].
            is_source: With separate vocabularies, whether a position is in the first language: one value for all
                positions, or a tensor [batch × target]. With a tensor, the logits of the smaller vocabulary are padded
                with minus infinity.
        """
        hidden = self.norm(self.activation(self.dense(hidden)))
        if self.narrowing is not None:
            hidden = self.narrowing(hidden)
        logits: torch.Tensor
        if self.source_decoder is None or isinstance(is_source, bool):
            decoder = self.source_decoder if self.source_decoder is not None and is_source else self.decoder
            logits = decoder(hidden)
            return logits
        both = self.source_decoder(hidden), self.decoder(hidden)
        widest = max(each.shape[-1] for each in both)
        first, second = (pad(each, (0, widest - each.shape[-1]), value=float("-inf")) for each in both)
        return torch.where(is_source[..., None], first, second)


@dataclass
class TriLayerOutput(ModelOutput):  # type: ignore[misc]
    """Output of `TriLayerForMaskedLM`.

    Attributes:
        loss: Mean cross entropy of the labels, plus the mean cross entropy of next-sentence labels.
        logits: Scores of tokens [batch × target × vocabulary]. While the training engine computes the loss, the head
            returns its input, so these are the hidden states before the output embedding [batch × target × width].
        next_sentence_logits: Scores of the classes "the second segment follows the first" and "does not" [batch × 2].
        hidden_states: States of the embeddings and of all layers, if requested.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    next_sentence_logits: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


class TriLayerForMaskedLM(TriLayerPreTrainedModel):
    """The encoder with a head for tokens and, depending on the config, one for next sentences."""

    _tied_weights_keys = {  # noqa: RUF012 (name and type are fixed by transformers)
        "head.decoder.weight": "model.backbone.embeddings.word_embeddings.weight"
    }

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__(config)
        if config.source_vocab_size is not None:
            source_keys = {"head.source_decoder.weight": "model.source_words.weight"}
            self._tied_weights_keys = type(self)._tied_weights_keys | source_keys
        self.model = TriLayerModel(config)
        self.head = MaskedHead(config)
        self.next_sentence = nn.Linear(config.hidden_size, 2) if config.next_sentence else None
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        *,
        bridge: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        language: str | None = None,
        languages: torch.Tensor | None = None,
        target_languages: torch.Tensor | None = None,
        next_sentence_label: torch.Tensor | None = None,
        **inputs: Any,
    ) -> TriLayerOutput:
        """Return scores of the tokens of the target sentence, and the loss if labels are given.

        Args:
            input_ids: As for `TriLayerModel` [batch × source].
            attention_mask: As for `TriLayerModel`.
            token_type_ids: As for `TriLayerModel`.
            bridge: For BRLM, the position whose last state predicts the token at a position [batch × target]; if None,
                each position predicts its own token.
            labels: Tokens of the target sentence, -100 where no token is predicted [batch × target].
            language: As for `TriLayerModel`.
            languages: As for `TriLayerModel`.
            target_languages: As for `TriLayerModel`.
            next_sentence_label: 0 if the second segment follows the first, 1 if it does not [batch].
            **inputs: Other arguments of `TriLayerModel`, such as the order O of the target sentence.

        Raises:
            InputError: The sentence is too long, or the order does not fit it.
        """
        language_inputs: dict[str, Any] = {
            "language": language,
            "languages": languages,
            "target_languages": target_languages,
        }
        encoded = self.model(input_ids, attention_mask, token_type_ids, **language_inputs, **inputs)
        hidden = encoded.last_hidden_state
        follows = None
        if self.next_sentence is not None:
            follows = self.next_sentence(self.model.backbone.pooler(hidden))
        is_source = self.is_source(hidden.shape[:2], **language_inputs)
        logits = self.head(hidden if bridge is None else reorder(hidden, bridge), is_source)
        loss = None if labels is None else _mean_nats(logits.flatten(0, 1), labels.flatten())
        if next_sentence_label is not None:
            if follows is None:
                raise InputError("the model has no head for next sentences: build it from a BERT that has one")
            nats = _mean_nats(follows, next_sentence_label)
            loss = nats if loss is None else loss + nats
        return TriLayerOutput(loss, logits, follows, encoded.hidden_states)

    def is_source(
        self,
        shape: tuple[int, ...],
        *,
        language: str | None = None,
        languages: torch.Tensor | None = None,
        target_languages: torch.Tensor | None = None,
        **rest: Any,
    ) -> torch.Tensor | bool:
        """Return whether target positions are in the first language; False if the vocabulary is joint.

        Args:
            shape: Rows and target positions.
            language: As for `forward`.
            languages: As for `forward`.
            target_languages: As for `forward`.
            **rest: Other entries of a batch; ignored.

        Returns:
            One value for all positions, or [batch × target].
        """
        if self.head.source_decoder is None:
            return False
        written = languages if target_languages is None else target_languages
        last = len(self.config.languages) - 1
        if written is None:
            return bool(self.config.language_index(language) != last)
        return ((written if written.dim() == 2 else written[:, None]) != last).expand(shape)

    def loss_heads(self) -> list[nn.Linear]:
        """Return the output embeddings; see `relexify.training.protocol.MultiHeadModel`."""
        source_decoder = self.head.source_decoder
        return [self.head.decoder] if source_decoder is None else [self.head.decoder, source_decoder]

    def labels_by_head(self, labels: torch.Tensor, **batch: Any) -> list[tuple[nn.Linear, torch.Tensor]]:
        """Return every head that has labels, with the labels from its own vocabulary.

        Args:
            labels: Tokens to predict [batch × target].
            **batch: The other arrays of the batch.
        """
        if self.head.source_decoder is None:
            return [(self.head.decoder, labels)]
        is_source = self.is_source(labels.shape, **batch)
        if isinstance(is_source, bool):
            return [(self.head.source_decoder if is_source else self.head.decoder, labels)]
        return [
            (self.head.decoder, labels.masked_fill(is_source, IGNORED)),
            (self.head.source_decoder, labels.masked_fill(~is_source, IGNORED)),
        ]

    def row_loss(self, output: TriLayerOutput, **batch: Any) -> torch.Tensor | None:
        """Return the mean loss of next sentences; see `relexify.training.protocol.RowLabelModel`.

        Args:
            output: The output of `forward`.
            **batch: The arguments of `forward`, including `next_sentence_label`.
        """
        label = batch.get("next_sentence_label")
        if label is None or output.next_sentence_logits is None:
            return None
        return _mean_nats(output.next_sentence_logits, label)

    def get_output_embeddings(self) -> nn.Linear:
        """Return the output embedding; with separate vocabularies, the last language's."""
        return self.head.decoder

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the output embedding."""
        self.head.decoder = value


def _mean_nats(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy of the labels; 0, not NaN, if there is none."""
    total = cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")
    return total / (labels != IGNORED).sum().clamp(min=1)


AutoConfig.register(TriLayerConfig.model_type, TriLayerConfig, exist_ok=True)
AutoModel.register(TriLayerConfig, TriLayerModel, exist_ok=True)
AutoModelForMaskedLM.register(TriLayerConfig, TriLayerForMaskedLM, exist_ok=True)
