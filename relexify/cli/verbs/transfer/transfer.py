"""`relexify transfer`: give a model a new language."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from relexify.cli import options as shared
from relexify.cli.console import emit, say_assisting
from relexify.cli.options import METHOD, apply_settings, chosen_device, option
from relexify.cli.progress import bars
from relexify.cli.summary import print_model_folder, print_next_steps, print_plan, print_summary
from relexify.errors import InputError
from relexify.systems.transfer.defaults import DEFAULT_ADDED, DEFAULT_METHOD, DEFAULT_VOCABULARY

__all__ = ["transfer"]


def transfer(
    model: shared.Model,
    output: shared.OutputFolder,
    corpus: shared.Corpus,
    dictionary: shared.Dictionary = None,
    bitext: shared.Bitext = None,
    source_corpus: shared.SourceCorpus = None,
    source_vectors: shared.SourceVectors = None,
    target_vectors: shared.TargetVectors = None,
    tokenizer: shared.TargetTokenizer = None,
    donor: shared.Donor = None,
    held_out: shared.HeldOut = None,
    method: Annotated[
        str, typer.Option(help="Initialisation; see relexify methods.", rich_help_panel=METHOD)
    ] = DEFAULT_METHOD,
    vocab_size: shared.VocabularySize = DEFAULT_VOCABULARY,
    keep_source: Annotated[
        bool,
        option(
            "Add tokens to the model's vocabulary instead of replacing it; needs --source-corpus, which is "
            "encoded as before.",
            METHOD,
            "--keep-source",
        ),
    ] = False,
    added_tokens: Annotated[
        int, typer.Option(help="Number of tokens that --keep-source adds.", rich_help_panel=METHOD)
    ] = DEFAULT_ADDED,
    device: shared.Device = "auto",
    seed: shared.Seed = 0,
    overwrite: shared.Overwrite = False,
    dry_run: shared.DryRun = False,
    settings: shared.Settings = None,
) -> None:
    """Give MODEL a new language and write it to OUTPUT, ready to load and to train.

    Trains a tokenizer on the text, finds the source tokens that each target token is to be mixed from with the evidence
    that is given, and grafts the mixed embeddings onto the unchanged inner parameters. If interrupted, run the same
    command again to resume.

    Example: relexify transfer smollm2-135m smollm2-swahili --corpus swahili.txt --dictionary en-sw.tsv

    Example: relexify transfer gpt2 gpt2-swahili --corpus swahili.txt --method wechsel --set neighbours=20

    Example: relexify transfer gpt2 gpt2-both --corpus swahili.txt --source-corpus english.txt --keep-source
    """
    from relexify.processes import launch
    from relexify.systems.transfer.checks import prepare_transfer
    from relexify.systems.transfer.options import Transfer

    process = launch()
    if process.local_rank:
        return  # one process of each host is enough: it starts others itself
    options = Transfer(
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
        method=method,
        vocab_size=vocab_size,
        keep_source=keep_source,
        added_tokens=added_tokens,
        device=device,
        seed=seed,
        overwrite=overwrite,
    )
    options = apply_settings("transfer", options, settings)
    # Only in this verb: an advice needs the number without --keep-source too, to compare both kinds of vocabulary.
    if options.added_tokens != DEFAULT_ADDED and not options.keep_source:
        raise InputError("--added-tokens is the number of tokens that --keep-source adds: give both, or leave it out")
    evidence = prepare_transfer(options)
    options = replace(options, device=chosen_device(options.device))
    if dry_run:
        from relexify.systems.transfer.dry_run import planned_transfer

        print_plan(planned_transfer(options, evidence))
        return
    from relexify.reports.next_steps import after_transfer
    from relexify.storage.notes import read_notes
    from relexify.systems.transfer.assessment.summary import summarise_transfer
    from relexify.systems.transfer.run import assist_transfer, run_transfer

    if process.rank:  # the first process writes the result
        say_assisting(output)
        assist_transfer(options, evidence)
        return
    with bars():
        result = run_transfer(options, evidence=evidence)
    print_summary(summarise_transfer(result))
    print_model_folder(result.output)
    print_next_steps(after_transfer(result.output, read_notes(result.output)))
    emit(output=result.output, verdict=result.verdict, start=result.start)
