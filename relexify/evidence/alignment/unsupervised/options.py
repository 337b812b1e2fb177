"""How two spaces are brought together without any pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from relexify.errors import InputError

__all__ = ["AdversarialTraining", "resolve_options", "validate_adversarial_training"]

JUDGED_PER_COMPONENT = 20


@dataclass(frozen=True)
class AdversarialTraining:
    """How a linear map is trained against a discriminator, chosen, and refined.

    Attributes:
        restarts: Games with different starts, at most, or 0 for none; the first that is told apart from chance ends
            the search.
        by_frequency: Try first whether so many most frequent words of both spaces can be brought together by how
            frequent they are (`map_by_frequency`); 0 not to. It takes the square of that number of cells several times.
        frequency_spread: How far the logarithms of the ranks of two words that belong together differ, about.
        principal: Try next whether the principal axes of both spaces meet, and start the first game there; the others
            start at random.
        epochs: After each of them every map is judged, and the best so far kept.
        steps: Updates of the map in an epoch.
        batch: Vectors of either space in an update.
        discriminator_steps: Updates of the discriminator for one of the map.
        hidden: Width of the discriminator's two hidden layers.
        slope: Of the Leaky-ReLU, left of zero.
        dropout: Share of the discriminator's input that is blanked.
        smoothing: How far the labels stay away from 0 and 1.
        beta: How strongly the map is drawn towards an orthogonal one after each update; 0 for any linear map.
        learning_rate: Of both sides' SGD, at the start.
        decay: What the learning rate is multiplied by after an epoch.
        shrink: The same, after an epoch that did not better the map.
        frequent: Only so many of the most frequent words are shown.
        judged: A map is judged by the mutual neighbours of so many most frequent words, and refined on them. By
            default 20 for each component of a vector: more of them are rarer ones, whose vectors say less.
        neighbours: k of CSLS.
        refinements: Rounds of Procrustes on mutual neighbours, at most.
        centre: Move both spaces' means to the origin before training.
        normalise: Give all vectors length one before training.
    """

    restarts: int = 3
    by_frequency: int = 4_000
    frequency_spread: float = 0.2
    principal: bool = True
    epochs: int = 4
    steps: int = 1_000
    batch: int = 128
    discriminator_steps: int = 2
    hidden: int = 256
    slope: float = 0.2
    dropout: float = 0.1
    smoothing: float = 0.1
    beta: float = 0.01
    learning_rate: float = 0.3
    decay: float = 0.95
    shrink: float = 0.5
    frequent: int = 5_000
    judged: int | None = None
    neighbours: int = 10
    refinements: int = 30
    centre: bool = True
    normalise: bool = True


def validate_adversarial_training(options: AdversarialTraining) -> None:
    """Refuse options that no training can be made of.

    Raises:
        InputError: One of them is out of range.
    """
    lowest = {
        "restarts": 0, "epochs": 1, "steps": 1, "batch": 1, "discriminator_steps": 1, "hidden": 1, "frequent": 1,
        "judged": 1, "neighbours": 1, "refinements": 0, "by_frequency": 0,
    }  # fmt: skip
    for name, least in lowest.items():
        value = getattr(options, name)
        if value is not None and value < least:
            raise InputError(f"aligning with {name} = {value} is not possible: give {least} or more")
    for name, below in {"dropout": 1.0, "smoothing": 0.5, "beta": 0.5, "slope": 1.0}.items():
        if not 0 <= getattr(options, name) < below:
            raise InputError(
                f"aligning with {name} = {getattr(options, name)} is not possible: give at least 0, and below {below}"
            )
    for name in ("decay", "shrink"):
        if not 0 < getattr(options, name) <= 1:
            raise InputError(f"aligning with {name} = {getattr(options, name)} is not possible: give up to 1, above 0")
    for name in ("learning_rate", "frequency_spread"):
        if not 0 < getattr(options, name) < math.inf:
            raise InputError(f"aligning with {name} = {getattr(options, name)} is not possible: give a number above 0")


def resolve_options(options: AdversarialTraining | None, width: int) -> AdversarialTraining:
    """The same options with what follows from the width of the vectors."""
    options = options or AdversarialTraining()
    return options if options.judged else replace(options, judged=JUDGED_PER_COMPONENT * width)
