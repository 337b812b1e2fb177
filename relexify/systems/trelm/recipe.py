"""The table `[trelm]` of a recipe: the phases of TreLM, on the model as it is or after `[transfer]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.scoring import Score
from relexify.steps import (
    STEPS,
    ModelChange,
    RunContext,
    Step,
    StepComparison,
    StepReport,
    StepTraining,
    Variant,
    methods_of,
)
from relexify.storage.notes import Notes, read_as
from relexify.systems.trelm.options import Trelm, check_trelm, trelm_inputs
from relexify.training.results.result import TrainingResult, load_result
from relexify.training.results.summary import summarise_training

__all__ = ["check_trelm_step", "run_trelm_step", "validate_trelm"]


def validate_trelm(options: Trelm, tables: Mapping[str, Any]) -> None:
    """Validate the options of `[trelm]` when a recipe is read.

    Raises:
        InputError: A text is missing, an option is impossible, or `[transfer]` gives another kind of vocabulary.
    """
    check_trelm(options)
    if options.vocabularies == "separate" and "trelm" in methods_of(tables).values():
        raise InputError(
            'method = "trelm" makes one vocabulary for both languages, and [trelm] has vocabularies = "separate": '
            "choose a method for a vocabulary of the target language, such as blend, or joint vocabularies"
        )


def check_trelm_step(options: Trelm, context: RunContext) -> None:
    """Validate, before any work, that the texts can be read and that all phases can train the model.

    Raises:
        InputError: They cannot.
        GraftError: A TRILayer cannot be put into the model.
        MissingExtra: A package is needed to align, or to score translations.
    """
    from relexify.systems.trelm.run import check_run

    # A transferred model has the shape of its source, so the source shows whether the phases fit.
    check_run(context.source_model, _with_source_model(options, context))


def run_trelm_step(options: Trelm, context: RunContext, model: str, output: Path) -> TrainingResult:
    """Run the phases on the model that the step before wrote; return the result of the last one."""
    from relexify.systems.trelm.run import run_trelm

    options = _with_source_model(options, context)
    result = run_trelm(model, output, context.corpus, options, held_out=context.held_out, overwrite=context.overwrite)
    return result.training


def _with_source_model(options: Trelm, context: RunContext) -> Trelm:
    """Return the options with the model that `[transfer]` starts from, if the vocabularies are separate."""
    if "transfer" not in context.tables or options.vocabularies != "separate":
        return options
    return replace(options, source_model=options.source_model or context.source_model)


def _vary(options: Trelm, variant: Variant) -> Trelm:
    """Return the options with the seed of a run in all phases.

    Whether the best model is kept follows from other options; here it is fixed, so that all runs of a comparison agree.
    """
    phases = {
        name: replace(getattr(options, name), seed=variant.seed, keep_best=getattr(options, name).selects_best)
        for name in ("commonality", "transfer", "specific")
    }
    return replace(options, seed=variant.seed, **phases)


def _change(notes: Notes) -> ModelChange | None:
    found = notes.get("trelm")
    if found is None:
        return None
    scores = [read_as(Score, each) for each in (*found["phases"], *found["translation"])]
    return ModelChange("transferred with TreLM", scores=scores)


def _read_scores(output: Path) -> Sequence[Score]:
    from relexify.systems.trelm.scores import trelm_scores

    return trelm_scores(output)


_STEP: Step[Trelm, TrainingResult] = Step(
    table="trelm",
    options=Trelm,
    order=60,
    summary="Transfer a masked language model to another language in three phases, with parallel text (TreLM).",
    check=check_trelm_step,
    run=run_trelm_step,
    load=load_result,
    validate=validate_trelm,
    inputs=trelm_inputs,
    seed=lambda options: options.seed,
    conflicts={
        "fresh": "TreLM starts from a pretrained model",
        "compress": "TreLM has embedding_size for fewer columns",
        "training": "its phases are trained as [trelm.commonality], [trelm.transfer] and [trelm.specific] say",
        "bilingual": "these are two ways to the same end",
        "tasks": "relexify evaluate --task parse scores a model with a TRILayer",
    },
    distributed=True,
    languages=lambda options: options.languages,
    training=StepTraining(
        settings=lambda options: options.specific if options.until == "specific" else options.commonality,
        load=load_result,
    ),
    comparison=StepComparison(vary=_vary),
    report=StepReport(summarise=summarise_training, change=_change, scores=_read_scores),
)

STEPS.add("trelm", _STEP)
