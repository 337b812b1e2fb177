"""What a stage leaves as it is, bit for bit: the parameters that it does not train, and rows of tokens to keep."""

from __future__ import annotations

import re
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from relexify.errors import InputError
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.training.options import EMBEDDINGS, EVERYTHING, INNER
from relexify.training.protocol import lexical_parameter_names

__all__ = ["KeptRows", "freeze_all_but", "trained_names"]


def trained_names(model: PreTrainedModel, trains: str) -> set[str]:
    """Return the names of the parameters that a stage trains.

    Args:
        model: The model.
        trains: As in `Stage.trains`.

    Raises:
        InputError: No parameter is selected.
    """
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    if trains == EVERYTHING:
        return names
    if trains in (EMBEDDINGS, INNER):
        lexical = lexical_parameter_names(model) & names
        return lexical if trains == EMBEDDINGS else names - lexical
    found = {name for name in names if re.search(trains, name)}
    if not found:
        raise InputError(
            f"no parameter's name contains {trains!r}: use everything, embeddings, inner, or a regular expression "
            f"that fits names such as {sorted(names)[0]}"
        )
    return found


def freeze_all_but(model: PreTrainedModel, trains: str) -> list[str]:
    """Freeze all parameters but those that a stage trains, and return the names of these.

    A parameter with two names, such as a tied head, is trained if either is selected.
    """
    chosen = trained_names(model, trains)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name in chosen:
            parameter.requires_grad_(True)
    return sorted(name for name, parameter in model.named_parameters() if parameter.requires_grad)


class KeptRows(TrainerCallback):  # type: ignore[misc]
    """Keeps the first rows of everything that has one row per token, while the other rows are trained.

    It undoes what a step has changed in them; weight decay changes rows without a gradient too.

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
