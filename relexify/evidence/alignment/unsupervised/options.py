"""Options of vector alignment without a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, replace

from relexify.errors import InputError, check_number, check_positive

__all__ = ["AdversarialTraining", "resolve_options", "validate_adversarial_training"]

JUDGED_PER_COMPONENT = 20


@dataclass(frozen=True)
class AdversarialTraining:
    """Options of the search for a linear map between two spaces without known pairs.

    Three searches are tried in this order, and the first clear result ends the search: frequency ranks
    (`frequency_map`), principal axes (`principal_axes`), and up to `restarts` runs of adversarial training.

    Attributes:
        restarts: Largest number of adversarial runs, each from another start; 0 for none.
        frequency_map: First match the most frequent words of both spaces by frequency rank and cosine. Experimental;
            see docs/results/vectors.md.
        frequency_words: Number of most frequent words that this match uses; it holds several matrices of that number
            squared.
        frequency_spread: Typical difference between the logarithms of the frequency ranks of a word and its
            translation.
        principal_axes: Next, match the principal axes of both spaces, and start the first adversarial run there.
        epochs: Epochs of an adversarial run. The map is judged after each one, and the best one is kept.
        steps: Updates of the map per epoch.
        batch: Vectors of each space per update.
        discriminator_steps: Updates of the discriminator per update of the map.
        hidden: Width of the discriminator's two hidden layers.
        slope: Slope of the Leaky-ReLU for negative inputs.
        dropout: Dropout rate on the input of the discriminator.
        smoothing: Label smoothing: labels are this number and 1 minus this number.
        beta: How strongly the map is pulled towards an orthogonal one after each update; 0 for any linear map.
        learning_rate: Initial learning rate (SGD) of the map and of the discriminator.
        decay: Factor on the learning rate after each epoch.
        shrink: Further factor on the learning rate after an epoch that did not improve the map.
        frequent: Number of most frequent words that adversarial training samples from.
        judged: Number of most frequent words whose mutual neighbours judge and refine a map; default: 20 per component
            of a vector.
        neighbours: k of CSLS.
        refinements: Largest number of Procrustes rounds on mutual neighbours.
        centre: Subtract the mean of each space before training.
        normalise: Scale all vectors to length one before training.
    """

    restarts: int = 3
    frequency_map: bool = True
    frequency_words: int = 4_000
    frequency_spread: float = 0.2
    principal_axes: bool = True
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
    """Validate the ranges of the options.

    Raises:
        InputError: An option is out of range.
    """
    lowest = {
        "restarts": 0, "epochs": 1, "steps": 1, "batch": 1, "discriminator_steps": 1, "hidden": 1, "frequent": 1,
        "judged": 1, "neighbours": 1, "refinements": 0, "frequency_words": 1,
    }  # fmt: skip
    for name, least in lowest.items():
        check_number(name, getattr(options, name), least, before="aligning with ")
    for name, below in {"dropout": 1.0, "smoothing": 0.5, "beta": 0.5, "slope": 1.0}.items():
        value = getattr(options, name)
        if not 0 <= value < below:
            raise InputError(f"aligning with `{name}={value}` is not possible: give at least 0, and below {below}")
    for name in ("decay", "shrink"):
        check_positive(name, getattr(options, name), 1, before="aligning with ")
    for name in ("learning_rate", "frequency_spread"):
        check_positive(name, getattr(options, name), before="aligning with ")


def resolve_options(options: AdversarialTraining | None, width: int) -> AdversarialTraining:
    """Return the options, with defaults that depend on the width of the vectors filled in."""
    options = options or AdversarialTraining()
    return options if options.judged else replace(options, judged=JUDGED_PER_COMPONENT * width)
