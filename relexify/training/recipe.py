"""The tables `[training]` and `[fresh]` of a recipe: train a model on text, and start from random parameters.

What needs torch is imported by the functions, so that a recipe is validated without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from relexify.steps import STEPS, RunContext, Step, StepComparison, StepReport, StepTraining, Variant
from relexify.storage.runs.work import WorkFolder
from relexify.training.options import Training
from relexify.training.plan import plan_stages
from relexify.training.results.result import TrainingResult, load_result
from relexify.training.results.summary import summarise_training

__all__ = ["check_training_step", "run_fresh", "run_training_step", "validate_training"]

_STAGES = "it has [[training.stages]], and the runs of [compare] have plans of their own: leave out one"


def validate_training(options: Training, tables: Mapping[str, Any]) -> None:
    """Validate the options when a recipe is read.

    Raises:
        InputError: An option is impossible.
    """
    plan_stages(options)


def check_training_step(options: Training, context: RunContext) -> None:
    """Validate before any work that the model can be trained as requested.

    Raises:
        InputError: It cannot, or an option is impossible.
    """
    if not any(STEPS[table].reshapes for table in context.tables if table in STEPS):
        from relexify.training.trainable import check_trainable_name

        # The trained model has the same architecture as the source model, which is checked in its place.
        check_trainable_name(context.source_model, options)


def run_training_step(options: Training, context: RunContext, model: str, output: Path) -> TrainingResult:
    """Train the model that the step before wrote."""
    from relexify.training.run import train

    corpus, held_out = context.corpus, context.held_out
    return train(model, output, corpus, options, held_out=held_out, overwrite=context.overwrite)


def run_fresh(changes: Mapping[str, Any], context: RunContext, model: str, output: Path) -> Path:
    """Write an untrained model with a tokenizer and the config of another one.

    Args:
        changes: Fields of the config that are to change.
        context: The run.
        model: The model with the config and the tokenizer.
        output: The folder to write.
    """
    from relexify.pretrained.loading import load_tokenizer
    from relexify.pretrained.parameters.fresh import fresh_model
    from relexify.pretrained.runtime.quiet import save_model
    from relexify.pretrained.tokenizers import save_tokenizer

    seed = context.seed
    identity = {"model": Path(model), "changes": dict(changes), "seed": seed}
    work = WorkFolder(output, "fresh", identity, overwrite=context.overwrite)
    if work.is_finished():
        return output
    work.check()
    made, tokenizer = fresh_model(model, changes, seed=seed), load_tokenizer(model)
    with work.finish({"fresh": {"model": str(model), "changes": dict(changes), "seed": seed}}) as folder:
        save_model(made, folder)
        save_tokenizer(tokenizer, folder)
    return output


def _vary(options: Training, variant: Variant) -> Training:
    # All runs keep their best model, or all keep their last one, whatever their own plan would decide.
    return replace(options, seed=variant.seed, keep_best=options.selects_best)


_FRESH: Step[dict[str, Any], Path] = Step(
    table="fresh",
    options=dict,
    order=20,
    summary="Start from random parameters; the keys are fields of the model's config that are to change.",
    check=lambda options, context: None,
    run=run_fresh,
    conflicts={"transfer": 'a transfer keeps the inner parameters; method = "fullrand" starts without them'},
    reshapes=True,
)

_TRAINING: Step[Training, TrainingResult] = Step(
    table="training",
    options=Training,
    order=40,
    summary="Train the model on the corpus, and score it on held-out text along the way.",
    check=check_training_step,
    run=run_training_step,
    load=load_result,
    validate=validate_training,
    inputs=lambda options: (options.source_corpus, options.source_held_out),
    seed=lambda options: options.seed,
    distributed=True,
    training=StepTraining(
        settings=lambda options: options,
        load=load_result,
        table="training",
        with_plan=lambda options, plan: replace(options, plan=plan),  # type: ignore[arg-type]  # a key of `PLANS`
        with_snapshots=lambda options, snapshots: replace(options, snapshots=snapshots),
    ),
    comparison=StepComparison(vary=_vary, incomparable=lambda options: _STAGES if options.stages else ""),
    report=StepReport(summarise=summarise_training),
)

STEPS.add("fresh", _FRESH)
STEPS.add("training", _TRAINING)
