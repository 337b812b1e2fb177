"""Heads for tasks on the TRILayer encoder; each is the same as BERT's."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.modeling_outputs import (
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.encoder import TriLayerModel, TriLayerPreTrainedModel

__all__ = [
    "TriLayerForMultipleChoice",
    "TriLayerForQuestionAnswering",
    "TriLayerForSequenceClassification",
    "TriLayerForTokenClassification",
]


class _FirstTokenModel(TriLayerPreTrainedModel):
    """Scores of whole texts, as in BERT: the state of the first token, a tanh layer and a linear layer."""

    def __init__(self, config: TriLayerConfig, scores: int) -> None:
        super().__init__(config)
        self.model = TriLayerModel(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, scores)
        self.post_init()

    def score(self, input_ids: torch.Tensor, **arrays: Any) -> torch.Tensor:
        """Return the scores of texts [texts × scores]."""
        first = self.model(input_ids, **arrays).last_hidden_state[:, 0]
        scores: torch.Tensor = self.classifier(self.dropout(torch.tanh(self.pooler(self.dropout(first)))))
        return scores


class TriLayerForSequenceClassification(_FirstTokenModel):
    """Text classification: one label for a text."""

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__(config, config.num_labels)
        self.num_labels = config.num_labels

    def forward(
        self, input_ids: torch.Tensor, labels: torch.Tensor | None = None, **arrays: Any
    ) -> SequenceClassifierOutput:
        """Return logits [batch × labels].

        Args:
            input_ids: Texts, or pairs of texts [batch × tokens].
            labels: Indices of the right answers, or numbers if `problem_type` is regression [batch].
            **arrays: Other arguments of `TriLayerModel`.
        """
        logits = self.score(input_ids, **arrays)
        loss = None
        if labels is not None and self.config.problem_type == "regression":
            loss = mse_loss(logits.squeeze(-1), labels.to(logits.dtype))
        elif labels is not None:
            loss = cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class TriLayerForMultipleChoice(_FirstTokenModel):
    """Multiple choice: one of several texts, the one with the highest score."""

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__(config, 1)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> MultipleChoiceModelOutput:
        """Return logits [batch × texts].

        Args:
            input_ids: The texts to choose from [batch × texts × tokens].
            attention_mask: 1 for tokens, 0 for padding, in the same shape.
            token_type_ids: 0 for the first text of a pair, 1 for the second, in the same shape.
            labels: Indices of the right texts [batch].
        """
        arrays = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        flat = {name: array.flatten(0, 1) for name, array in arrays.items() if array is not None}
        logits = self.score(input_ids.flatten(0, 1), **flat).view(input_ids.shape[:2])
        loss = None if labels is None else cross_entropy(logits, labels)
        return MultipleChoiceModelOutput(loss=loss, logits=logits)


class TriLayerForTokenClassification(TriLayerPreTrainedModel):
    """Token classification: one label for every token."""

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
        """Return logits [batch × tokens × labels].

        Args:
            input_ids: Texts [batch × tokens].
            labels: Indices of the right answers, -100 for tokens without one [batch × tokens].
            **arrays: Other arguments of `TriLayerModel`.
        """
        logits = self.classifier(self.dropout(self.model(input_ids, **arrays).last_hidden_state))
        loss = None if labels is None else cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)


class TriLayerForQuestionAnswering(TriLayerPreTrainedModel):
    """Question answering: the first and the last token of an answer in a text."""

    def __init__(self, config: TriLayerConfig) -> None:
        super().__init__(config)
        self.model = TriLayerModel(config)
        self.classifier = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        **arrays: Any,
    ) -> QuestionAnsweringModelOutput:
        """Return the scores of each token for being the first and the last token of the answer [batch × tokens] each.

        Args:
            input_ids: Questions with texts [batch × tokens].
            start_positions: Positions of the first tokens of the answers [batch].
            end_positions: Positions of the last tokens of the answers [batch].
            **arrays: Other arguments of `TriLayerModel`.
        """
        start, end = self.classifier(self.model(input_ids, **arrays).last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (cross_entropy(start, start_positions) + cross_entropy(end, end_positions)) / 2
        return QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end)


def _dropout(config: TriLayerConfig) -> float:
    classifier_dropout = getattr(config.backbone, "classifier_dropout", None)
    return float(config.backbone.hidden_dropout_prob if classifier_dropout is None else classifier_dropout)


AutoModelForMultipleChoice.register(TriLayerConfig, TriLayerForMultipleChoice, exist_ok=True)
AutoModelForQuestionAnswering.register(TriLayerConfig, TriLayerForQuestionAnswering, exist_ok=True)
AutoModelForSequenceClassification.register(TriLayerConfig, TriLayerForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(TriLayerConfig, TriLayerForTokenClassification, exist_ok=True)
