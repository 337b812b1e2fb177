"""How a grafted model is trained on: stages, and the plans that the papers describe.

A stage names what it trains; everything else stays bit-equal. Each stage is a run of its own, with its own optimiser
and its own schedule, since a frozen set that changes inside a run cannot be resumed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from relexify.errors import InputError
from relexify.pretrained.precision import PRECISIONS
from relexify.steps import INHERITED
from relexify.storage.fingerprint import NO_EFFECT

__all__ = ["HELD_OUT_EVERY", "PLANS", "Plan", "Stage", "Training", "plan_stages"]

EVERYTHING, EMBEDDINGS, INNER = "everything", "embeddings", "inner"
HELD_OUT_EVERY = 100
"""Where no held-out text is given, one line of the corpus in this many is held out."""
SCHEDULES = ("linear", "cosine", "constant", "inverse_sqrt")
ADAM, LOOKAHEAD = "adamw", "lookahead"
OPTIMISERS = (ADAM, LOOKAHEAD)


@dataclass(frozen=True)
class Stage:
    """One stretch of training.

    Attributes:
        name: What messages and folders call it.
        steps: Optimiser steps.
        trains: `"everything"`, `"embeddings"` (all that has one entry a token: embedding, head, output bias),
            `"inner"` (all the rest), or a regular expression that is searched for in the names of parameters.
        learning_rate: The peak.
        warmup_steps: Steps with a rate that rises from zero to the peak.
        schedule: What the rate does after them: `linear` (to zero), `cosine`, `constant` or `inverse_sqrt` (at step s
            after w steps of warm-up, sqrt(w / s) of the peak).
        optimiser: `adamw`, or `lookahead` around it.
    """

    name: str
    steps: int
    trains: str = EVERYTHING
    learning_rate: float = field(default=5e-4, metadata=INHERITED)
    warmup_steps: int = 0
    schedule: str = field(default="linear", metadata=INHERITED)
    optimiser: str = field(default=ADAM, metadata=INHERITED)


@dataclass(frozen=True)
class Training:
    """How to train on; the defaults are those of the WECHSEL paper (Table 6), for fewer steps.

    Attributes:
        steps: Optimiser steps of all stages together.
        batch: Sequences a step, over all devices together.
        length: Tokens a sequence.
        learning_rate: The peak.
        plan: One of `PLANS`.
        stages: Stages of your own, in place of a plan; `steps` is then their sum.
        warmup: Share of the steps with a rising rate.
        schedule: As in `Stage`.
        optimiser: As in `Stage`.
        lookahead_steps: k of Lookahead: steps of Adam between two of the slow weights.
        lookahead_alpha: α of Lookahead: how far the slow weights go towards the fast ones.
        weight_decay: Of all parameters but biases and norms.
        beta1: Of Adam.
        beta2: Of Adam.
        epsilon: Of Adam.
        clip: The largest norm of a gradient.
        masking: Share of the tokens that a masked language model is asked for.
        micro_batch: Sequences a device takes at once; gradients are accumulated over the rest of a batch. By default
            as many as a step needs.
        evaluate_every: Steps between two measurements on held-out text, beside those before the first step, after a
            tenth and after the last; a twentieth of all steps by default.
        held_out_bytes: How much held-out text to measure on; 400,000 on a GPU and 40,000 on a CPU by default.
        patience: Stop after so many measurements without a better one.
        keep_best: Hand on the best measured model rather than the last; goes with `patience` by default.
        save_every: Steps between two checkpoints; by default they take about 3 % of the time, and with several
            processes they are as frequent as measurements.
        precision: `float32`, `bfloat16` (mixed), or `auto`: bfloat16 where a GPU has it.
        compile: Compile the blocks of the model; where it pays, if not said: on a GPU, from 100 steps on.
        tensorboard: Write a log for TensorBoard; where it is installed, if not said.
        seed: Of the order of the text, of masks and of dropout.
    """

    steps: int = 1_000
    batch: int = 64
    length: int = 512
    learning_rate: float = 5e-4
    plan: str = "direct"
    stages: tuple[Stage, ...] = ()
    warmup: float = 0.1
    schedule: str = "linear"
    optimiser: str = ADAM
    lookahead_steps: int = 5
    lookahead_alpha: float = 0.5
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-6
    clip: float = 1.0
    masking: float = 0.15
    micro_batch: int | None = None
    evaluate_every: int | None = None
    held_out_bytes: int | None = None
    patience: int | None = None
    keep_best: bool | None = None
    save_every: int | None = field(default=None, metadata=NO_EFFECT)
    precision: str = "auto"
    compile: bool | None = field(default=None, metadata=NO_EFFECT)
    tensorboard: bool | None = field(default=None, metadata=NO_EFFECT)
    seed: int = 0

    @property
    def tokens_per_step(self) -> int:
        """Tokens seen in one step."""
        return self.batch * self.length

    @property
    def selects_best(self) -> bool:
        """Whether the best measured model is handed on rather than the last."""
        return self.patience is not None if self.keep_best is None else self.keep_best


@dataclass(frozen=True)
class Plan:
    """A sequence of stages as a paper has it.

    Attributes:
        summary: What it does, in one line.
        parts: Name, share of the steps, what is trained, and the share of the whole run that warms up.
        paper: Where it comes from.
    """

    summary: str
    parts: tuple[tuple[str, float, str, float], ...]
    paper: str


PLANS: Mapping[str, Plan] = {
    "direct": Plan(
        "everything from the first step: one warm-up, then decay",
        (("everything", 1.0, EVERYTHING, 0.1),),
        "Minixhofer et al. 2022, section 4 (WECHSEL and FullRand)",
    ),
    "embeddings-first": Plan(
        "the embeddings alone for the first tenth, then everything, each with a warm-up of its own",
        (("embeddings", 0.1, EMBEDDINGS, 0.1), ("everything", 0.9, EVERYTHING, 0.1)),
        "de Vries and Nissim 2021; Minixhofer et al. 2022, section 4 (TransInner)",
    ),
    "embeddings-only": Plan(
        "the embeddings alone, everything else stays as it is",
        (("embeddings", 1.0, EMBEDDINGS, 0.1),),
        "Artetxe et al. 2020; Minixhofer et al. 2022, first version, 5.4.1",
    ),
}
"""What `Training.plan` may be."""


def plan_stages(training: Training) -> tuple[Stage, ...]:
    """The stages of a training, checked.

    Raises:
        InputError: An option has an impossible value.
    """
    stages = training.stages or _from_plan(training)
    _check_training(training)
    for stage in stages:
        _check_stage(stage)
    names = [stage.name for stage in stages]
    if len(set(names)) < len(names):
        raise InputError(f"two stages have the same name ({', '.join(names)}): give each one of its own")
    return stages


def _from_plan(training: Training) -> tuple[Stage, ...]:
    if training.plan not in PLANS:
        raise InputError(f"there is no training plan {training.plan!r}: choose one of {', '.join(PLANS)}")
    parts = PLANS[training.plan].parts
    if training.steps < len(parts):
        raise InputError(
            f"steps = {training.steps} is too few for the {len(parts)} stages of the plan {training.plan}: give more"
        )
    ends = [round(training.steps * sum(part[1] for part in parts[: place + 1])) for place in range(len(parts))]
    ends[-1] = training.steps
    stages, start = [], 0
    for place, (name, _, trains, warmup) in enumerate(parts):
        end = max(ends[place], start + 1)
        # The paper's 10 % are those of the whole run; `training.warmup` scales them.
        rising = min(end - start, round(training.steps * warmup * training.warmup / 0.1))
        how = (training.schedule, training.optimiser)
        stages.append(Stage(name, end - start, trains, training.learning_rate, rising, *how))
        start = end
    return tuple(stages)


_POSITIVE = (
    "steps", "batch", "length", "micro_batch", "evaluate_every", "save_every", "patience", "held_out_bytes",
    "lookahead_steps",
)  # fmt: skip


def _check_training(training: Training) -> None:
    for name in _POSITIVE:
        value = getattr(training, name)
        if value is not None and value < 1:
            raise InputError(f"{name} = {value} is not possible: give 1 or more")
    if training.length < 8:
        raise InputError(f"length = {training.length} tokens a sequence is too short to learn from: give 8 or more")
    for name in ("warmup", "masking"):
        if not 0 <= getattr(training, name) <= 1:
            raise InputError(f"{name} = {getattr(training, name)} is not a share: give a number from 0 to 1")
    if training.masking == 0:
        raise InputError("masking = 0 leaves a masked language model nothing to learn: give a share such as 0.15")
    if training.precision not in PRECISIONS:
        raise InputError(f"there is no precision {training.precision!r}: choose one of {', '.join(PRECISIONS)}")
    if training.micro_batch and training.batch % training.micro_batch:
        raise InputError(
            f"a batch of {training.batch} cannot be cut into parts of {training.micro_batch}: "
            "give a micro_batch that divides it"
        )
    for name, least in (("weight_decay", 0.0), ("beta1", 0.0), ("beta2", 0.0), ("epsilon", 0.0), ("clip", 0.0)):
        value = getattr(training, name)
        below_one = not name.startswith("beta") or value < 1
        if not (least <= value < math.inf and below_one) or (name == "clip" and value == 0):
            raise InputError(f"{name} = {value} is not possible: see the defaults for what is usual")
    if not 0 < training.lookahead_alpha <= 1:
        raise InputError(f"lookahead_alpha = {training.lookahead_alpha} is not possible: give a number from 0 to 1")
    if training.seed < 0:
        raise InputError(f"seed = {training.seed} is not possible: give 0 or more")


def _check_stage(stage: Stage) -> None:
    if not re.fullmatch(r"\w[\w.+-]*", stage.name):
        raise InputError(f"a stage is called {stage.name!r}, which names no folder: use letters, digits, '-' and '.'")
    if stage.steps < 1:
        raise InputError(f"the stage {stage.name!r} has {stage.steps} steps: give 1 or more")
    if not 0 < stage.learning_rate < math.inf:
        raise InputError(f"learning_rate = {stage.learning_rate} is not possible: give a number above 0, such as 5e-4")
    if stage.schedule not in SCHEDULES:
        raise InputError(f"there is no schedule {stage.schedule!r}: choose one of {', '.join(SCHEDULES)}")
    if stage.optimiser not in OPTIMISERS:
        raise InputError(f"there is no optimiser {stage.optimiser!r}: choose one of {', '.join(OPTIMISERS)}")
    if not 0 <= stage.warmup_steps <= stage.steps:
        raise InputError(f"the stage {stage.name!r} warms up for {stage.warmup_steps} of its {stage.steps} steps")
    try:
        re.compile(stage.trains)
    except re.error as error:
        raise InputError(
            f"the stage {stage.name!r} trains {stage.trains!r}, which is neither {EVERYTHING}, {EMBEDDINGS} nor "
            f"{INNER}, nor a regular expression ({error})"
        ) from error


def scaled(training: Training, steps: int) -> Training:
    """The same training for another number of steps; stages of one's own are stretched."""
    if not training.stages:
        return replace(training, steps=steps)
    share = steps / sum(stage.steps for stage in training.stages)
    stages = tuple(
        replace(stage, steps=max(1, round(stage.steps * share)), warmup_steps=round(stage.warmup_steps * share))
        for stage in training.stages
    )
    return replace(training, steps=sum(stage.steps for stage in stages), stages=stages)
