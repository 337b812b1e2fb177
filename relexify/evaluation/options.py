"""Options of an evaluation: the task, and how a model is trained for it.

`Evaluation` is what a user sets. Every task has default training options, those of the paper that it is taken from;
`Evaluation.training` returns them with the values that the user set.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal, TypeVar

from relexify.device import AUTO, validate_device
from relexify.errors import LARGEST_SEED, InputError, check_choices, check_number, check_positive
from relexify.evaluation.registry import TASKS
from relexify.pretrained.runtime.precision import Precision
from relexify.storage.fingerprint import BY_CONTENT, NO_EFFECT

__all__ = ["EpochTraining", "Evaluation", "FineTuning", "ParserTraining", "Probing", "check_seeds"]

_OVERRIDES = (
    "epochs", "batch", "learning_rate", "score_learning_rate", "warmup", "length", "weight_decay", "beta2", "epsilon",
    "clip", "micro_batch",
)  # fmt: skip
"""Fields of `Evaluation` that, if they are set, replace those of the task's training options."""


@dataclass(frozen=True, kw_only=True)
class EpochTraining:
    """Options that all training for tasks shares.

    Attributes:
        epochs: Passes over the training data.
        batch: Examples per step.
        learning_rate: Peak learning rate, from which it falls linearly to zero.
        warmup: Share of the steps in which the learning rate rises.
        weight_decay: Weight decay of matrices.
        beta1: Adam's decay of the first moment.
        beta2: Adam's decay of the second moment.
        epsilon: Adam's epsilon.
        clip: Largest norm of the gradient.
        precision: Number format of computations. `auto` is `bfloat16` (mixed precision) if the GPU supports it, and
            `float32` otherwise.

    Raises:
        InputError: A value is out of range.
    """

    epochs: int
    batch: int
    learning_rate: float
    warmup: float = 0.1
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = 1.0
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        _check_counts(self, "epochs", "batch")
        check_positive("learning_rate", self.learning_rate, 1)
        check_positive("clip", self.clip)
        if not 0 <= self.warmup <= 1:
            raise InputError(f"`warmup={self.warmup}` is not a share: give a number from 0 to 1")
        check_choices(self)


@dataclass(frozen=True, kw_only=True)
class FineTuning(EpochTraining):
    """Options of fine-tuning an encoder; the defaults are those of WECHSEL (Table 5).

    Attributes:
        length: Tokens per sequence; longer ones are truncated.
        micro_batch: Examples per forward pass; gradients are accumulated over a batch.
    """

    epochs: int = 3
    batch: int = 32
    learning_rate: float = 2e-5
    length: int = 128
    micro_batch: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_counts(self, "micro_batch")
        if self.length < 8:
            raise InputError(f"`length={self.length}` is too short to learn from: give 8 or more")
        if self.micro_batch and self.batch % self.micro_batch:
            raise InputError(
                f"a batch of {self.batch} cannot be split into parts of {self.micro_batch}: "
                "give a number that divides it (`micro_batch`)"
            )


@dataclass(frozen=True, kw_only=True)
class ParserTraining(EpochTraining):
    """Options of training a parser.

    Batch, learning rate and epochs are RAMEN's (section 3.3), which has one learning rate for the encoder and the
    scorers. Sizes, dropout and Adam's second moment are Dozat & Manning's (2017, Table 1). Warm-up, decay and clipping,
    which RAMEN does not mention, are those usual for fine-tuning BERT (Devlin et al., 2019).

    Attributes:
        score_learning_rate: Learning rate of the layers on top of the encoder, if different; 1e-3 needs few epochs.
        arc_size: Width of the perceptrons for arcs.
        label_size: Width of the perceptrons for labels.
        dropout: On the word vectors and inside the perceptrons.
        pooling: Whether a word is the mean of its pieces or the first of them.
        patience: Epochs without improvement after which to stop; None to run all epochs.
    """

    epochs: int = 50
    batch: int = 32
    learning_rate: float = 1e-5
    beta2: float = 0.9
    score_learning_rate: float | None = None
    arc_size: int = 500
    label_size: int = 100
    dropout: float = 0.33
    pooling: Literal["mean", "first"] = "mean"
    patience: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_counts(self, "arc_size", "label_size", "patience")
        check_positive("score_learning_rate", self.score_learning_rate, 1)


@dataclass(frozen=True, kw_only=True)
class Probing:
    """Options of training a linear probe on frozen hidden states.

    Attributes:
        batch: Texts that the model reads at a time.
    """

    batch: int = 32

    def __post_init__(self) -> None:
        _check_counts(self, "batch")


AnyTraining = TypeVar("AnyTraining", FineTuning, ParserTraining, Probing, FineTuning | ParserTraining | Probing)


