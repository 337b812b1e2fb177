"""Tasks that an encoder is fine-tuned on, and how."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from relexify.errors import InputError

__all__ = ["PRECISIONS", "TASKS", "FineTuning", "Task", "check_options"]

PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class Task:
    """A kind of task.

    Attributes:
        kind: What is predicted: a class or a number of a text or a pair, or tags of words.
        metric: What is counted; the first of several scores is the one that the best epoch is chosen by.
        epochs: Passes over the training data, if not said otherwise.
        batch: Examples a step, if not said otherwise.
    """

    kind: Literal["class", "number", "tags"]
    metric: Literal["accuracy", "matthews", "accuracy and F1", "correlations", "entities"]
    epochs: int
    batch: int


TASKS: Mapping[str, Task] = {
    "nli": Task("class", "accuracy", 2, 128),
    "ner": Task("tags", "entities", 10, 32),
    "pos": Task("tags", "accuracy", 10, 32),
    "cola": Task("class", "matthews", 3, 32),
    "sst-2": Task("class", "accuracy", 3, 32),
    "mrpc": Task("class", "accuracy and F1", 3, 32),
    "rte": Task("class", "accuracy", 3, 32),
    "sts-b": Task("number", "correlations", 3, 32),
    "classification": Task("class", "accuracy", 3, 32),
}
"""What `FineTuning.task` may be."""


@dataclass(frozen=True)
class FineTuning:
    """How to fine-tune; the defaults are those of the WECHSEL paper (Table 5).

    Attributes:
        task: One of `TASKS`.
        epochs: Passes over the training data; the task's own number if not given.
        batch: Examples a step; the task's own number if not given.
        learning_rate: The peak; it falls to zero in a straight line.
        length: Tokens a sequence; longer ones are cut.
        warmup: Share of the steps with a rising rate.
        seeds: One run for each.
        weight_decay: Of all parameters but biases and norms.
        beta1: Of Adam.
        beta2: Of Adam.
        epsilon: Of Adam.
        clip: The largest norm of a gradient.
        micro_batch: Examples that are taken at once; gradients are accumulated over the rest of a batch.
        precision: `float32`, `bfloat16` (mixed), or `auto`: bfloat16 where a GPU has it.
    """

    task: str
    epochs: int | None = None
    batch: int | None = None
    learning_rate: float = 2e-5
    length: int = 128
    warmup: float = 0.1
    seeds: tuple[int, ...] = (0, 1, 2)
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = 1.0
    micro_batch: int | None = None
    precision: str = "auto"

    @property
    def rounds(self) -> int:
        """Passes over the training data."""
        return TASKS[self.task].epochs if self.epochs is None else self.epochs

    @property
    def batch_size(self) -> int:
        """Examples a step."""
        return TASKS[self.task].batch if self.batch is None else self.batch


def check_options(options: FineTuning) -> None:
    """Refuse what nothing can be fine-tuned with.

    Raises:
        InputError: There is no such task, or an option has an impossible value.
    """
    if options.task not in TASKS:
        raise InputError(f"there is no task {options.task!r}: choose one of {', '.join(TASKS)}")
    for name in ("epochs", "batch", "micro_batch"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InputError(f"{name} = {value} is not possible: give 1 or more")
    if options.length < 8:
        raise InputError(f"length = {options.length} tokens a sequence is too short to learn from: give 8 or more")
    if not 0 < options.learning_rate < math.inf:
        raise InputError(f"learning_rate = {options.learning_rate} is not possible: give a number above 0")
    if not 0 <= options.warmup <= 1:
        raise InputError(f"warmup = {options.warmup} is not a share: give a number from 0 to 1")
    if options.precision not in PRECISIONS:
        raise InputError(f"there is no precision {options.precision!r}: choose one of {', '.join(PRECISIONS)}")
    if options.micro_batch and options.batch_size % options.micro_batch:
        raise InputError(
            f"a batch of {options.batch_size} cannot be cut into parts of {options.micro_batch}: "
            "give a micro_batch that divides it"
        )
    if not options.seeds or len(set(options.seeds)) < len(options.seeds) or min(options.seeds) < 0:
        raise InputError(f"seeds = {options.seeds} is not possible: give one or more different numbers from 0 on")
