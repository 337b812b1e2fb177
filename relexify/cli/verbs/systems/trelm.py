"""`relexify trelm`: move a masked language model to another language in three phases."""

from __future__ import annotations

from typing import Annotated

import typer

from relexify.cli import options as shared
from relexify.cli.console import emit
from relexify.cli.options import TEXT, apply_settings, named_model, option, split_languages
from relexify.cli.progress import bars
from relexify.cli.summary import print_measured, print_model_folder, print_summary
from relexify.systems.trelm.options import Trelm, check_trelm, check_trelm_output

__all__ = ["trelm"]

PHASES = "Phases"


def trelm(
    model: Annotated[
        str,
        named_model(
            "A BERT, RoBERTa, ALBERT or XLM. With joint vocabularies, one that reads both languages, as from relexify "
            "transfer --method trelm."
        ),
    ],
    output: shared.OutputFolder,
    corpus: shared.Corpus,
    source_corpus: shared.SourceCorpus,
    bitext: Annotated[
        list[str] | None,
        option(
            "Parallel text, the source language first: two columns separated by a tab, or two files of equal length as "
            "'news.{en,sw}'. Required unless --until commonality. Repeatable.",
            TEXT,
        ),
    ] = None,
    held_out: shared.HeldOut = None,
    source_held_out: shared.SourceHeldOut = None,
    test_bitext: Annotated[list[str] | None, option("Other sentence pairs, to measure BLEU on.", TEXT)] = None,
    languages: shared.Languages = "source,target",
    vocabularies: Annotated[
        str,
        typer.Option(
            help="joint, or separate: MODEL has the target vocabulary and --source-model the source vocabulary.",
            rich_help_panel=PHASES,
        ),
    ] = Trelm.vocabularies,
    source_model: Annotated[
        str | None,
        option(
            "The model that MODEL was transferred from, for separate vocabularies.",
            PHASES,
            callback=shared.check_model,
        ),
    ] = None,
    objective: Annotated[
        str, typer.Option(help="Objective on sentence pairs: cdlm, tlm or brlm.", rich_help_panel=PHASES)
    ] = Trelm.objective,
    until: Annotated[
        str, typer.Option(help="Last phase: specific or commonality.", rich_help_panel=PHASES)
    ] = Trelm.until,
    seed: shared.Seed = 0,
    overwrite: shared.Overwrite = False,
    settings: shared.Settings = None,
) -> None:
    """Move MODEL to a new language (TreLM) in three phases: both languages, translation both ways, target language.

    Between the halves of the model, the TRILayer re-orders hidden states into the order of the translation. If
    interrupted, run the same command again to resume.

    Example: relexify trelm bert-en-de bert-de --corpus de.txt --source-corpus en.txt --bitext news.tsv

    Example: relexify trelm bert-en-de bert-de --corpus de.txt --source-corpus en.txt --bitext news.tsv
    --set commonality.steps=2000 --set transfer.steps=2000 --set specific.steps=8000
    """
    from dataclasses import replace

    from relexify.storage.runs.work import WorkFolder

    usual = Trelm()
    options = replace(
        usual,
        languages=split_languages(languages),
        source_corpus=source_corpus,
        source_held_out=source_held_out or None,
        bitext=bitext or None,
        test_bitext=test_bitext or None,
        vocabularies=vocabularies,  # type: ignore[arg-type]
        source_model=source_model,
        objective=objective,  # type: ignore[arg-type]
        until=until,  # type: ignore[arg-type]
        commonality=replace(usual.commonality, seed=seed),
        transfer=replace(usual.transfer, seed=seed),
        specific=replace(usual.specific, seed=seed),
        seed=seed,
    )
    options = apply_settings("trelm", options, settings)
    check_trelm(options)
    check_trelm_output(WorkFolder(output, "trelm", overwrite=overwrite), options)
    shared.check_texts((corpus, held_out), (options.source_corpus, options.source_held_out))
    shared.say_loading()
    from relexify.systems.trelm.run import run_trelm
    from relexify.training.results.summary import summarise_training

    with bars():
        result = run_trelm(model, output, corpus, options, held_out=held_out or None, overwrite=overwrite)
    print_summary(summarise_training(result.training))
    print_measured(result.scores)
    print_model_folder(result.training.output)
    emit(training=result.training, scores=result.scores)
