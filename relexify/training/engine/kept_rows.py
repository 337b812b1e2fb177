"""Keep the first rows of everything that has one row per token, bit for bit, while the other rows are trained."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from relexify.pretrained.lexical import lexical_axes

__all__ = ["KeptRows"]


class KeptRows(TrainerCallback):  # type: ignore[misc]
    """Undoes what a step has changed in the first rows; weight decay changes rows without a gradient too.

    Args:
        model: The model that is trained.
        rows: Number of rows to keep.
    """

    def __init__(self, model: PreTrainedModel, rows: int) -> None:
        self.model, self.rows = model, rows
        self._kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Remember the rows; those of a checkpoint are the same."""
        trained = {name: tensor.detach() for name, tensor in self.model.named_parameters() if tensor.requires_grad}
        axes = {name: axis for name, axis in lexical_axes(self.model).items() if name in trained}
        views = [trained[name].narrow(axis, 0, self.rows) for name, axis in axes.items()]
        self._kept = [(view, view.clone()) for view in views]

    @torch.no_grad()
    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Put the rows back."""
        for view, rows in self._kept:
            view.copy_(rows)
