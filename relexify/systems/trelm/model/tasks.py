"""A model with a TRILayer under a new layer for a task: one answer for a text, or one for every token."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput

from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.encoder import TriLayerModel, TriLayerPreTrainedModel

__all__ = ["TriLayerForSequenceClassification", "TriLayerForTokenClassification"]


class TriLayerForSequenceClassification(TriLayerPreTrainedModel):
    """As BERT has it: the state of the first token, a layer with tanh, and the answers; text keeps its order."""

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = TriLayerModel(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self, input_ids: torch.Tensor, labels: torch.Tensor | None = None, **arrays: Any
    ) -> SequenceClassifierOutput:
        """Answers [batch × labels].

        Args:
            input_ids: Texts, or pairs of them [batch × tokens].
            labels: The right answers by number, or numbers to come close to (`problem_type`) [batch].
            **arrays: What else `TriLayerModel` takes.
        """
        first = self.model(input_ids, **arrays).last_hidden_state[:, 0]
        logits = self.classifier(self.dropout(torch.tanh(self.pooler(self.dropout(first)))))
        loss = None
        if labels is not None and self.config.problem_type == "regression":
            loss = mse_loss(logits.squeeze(-1), labels.to(logits.dtype))
        elif labels is not None:
            loss = cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class TriLayerForTokenClassification(TriLayerPreTrainedModel):
    """An answer for every token; text keeps its order."""

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = TriLayerModel(config)
        self.dropout = nn.Dropout(_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self, input_ids: torch.Tensor, labels: torch.Tensor | None = None, **arrays: Any
    ) -> TokenClassifierOutput:
        """Answers [batch × tokens × labels].

        Args:
            input_ids: Texts [batch × tokens].
            labels: The right answers by number, -100 where none is asked for [batch × tokens].
            **arrays: What else `TriLayerModel` takes.
        """
        logits = self.classifier(self.dropout(self.model(input_ids, **arrays).last_hidden_state))
        loss = None if labels is None else cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)


def _dropout(config: TriLayerConfig) -> float:
    given = getattr(config.backbone, "classifier_dropout", None)
    return float(config.backbone.hidden_dropout_prob if given is None else given)


AutoModelForSequenceClassification.register(TriLayerConfig, TriLayerForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(TriLayerConfig, TriLayerForTokenClassification, exist_ok=True)
