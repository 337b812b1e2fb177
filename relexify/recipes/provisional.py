"""Steps of systems that do not register them yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.steps import STEPS, RunContext, Step


def _add_transfer() -> None:
    from relexify.evidence.vectors.options import validate_vector_training
    from relexify.systems.transfer.checks import check_recipe, transfer_inputs
    from relexify.systems.transfer.options import Transfer
    from relexify.systems.transfer.run import run_transfer

    def run(options: Transfer, context: RunContext, model: str, output: Path) -> Any:
        last = set(context.tables) == {"transfer"}
        return run_transfer(
            replace(
                options,
                output=output,
                device=context.device,
                overwrite=context.overwrite,
                score=options.score and last,
                corpus=context.corpus,
                held_out=context.held_out,
            )
        )

    STEPS.add(
        "transfer",
        Step(
            table="transfer",
            options=Transfer,
            order=10,
            summary="Give a model the vocabulary of another language.",
            check=lambda options, context: check_recipe(replace(options, output=Path("/nowhere/transfer"))),
            run=run,
            inputs=transfer_inputs,
            validate=lambda options, tables: validate_vector_training(options.vectors),
        ),
    )


def _add_trelm() -> None:
    from relexify.systems.trelm.options import Trelm, check_trelm
    from relexify.systems.trelm.run import check_run, run_trelm, trelm_inputs
    from relexify.training.result import load_result

    def complete(options: Trelm, context: RunContext) -> Trelm:
        if "transfer" in context.tables and options.vocabularies == "separate":
            return replace(options, source_model=options.source_model or context.source_model)
        return options

    def validate(options: Trelm, tables: Mapping[str, Any]) -> None:
        check_trelm(options)
        if options.vocabularies == "separate" and "transfer" in tables and tables["transfer"].method == "trelm":
            raise InputError(
                'method = "trelm" makes one vocabulary for both languages, and [trelm] requests separate ones: choose '
                "a method for a vocabulary of the target language, such as blend, or joint vocabularies"
            )

    def run(options: Trelm, context: RunContext, model: str, output: Path) -> Any:
        options = complete(options, context)
        corpus, held_out = context.corpus, context.held_out
        return run_trelm(model, output, corpus, options, held_out=held_out, overwrite=context.overwrite).training

    STEPS.add(
        "trelm",
        Step(
            table="trelm",
            options=Trelm,
            order=60,
            summary="Move a masked language model to another language (TreLM).",
            check=lambda options, context: check_run(context.source_model, complete(options, context)),
            run=run,
            inputs=trelm_inputs,
            validate=validate,
            load=load_result,
            conflicts={
                "fresh": "TreLM starts from a trained model",
                "compress": "TreLM has embedding_size for fewer columns",
                "training": "its phases are trained as [trelm.commonality] and the others say",
                "bilingual": "these are two ways to the same end",
                "compare": "a comparison trains plain models",
                "tasks": "relexify evaluate --task parse evaluates a model with a TRILayer",
            },
            distributed=True,
        ),
    )


if find_spec("relexify.systems.transfer.recipe") is None:
    _add_transfer()
if find_spec("relexify.systems.trelm.recipe") is None:
    _add_trelm()
