"""The table `[transfer]` of a recipe: give the model a tokenizer and embeddings of the target language.

What needs torch is imported by the functions, so that a recipe is validated without it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.steps import STEPS, ModelChange, RunContext, Step, StepComparison, StepReport, Variant
from relexify.storage.notes import Notes, recorded_command
from relexify.storage.runs.work import WorkFolder
from relexify.systems.transfer.assessment.summary import (
    alignment_precision,
    summarise_evidence,
    summarise_notes,
    summarise_transfer,
)
from relexify.systems.transfer.checks import check_transfer, transfer_revisions, validate_transfer
from relexify.systems.transfer.options import Transfer, transfer_inputs, with_method, without_evidence

if TYPE_CHECKING:
    from relexify.systems.transfer.run import TransferResult

__all__ = ["run_transfer_step"]


def run_transfer_step(options: Transfer, context: RunContext, model: str, output: Path) -> TransferResult:
    """Transfer a model; a transfer that an earlier run finished is loaded.

    Args:
        options: The table.
        context: The run.
        model: The model to start from.
        output: The folder to write.
    """
    from relexify.systems.transfer.run import load_transfer, run_transfer

    options = _in_run(replace(options, model=model, output=output), context)
    revisions = transfer_revisions(options)
    work = WorkFolder(output, "transfer", {"transfer": options}, revisions=revisions, overwrite=options.overwrite)
    return load_transfer(output) if work.is_finished() else run_transfer(options, work=work)


def _in_run(options: Transfer, context: RunContext) -> Transfer:
    """Return the options with the texts and the device of a run."""
    return replace(
        options,
        corpus=context.corpus,
        held_out=context.held_out,
        device=context.device,
        overwrite=context.overwrite,
    )


def _load(output: Path) -> TransferResult:
    from relexify.systems.transfer.run import load_transfer

    return load_transfer(output)


def _check(options: Transfer, context: RunContext) -> None:
    check_transfer(_in_run(options, context))


def _change(notes: Notes) -> ModelChange | None:
    if pruned := notes.get("pruned"):
        return ModelChange(
            "pruned",
            f"without the {pruned['removed']:,} tokens that a text does not use. relexify removed them and their "
            "embeddings; the text is encoded as before, and the logits of all other tokens are the same.",
        )
    if "graft" not in notes:
        return None
    code = recorded_command(notes).get("language")
    language = f" ({code})" if code else ""
    given = f"gave it a tokenizer of {notes['graft']['tokens']:,} tokens, and embeddings"
    if extension := notes.get("extension"):
        given = f"kept its tokens and their embeddings, and added {extension['added']:,} tokens with embeddings"
    return ModelChange(
        f"transferred with {notes['method']}",
        f"with a new language{language}. relexify {given} initialised with the method {notes['method']}; all other "
        "parameters start as those of the source model.",
    )


def _method_settings(options: Transfer) -> dict[str, bool]:
    from relexify.systems.transfer.prior import has_prior

    return {} if options.unigram_prior is not None else {"unigram_prior": has_prior(options)}


def _vary(options: Transfer, variant: Variant) -> Transfer:
    options = without_evidence(options, variant.without)
    if variant.method is not None:
        # The runs of a comparison are scored when their training starts, and baselines are runs of their own.
        options = replace(with_method(options, variant.method), score=False)
    if variant.aligned_by is not None:
        options = replace(options, aligned_by=variant.aligned_by)
    return replace(options, seed=variant.seed, corpus=variant.corpus, held_out=variant.held_out)


_STEP: Step[Transfer, TransferResult] = Step(
    table="transfer",
    options=Transfer,
    order=10,
    summary="Give the model a tokenizer and embeddings of the target language.",
    check=_check,
    run=run_transfer_step,
    load=_load,
    validate=lambda options, tables: validate_transfer(options),
    inputs=transfer_inputs,
    method=lambda options: options.method,
    seed=lambda options: options.seed,
    comparison=StepComparison(vary=_vary, method_settings=_method_settings, evidence_quality=alignment_precision),
    report=StepReport(
        summarise=summarise_transfer,
        summarise_notes=summarise_notes,
        summarise_evidence=summarise_evidence,
        change=_change,
    ),
)

STEPS.add("transfer", _STEP)
