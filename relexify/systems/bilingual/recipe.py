"""The table `[bilingual]` of a recipe: RAMEN's second step, after the target embeddings were trained alone.

What needs torch is imported by the functions, so that a recipe is validated without it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relexify.errors import InputError
from relexify.pretrained.languages import check_languages
from relexify.steps import STEPS, RunContext, Step, StepComparison, StepReport, StepTraining, Variant
from relexify.storage.files import record_file
from relexify.systems.bilingual.options import BilingualOptions
from relexify.text import TextOption
from relexify.training.results.curve import EARLIER_CURVE_FILE, Curve
from relexify.training.results.result import CURVE_FILE, TrainingResult, load_result
from relexify.training.results.summary import summarise_training

__all__ = ["check_bilingual", "run_bilingual"]


def check_bilingual(options: BilingualOptions, context: RunContext) -> None:
    """Validate the options of `[bilingual]` before any work.

    Raises:
        InputError: The run has no transfer or no text in the source language, or the model cannot be trained this way.
    """
    from relexify.pretrained.loading import meta_model
    from relexify.training.trainable import check_halves, check_language_model

    if "transfer" not in context.tables:
        raise InputError("[bilingual] needs [transfer]: add it, or use relexify bilingual")
    _source_corpus(options, context)
    # A transferred model has the shape of its source, so the source shows whether the training fits.
    check_language_model(meta_model(context.source_model), options.training)
    check_halves(options.training, devices=1)


def run_bilingual(options: BilingualOptions, context: RunContext, model: str, output: Path) -> TrainingResult:
    """Join the source model with its transferred copy, and train both languages together.

    Args:
        options: The table.
        context: The run; its corpus is text in the target language.
        model: The model of the target language, which the step before wrote.
        output: The folder for the bilingual model.
    """
    from accelerate import PartialState

    from relexify.systems.bilingual.training import train_bilingual

    source, target = options.languages
    result = train_bilingual(
        context.source_model,
        model,
        output,
        context.corpus,
        _source_corpus(options, context),
        options.training,
        languages=(source, target),
        held_out=context.held_out,
        source_held_out=options.source_held_out,
        overwrite=context.overwrite,
    )
    # The curve of the target language trained alone.
    if "training" in context.tables and PartialState().is_main_process:
        Curve.load(Path(model) / CURVE_FILE).save(record_file(output / EARLIER_CURVE_FILE))
    return result


def _source_corpus(options: BilingualOptions, context: RunContext) -> TextOption:
    text: TextOption | None = options.source_corpus or context.tables["transfer"].source_corpus
    if text is None:
        raise InputError("[bilingual] lacks `source_corpus`, text in the model's language: add it")
    return text


def _vary(options: BilingualOptions, variant: Variant) -> BilingualOptions:
    return replace(options, training=replace(options.training, seed=variant.seed))


def _with_snapshots(options: BilingualOptions, snapshots: tuple[int, ...]) -> BilingualOptions:
    return replace(options, training=replace(options.training, snapshots=snapshots))


_STEP: Step[BilingualOptions, TrainingResult] = Step(
    table="bilingual",
    options=BilingualOptions,
    order=50,
    summary="Join the model with the one it was transferred from, and train both languages together (RAMEN).",
    check=check_bilingual,
    run=run_bilingual,
    load=load_result,
    validate=lambda options, tables: check_languages(options.languages),
    inputs=lambda options: (options.source_corpus, options.source_held_out),
    conflicts={
        "fresh": "the two languages share an encoder that knows the first",
        "compress": "both languages have plain embeddings",
    },
    distributed=True,
    languages=lambda options: options.languages,
    training=StepTraining(
        settings=lambda options: options.training,
        load=load_result,
        table="bilingual.training",
        with_snapshots=_with_snapshots,
    ),
    comparison=StepComparison(vary=_vary),
    report=StepReport(summarise=summarise_training),
)

STEPS.add("bilingual", _STEP)
