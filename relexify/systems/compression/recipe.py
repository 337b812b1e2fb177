"""The table `[compress]` of a recipe: compress the embedding of a model before it is trained.

The functions import the modules that need torch, so that a recipe can be validated without torch.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.errors import InputError
from relexify.steps import STEPS, ModelChange, RunContext, Step, StepComparison, StepReport
from relexify.storage.notes import Notes
from relexify.systems.compression.options import Compression, check_values

if TYPE_CHECKING:
    from relexify.systems.compression.compress import CompressionReport

__all__ = ["check_compress", "run_compress"]


def check_compress(options: Compression, context: RunContext) -> None:
    """Validate the options of `[compress]` before any work.

    Raises:
        InputError: The compressed model would not be trained.
    """
    if "training" not in context.tables:
        raise InputError("[compress] needs [training]: add it, or use relexify compress")


def run_compress(options: Compression, context: RunContext, model: str, output: Path) -> CompressionReport:
    """Compress the model that the previous step wrote."""
    from relexify.systems.compression.folder import compress_folder

    return compress_folder(model, output, options, overwrite=context.overwrite)


def _change(notes: Notes) -> ModelChange | None:
    if "expanded_from" in notes:
        text = "with an ordinary embedding. relexify expanded its compressed one; the logits are the same."
        return ModelChange("expanded", text)
    report = notes.get("compression")
    if report is None:
        return None
    error = f", with a relative error of {report['error']:.2g}" if report["error"] is not None else ""
    return ModelChange(
        "compressed",
        f"with a compressed embedding. relexify replaced its {report['embedding_before']:,} parameters by "
        f"{report['embedding_after']:,}{error}.",
    )


_STEP: Step[Compression, CompressionReport] = Step(
    table="compress",
    options=Compression,
    order=30,
    summary="Compress the embedding into small tables that tokens share (k-sub-embeddings).",
    check=check_compress,
    run=run_compress,
    validate=lambda options, tables: check_values(options),
    inputs=lambda options: (options.codes_from,),
    seed=lambda options: options.seed,
    reshapes=True,
    comparison=StepComparison(vary=lambda options, variant: replace(options, seed=variant.seed)),
    report=StepReport(change=_change),
)

STEPS.add("compress", _STEP)
