"""Plans: the stages of a training of any length, relexify's own and those that the papers describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from relexify.errors import InputError
from relexify.storage.fingerprint import describe
from relexify.training.options import (
    ADAM,
    DECAYING,
    EMBEDDINGS,
    EVERYTHING,
    FULL_STATE,
    LOOKAHEAD,
    MUON,
    OWN_PLAN,
    Optimiser,
    PlanName,
    Stage,
    Training,
    check_stage,
    check_training,
)

__all__ = ["PLANS", "Plan", "PlannedStage", "count_steps", "plan_stages", "training_identity"]


@dataclass(frozen=True)
class PlannedStage:
    """A stage of a plan, for a training of any length.

    Attributes:
        name: As in `Stage`.
        share: Its share of all steps.
        trains: As in `Stage`.
        warmup: Steps in which the rate rises, as a share of all steps.
    """

    name: str
    share: float
    trains: str
    warmup: float


@dataclass(frozen=True)
class Plan:
    """A sequence of stages.

    Attributes:
        summary: What it does, in one line.
        stages: Its stages.
        paper: The paper and section.
        optimiser: The optimiser, unless another one is given.
        final_rate: `Stage.final_rate` of its stages, unless another one is given.
    """

    summary: str
    stages: tuple[PlannedStage, ...]
    paper: str
    optimiser: Optimiser = ADAM
    final_rate: float = 0.0


PLANS: Mapping[PlanName, Plan] = {
    OWN_PLAN: Plan(
        "everything from the first step: Muon for inner matrices, a higher learning rate for the embeddings; rates "
        "follow from model and text",
        (PlannedStage("everything", 1.0, EVERYTHING, warmup=0.04),),
        "relexify's own; Muon is from Jordan et al. 2024 and Liu et al. 2025",
        MUON,
        final_rate=0.1,
    ),
    "direct": Plan(
        "everything from the first step with AdamW: one warm-up, then decay",
        (PlannedStage("everything", 1.0, EVERYTHING, warmup=0.1),),
        "Minixhofer et al. 2022, section 4 (WECHSEL and FullRand)",
    ),
    "embeddings-first": Plan(
        "the embeddings alone for the first tenth, then everything, each with a warm-up of its own",
        (
            PlannedStage("embeddings", 0.1, EMBEDDINGS, warmup=0.1),
            PlannedStage("everything", 0.9, EVERYTHING, warmup=0.1),
        ),
        "de Vries and Nissim 2021; Minixhofer et al. 2022, section 4 (TransInner)",
    ),
    "embeddings-only": Plan(
        "the embeddings alone, everything else stays as it is",
        (PlannedStage("embeddings", 1.0, EMBEDDINGS, warmup=0.1),),
        "Artetxe et al. 2020; Minixhofer et al. 2022, first version, 5.4.1",
    ),
}
"""The possible values of `Training.plan`."""


def plan_stages(training: Training) -> tuple[Stage, ...]:
    """Return the stages of a training, after validating the options; learning rates may still be open.

    Raises:
        InputError: An option has an impossible value.
    """
    check_training(training)
    stages = training.stages or _from_plan(training)
    for stage in stages:
        check_stage(stage)
        if training.lora_rank and stage.optimiser == MUON:
            raise InputError("muon trains whole matrices, and `lora_rank` only adapters: leave out one of the two")
        if training.optimiser_state != FULL_STATE and stage.optimiser == LOOKAHEAD:
            raise InputError(
                f"`optimiser_state={training.optimiser_state}` is not possible with the optimiser {LOOKAHEAD}: leave "
                f"it out, or choose {ADAM} or {MUON}"
            )
    names = [stage.name for stage in stages]
    if len(set(names)) < len(names):
        raise InputError(f"two stages have the same name ({', '.join(names)}): give each one of its own")
    return stages


def count_steps(training: Training) -> int:
    """Return the steps of all stages together, after validating the options; raises what `plan_stages` raises."""
    return sum(stage.steps for stage in plan_stages(training))


def training_identity(training: Training) -> dict[str, Any]:
    """Return the options that the trained parameters depend on, as plain data.

    Omits fields that the stages or the held-out text already determine. How often held-out text is scored counts only
    if the best model is selected.
    """
    options: dict[str, Any] = describe(training)
    in_stages = (
        "steps", "plan", "learning_rate", "embedding_learning_rate", "warmup", "schedule", "final_rate", "optimiser",
    )  # fmt: skip
    for name in (*in_stages, "held_out_bytes"):
        del options[name]
    options["stages"] = describe(plan_stages(training))
    options["evaluate_every"] = training.evaluation_interval if training.selects_best else None
    return options


def _from_plan(training: Training) -> tuple[Stage, ...]:
    plan = PLANS[training.plan]
    least = len(plan.stages)
    if training.steps < least:
        raise InputError(f"`steps={training.steps}` is too few for the plan {training.plan}: give {least} or more")
    ends = [round(training.steps * share) for share in accumulate(planned.share for planned in plan.stages)]
    ends[-1] = training.steps
    final_rate = None
    if training.schedule in DECAYING:
        final_rate = plan.final_rate if training.final_rate is None else training.final_rate
    stages, start = [], 0
    for planned, planned_end in zip(plan.stages, ends, strict=True):
        end = max(planned_end, start + 1)
        warmup = planned.warmup if training.warmup is None else training.warmup
        stages.append(
            Stage(
                planned.name,
                steps=end - start,
                trains=planned.trains,
                learning_rate=training.learning_rate,
                embedding_learning_rate=training.embedding_learning_rate,
                warmup_steps=min(end - start, round(training.steps * warmup)),
                schedule=training.schedule,
                final_rate=final_rate,
                optimiser=training.optimiser or (ADAM if training.lora_rank else plan.optimiser),
            )
        )
        start = end
    return tuple(stages)
