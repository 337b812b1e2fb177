"""`relexify advise`: which initialisation to use, and which evidence to acquire."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from relexify.cli import options as shared
from relexify.cli.console import emit
from relexify.cli.options import METHOD, RUN, apply_settings, chosen_device, option
from relexify.cli.progress import bars
from relexify.cli.summary import print_commands, print_plan, print_summary
from relexify.systems.transfer.defaults import (
    ADVICE_BATCH,
    ADVICE_BYTES,
    ADVICE_LENGTH,
    ADVICE_STEPS,
    DEFAULT_VOCABULARY,
)

__all__ = ["advise"]


def advise(
    model: shared.Model,
    corpus: shared.Corpus,
    dictionary: shared.Dictionary = None,
    bitext: shared.Bitext = None,
    source_corpus: shared.SourceCorpus = None,
    source_vectors: shared.SourceVectors = None,
    target_vectors: shared.TargetVectors = None,
    tokenizer: shared.TargetTokenizer = None,
    donor: shared.Donor = None,
    held_out: shared.HeldOut = None,
    methods: Annotated[
        list[str] | None,
        option(
            "Try this initialisation; repeat for more (default: all that the evidence suffices for). To compare with, "
            "random rows are trained too, and, beside blend, blend without the dictionary and the parallel text.",
            METHOD,
            "--method",
        ),
    ] = None,
    vocab_size: shared.VocabularySize = DEFAULT_VOCABULARY,
    steps: shared.Steps = ADVICE_STEPS,
    batch: shared.Batch = ADVICE_BATCH,
    length: shared.Length = ADVICE_LENGTH,
    text_bytes: Annotated[int, typer.Option(help="Bytes of the text to use.", rich_help_panel=RUN)] = ADVICE_BYTES,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for the trials.", rich_help_panel=RUN)
    ] = Path("advice"),
    device: shared.Device = "auto",
    seed: shared.Seed = 0,
    overwrite: shared.Overwrite = False,
    dry_run: shared.DryRun = False,
    settings: shared.Settings = None,
) -> None:
    """Rank the initialisations for MODEL, a text and its evidence, and say which evidence is worth acquiring.

    Measures the evidence and trains every applicable method for some steps on a part of the text. If interrupted, run
    the same command again to resume. With --steps 0 nothing is trained: held-out words of the dictionary rank the
    methods.

    Example: relexify advise smollm2-135m --corpus swahili.txt --dictionary en-sw.tsv

    Example: relexify advise gpt2 --corpus swahili.txt --bitext en-sw.tsv --steps 100 --batch 64 --length 512
    """
    from relexify.recipes.advise.options import Advise, planned_runs
    from relexify.systems.transfer.checks import check_replaced, check_transfer
    from relexify.systems.transfer.options import Transfer

    transfer = Transfer(
        model=model,
        output=output,
        corpus=corpus,
        dictionary=dictionary,
        bitext=bitext or None,
        source_corpus=source_corpus or None,
        source_vectors=source_vectors,
        target_vectors=target_vectors,
        tokenizer=tokenizer,
        donor=donor,
        held_out=held_out or None,
        vocab_size=vocab_size,
        device=device,
        seed=seed,
        overwrite=overwrite,
    )
    options = Advise(
        apply_settings("transfer", transfer, settings),
        methods=tuple(methods or ()),
        steps=steps,
        batch=batch,
        length=length,
        text_bytes=text_bytes,
    )
    check_replaced(options.transfer)
    check_transfer(options.transfer, report_unused=False)
    planned_runs(options)
    shared.say_loading()
    if dry_run:
        from relexify.recipes.advise.dry_run import planned_advice

        print_plan(planned_advice(options))
        return
    from relexify.recipes.advise.run import run_advise
    from relexify.recipes.advise.summary import summarise_advice, transfer_command

    transfer = replace(options.transfer, device=chosen_device(options.transfer.device))
    with bars():
        advice = run_advise(replace(options, transfer=transfer))
    command = shlex.join(transfer_command(advice))
    print_summary(summarise_advice(advice))
    if advice.report is not None:
        print_summary([f"\nThe trainings are in {transfer.output}, their curves in {advice.report / 'report.html'}"])
    print_commands("\nThe command to run:", [command])
    emit(advice=advice, best=advice.best, command=command)
