"""Select the parameters that a stage trains; all others stay as they are, bit for bit."""

from __future__ import annotations

import re

from transformers import PreTrainedModel

from relexify.errors import InputError
from relexify.training.plan import EMBEDDINGS, EVERYTHING, INNER
from relexify.training.protocol import lexical_parameter_names

__all__ = ["freeze_all_but", "trained_names"]


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