@dataclass(frozen=True)
class Evaluation:
    """A task to evaluate a model on, and its options.

    Attributes:
        task: The task; `relexify evaluate --help` lists them.
        probe: Train a linear probe on frozen hidden states instead of the model.
        language: The language of a bilingual model to train in.
        through: Zero-shot transfer: test with the tokenizer and embeddings of this model, or of this language of a
            bilingual model.
        epochs: Passes over the training data; default: set by the task, as for all options up to `micro_batch`.
        batch: Examples per step.
        learning_rate: Peak learning rate.
        score_learning_rate: Peak learning rate of the layers on top of a parser's encoder.
        warmup: Share of the steps in which the learning rate rises.
        length: Tokens per sequence; longer ones are truncated.
        weight_decay: Weight decay of matrices.
        beta2: Adam's decay of the second moment.
        epsilon: Adam's epsilon.
        clip: Largest norm of the gradient.
        micro_batch: Examples per forward pass, if a whole batch does not fit into memory.
        learning_rates: Peak learning rates to choose from, by the score of the first seed on development data.
        batches: Batch sizes to choose from in the same way, together with `learning_rates`.
        examples: Train on this many examples, evenly spaced in the training file; default: all.
        seeds: One training run for each.
        keep_encoders: Keep the fine-tuned encoders, in folders `encoder-SEED`, to start another task from.
        device: Where probes and parsers are computed: `cpu`, `cuda`, or `auto` for a GPU if there is one, which
            training uses.

    Raises:
        InputError: There is no such task, the task has no such option, or a value is out of range.
    """

    task: Annotated[str, TASKS]
    probe: bool = False
    language: str | None = None
    through: str | None = field(default=None, metadata=BY_CONTENT)
    epochs: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    score_learning_rate: float | None = None
    warmup: float | None = None
    length: int | None = None
    weight_decay: float | None = None
    beta2: float | None = None
    epsilon: float | None = None
    clip: float | None = None
    micro_batch: int | None = None
    learning_rates: tuple[float, ...] = ()
    batches: tuple[int, ...] = ()
    examples: int | None = None
    seeds: tuple[int, ...] = (0,)
    keep_encoders: bool = field(default=False, metadata=NO_EFFECT)
    device: str = field(default=AUTO, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        validate_device(self.device)
        task = TASKS.get_or_raise(self.task)
        if self.probe and task.probe is None:
            known = ", ".join(name for name, other in TASKS.items() if other.probe is not None)
            raise InputError(f"there is no probe for {self.task}: choose one of {known}, or leave it out")
        if self.probe and self.through is not None:
            raise InputError("a probe cannot be tested through another model's embeddings: leave out one of the two")
        _check_counts(self, "epochs", "batch", "examples")
        for rate in (self.learning_rate, *self.learning_rates):
            check_positive("learning_rate", rate, 1)
        check_positive("score_learning_rate", self.score_learning_rate, 1)
        check_seeds(self.seeds)
        if (self.learning_rate is not None and self.learning_rates) or (self.batch is not None and self.batches):
            raise InputError("a learning rate or batch is given beside those to choose from: leave out one of the two")
        if self.keep_encoders and (self.probe or task.evaluate is not None):
            subject = "a probe" if self.probe else self.task
            raise InputError(f"{subject} fine-tunes no encoder that could be kept or started from: leave it out")
        for candidate in self.candidates:
            _ = candidate.training  # validates the options that it has

    @property
    def candidates(self) -> tuple[Evaluation, ...]:
        """The evaluations to choose from, each with one learning rate and one batch; a single one without a search."""
        if not (self.learning_rates or self.batches):
            return (self,)
        rates, batches = self.learning_rates or (self.learning_rate,), self.batches or (self.batch,)
        return tuple(
            replace(self, learning_rate=rate, batch=batch, learning_rates=(), batches=())
            for rate, batch in itertools.product(rates, batches)
        )

    @property
    def training(self) -> FineTuning | ParserTraining | Probing:
        """The training options of the task, with the values that are set here."""
        return self.override(Probing() if self.probe else TASKS[self.task].training)

    def override(self, defaults: AnyTraining) -> AnyTraining:
        """Return training options with the values that are set here.

        Raises:
            InputError: A value is set that they do not have, or that is not possible.
        """
        known = {entry.name for entry in fields(defaults)}
        given = {name: getattr(self, name) for name in _OVERRIDES if getattr(self, name) is not None}
        for name in given:
            if name not in known:
                subject, advice = ("a probe", ", or the probe") if self.probe else (self.task, "")
                raise InputError(f"{subject} has no {name}: leave it out{advice}")
        return replace(defaults, **given)


def check_seeds(seeds: tuple[int, ...]) -> None:
    """Validate the seeds of several runs.

    Raises:
        InputError: There are none, one is negative, or one is given twice.
    """
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError(f"`seeds={list(seeds)}` is not possible: give one or more different numbers from 0 on")
    check_number("seed", max(seeds), 0, LARGEST_SEED)


def _check_counts(options: object, *names: str) -> None:
    for name in names:
        check_number(name, getattr(options, name))
