"""The table `[trelm]` of a recipe, and the run that it asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from relexify.errors import InputError
from relexify.recipes.file.paths import Place, model_name, written_model
from relexify.recipes.file.values import check_keys, convert_fields
from relexify.recipes.file.writing import differing
from relexify.systems.trelm.options import Trelm, check_trelm
from relexify.training.plan import Training

__all__ = ["PHASES", "read_trelm", "written_trelm"]

PHASES = ("commonality", "transfer", "specific")


def read_trelm(table: object, place: Place, training: Callable[[object, Place, Training], Training]) -> Trelm:
    """What a table says; what a phase leaves open is the paper's.

    Args:
        table: As `tomllib` reads it.
        place: Where it stands.
        training: Reads the table of a phase, given the paper's training.

    Raises:
        InputError: A key is unknown, or a value is of another type or impossible.
    """
    own = check_keys(table, [field.name for field in fields(Trelm)], (), place)
    values = convert_fields({key: own[key] for key in own if key not in PHASES}, Trelm, place)
    if values.get("source_model") is not None:
        values["source_model"] = model_name(values["source_model"], place.below("source_model"))
    options = Trelm(**values)
    trainings: dict[str, Any] = {
        name: training(own[name], place.below(name), getattr(options, name)) for name in PHASES if name in own
    }
    options = replace(options, **trainings)
    try:
        check_trelm(options)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    return options


def written_trelm(options: Trelm, training: Callable[[Training, Training], dict[str, Any]]) -> dict[str, Any]:
    """The opposite of `read_trelm`; what is the paper's is left out."""
    usual, table = Trelm(), differing(options, leave_out=PHASES)
    if options.source_model is not None:
        table["source_model"] = written_model(options.source_model)
    return table | {name: training(getattr(options, name), getattr(usual, name)) for name in PHASES}
