"""Plans: the stages are the papers' own, and impossible options are rejected by name."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_scheduler

from relexify.errors import InputError
from relexify.training.engine.arguments import stage_arguments
from relexify.training.options import Stage, Training
from relexify.training.plan import PLANS, plan_stages


def summary(training: Training) -> list[tuple[str, int, str, int]]:
    return [(stage.name, stage.steps, stage.trains, stage.warmup_steps) for stage in plan_stages(training)]


def test_direct_trains_everything_with_one_warm_up():
    assert summary(Training(steps=1_000, plan="direct")) == [("everything", 1_000, "everything", 100)]


def test_the_own_plan_trains_everything_with_a_shorter_warm_up():
    assert summary(Training(steps=1_000)) == [("everything", 1_000, "everything", 40)]


def test_embeddings_only_never_trains_anything_else():
    assert summary(Training(steps=1_000, plan="embeddings-only")) == [("embeddings", 1_000, "embeddings", 100)]


def test_embeddings_first_warms_up_twice_as_transinner_does():
    # Minixhofer et al. 2022: 250,000 steps, the first 25,000 for the embeddings with a rising rate throughout,
    # then everything, with a warm-up of 10 % of all steps of its own.
    assert summary(Training(steps=250_000, plan="embeddings-first")) == [
        ("embeddings", 25_000, "embeddings", 25_000),
        ("everything", 225_000, "everything", 25_000),
    ]


def test_a_warm_up_of_ones_own_is_a_share_of_all_steps():
    assert summary(Training(steps=1_000, warmup=0.5))[0][-1] == 500
    assert summary(Training(steps=1_000, warmup=0))[0][-1] == 0
    assert summary(Training(steps=100, warmup=0.29))[0][-1] == 29  # 0.29 * 100 is a little less
    assert [stage[-1] for stage in summary(Training(steps=1_000, plan="embeddings-first", warmup=0.05))] == [50, 50]
    assert [stage[-1] for stage in summary(Training(steps=1_000, plan="embeddings-first", warmup=1))] == [100, 900]


@given(plan=st.sampled_from(sorted(PLANS)), steps=st.integers(2, 10_000), warmup=st.floats(0, 1, allow_subnormal=False))
def test_stages_add_up_to_all_steps_and_none_warms_up_longer_than_it_lasts(plan, steps, warmup):
    stages = plan_stages(Training(steps=steps, plan=plan, warmup=warmup))
    assert sum(stage.steps for stage in stages) == steps
    assert all(stage.steps >= 1 for stage in stages)
    assert all(0 <= stage.warmup_steps <= stage.steps for stage in stages)


def test_the_rate_ends_at_the_share_of_the_plan_or_at_that_given():
    assert [stage.final_rate for stage in plan_stages(Training())] == [0.1]
    assert [stage.final_rate for stage in plan_stages(Training(plan="embeddings-first"))] == [0.0, 0.0]
    assert [stage.final_rate for stage in plan_stages(Training(plan="direct", final_rate=0.2))] == [0.2]
    assert [stage.final_rate for stage in plan_stages(Training(schedule="constant"))] == [None]


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_every_group_falls_to_the_same_share_of_its_peak(tmp_path, schedule):
    training = Training(steps=10, schedule=schedule, learning_rate=1e-3, embedding_learning_rate=1e-2)
    (stage,) = plan_stages(training)
    arguments = stage_arguments(stage, training, tmp_path)
    groups = [{"params": [torch.nn.Parameter(torch.zeros(2))], "lr": rate} for rate in (1e-3, 1e-2)]
    optimiser = torch.optim.AdamW(groups, lr=arguments.learning_rate)
    scheduler = get_scheduler(
        arguments.lr_scheduler_type, optimiser, stage.warmup_steps, stage.steps, arguments.lr_scheduler_kwargs
    )
    for _ in range(stage.steps):
        optimiser.step()
        scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([1e-4, 1e-3])


def test_rate_and_schedule_reach_every_stage():
    stages = plan_stages(Training(plan="embeddings-first", learning_rate=3e-3, schedule="cosine"))
    assert [(stage.learning_rate, stage.schedule) for stage in stages] == [(3e-3, "cosine")] * 2


def test_stages_of_ones_own_replace_the_plan():
    stages = (Stage("first", 3, r"\.bias$"), Stage("second", 5))
    assert plan_stages(Training(plan="none such", stages=stages)) == stages


def test_every_plan_names_its_paper():
    assert all(plan.summary and plan.paper for plan in PLANS.values())
    assert all(sum(stage.share for stage in plan.stages) == pytest.approx(1) for plan in PLANS.values())


INVALID = {
    "plan": (
        Training(plan="all"),
        r"`plan=all` is not possible: choose one of relexify, direct, embeddings-first, embeddings-only",
    ),
    "too few steps": (
        Training(steps=1, plan="embeddings-first"),
        r"too few for the plan embeddings-first: give 2",
    ),
    "no steps": (Training(steps=0), r"`steps=0` is not possible: give 1 or more$"),
    "batch": (Training(batch=0), r"`batch=0` is not possible: give 1 or more"),
    "length": (Training(length=-1), r"`length=-1` is not possible"),
    "short length": (Training(length=7), r"`length=7` is too short"),
    "micro batch": (Training(micro_batch=0), r"`micro_batch=0` is not possible"),
    "evaluate": (Training(evaluate_every=0), r"`evaluate_every=0` is not possible"),
    "save": (Training(save_every=0), r"`save_every=0` is not possible"),
    "patience": (Training(patience=0), r"`patience=0` is not possible"),
    "held out": (Training(held_out_bytes=0), r"`held_out_bytes=0` is not possible"),
    "warm-up": (Training(warmup=1.5), r"`warmup=1.5` is not a share: give a number from 0 to 1"),
    "endless warm-up": (Training(warmup=math.inf), r"`warmup=inf` is not a share"),
    "warm-up not a number": (Training(warmup=math.nan), r"`warmup=nan` is not a share"),
    "masking": (Training(masking=-0.1), r"`masking=-0.1` is not a share"),
    "masking not a number": (Training(masking=math.nan), r"`masking=nan` is not a share"),
    "no masking": (Training(masking=0), r"nothing to learn: give a share such as 0.15"),
    "precision": (
        Training(precision="half"),
        r"`precision=half` is not possible: choose one of auto, float32, bfloat16",
    ),
    "parts": (Training(batch=64, micro_batch=24), r"batch of 64 cannot be cut into parts of 24"),
    "average": (Training(average=1.0), r"`average=1.0` is not a decay: give 0 for no average, or a number below 1"),
    "embedding rate": (Training(embedding_learning_rate=0.0), r"`embedding_learning_rate=0.0` is not possible"),
    "unused rate": (
        Training(optimiser="lookahead", embedding_learning_rate=1e-3),
        r"`embedding_learning_rate=0.001` has no effect with the optimiser lookahead.* choose adamw or muon",
    ),
    "optimiser": (Training(optimiser="sgd"), r"`optimiser=sgd` is not possible: choose one of adamw, lookahead, muon"),
    "seed": (Training(seed=-1), r"`seed=-1` is not possible"),
    "rate": (Training(learning_rate=0), r"`learning_rate=0` is not possible: give a number above 0, and at most 1"),
    "rate above 1": (Training(learning_rate=50.0), r"`learning_rate=50.0` is not possible"),
    "endless rate": (Training(learning_rate=math.inf), r"`learning_rate=inf` is not possible"),
    "rate not a number": (Training(learning_rate=math.nan), r"`learning_rate=nan` is not possible"),
    "final rate": (Training(final_rate=1.0), r"`final_rate=1.0` is not a share of the peak"),
    "final rate of a stage": (
        Training(stages=(Stage("one", 4, schedule="constant", final_rate=0.1),)),
        r"`final_rate` has no effect with the schedule constant",
    ),
    "schedule": (
        Training(schedule="sine"),
        r"`schedule=sine` is not possible: choose one of linear, cosine, constant, inverse_",
    ),
    "stage steps": (Training(stages=(Stage("a", 0),)), r"stage 'a' has 0 steps: give 1 or more"),
    "stage warm-up": (Training(stages=(Stage("a", 3, warmup_steps=4),)), r"'a' warms up for 4 of its 3 steps"),
    "expression": (Training(stages=(Stage("a", 3, trains="(wte"),)), r"trains '\(wte', which is neither everything"),
    "names": (Training(stages=(Stage("a", 3), Stage("a", 4))), r"two stages have the same name \(a, a\)"),
}


@pytest.mark.parametrize("case", list(INVALID))
def test_impossible_options_are_rejected_by_name(case):
    training, message = INVALID[case]
    with pytest.raises(InputError, match=message):
        plan_stages(training)


def test_the_best_is_selected_with_patience_or_on_request():
    assert not Training().selects_best
    assert Training(patience=3).selects_best
    assert Training(keep_best=True).selects_best
    assert not Training(patience=3, keep_best=False).selects_best


def test_tokens_per_step_are_those_of_the_whole_batch():
    assert Training(batch=6, length=10, micro_batch=2).tokens_per_step == 60
