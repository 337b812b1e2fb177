"""`relexify bilingual` and `relexify export`: one model for two languages, and one language out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from relexify.cli import options as shared
from relexify.cli.console import emit
from relexify.cli.options import PLAN, TEXT, apply_settings, existing, named_model, option, split_languages
from relexify.cli.progress import bars
from relexify.cli.summary import print_model_folder, print_summary
from relexify.systems.bilingual.options import RAMEN

__all__ = ["bilingual", "export"]


def bilingual(
    source: Annotated[str, named_model("The model of the source language: a folder or a Hub name.")],
    target: Annotated[str, named_model("The same model in the target language, from relexify transfer.")],
    output: shared.OutputFolder,
    corpus: shared.Corpus,
    source_corpus: Annotated[list[str], option("Text in the source language. Repeatable.", TEXT)],
    held_out: shared.HeldOut = None,
    source_held_out: Annotated[
        list[str] | None,
        option("Held-out text in the source language (default: one line in 100 of --source-corpus).", TEXT),
    ] = None,
    languages: shared.Languages = "source,target",
    steps: shared.Steps = RAMEN.steps,
    batch: Annotated[
        int, typer.Option(help="Sequences per step, half in each language.", rich_help_panel=PLAN)
    ] = RAMEN.batch,
    length: shared.Length = RAMEN.length,
    learning_rate: shared.LearningRate = RAMEN.learning_rate,
    patience: shared.Patience = None,
    seed: shared.Seed = 0,
    overwrite: shared.Overwrite = False,
    settings: shared.Settings = None,
) -> None:
    """Join SOURCE and TARGET into one model with one encoder and two vocabularies, and train both languages (RAMEN).

    Half of every batch is in each language, so that the source language is not forgotten. If interrupted, run the same
    command again to resume.

    Example: relexify bilingual bert-base-cased bert-swahili bert-en-sw --languages en,sw --corpus swahili.txt
    --source-corpus english.txt
    """
    from relexify.training.checks import prepare_training

    options = replace(
        RAMEN,
        steps=steps,
        batch=batch,
        length=length,
        learning_rate=learning_rate,
        patience=patience,
        seed=seed,
    )
    options = apply_settings("bilingual.training", options, settings)
    names, texts = split_languages(languages), ((corpus, held_out), (source_corpus, source_held_out))
    prepare_training(options, output, inputs=(source, target), texts=texts, overwrite=overwrite)
    shared.check_texts(*texts)
    shared.say_loading()
    from relexify.systems.bilingual.training import train_bilingual
    from relexify.training.results.summary import summarise_training

    with bars():
        result = train_bilingual(
            source,
            target,
            output,
            corpus,
            source_corpus,
            options,
            languages=names,
            held_out=held_out or None,
            source_held_out=source_held_out or None,
            overwrite=overwrite,
        )
    print_summary(summarise_training(result))
    print_model_folder(result.output)
    emit(training=result)


def export(
    model: Annotated[Path, existing("A folder written by relexify bilingual, or by trelm with separate vocabularies.")],
    language: Annotated[str, typer.Argument(help="One of its languages.")],
    output: shared.OutputFolder,
    overwrite: shared.Overwrite = False,
) -> None:
    """Write one language of MODEL as an ordinary model with its tokenizer.

    The result of a bilingual model loads without relexify. A TreLM model keeps its TRILayer and loses the vocabulary of
    the other language.

    Example: relexify export bert-en-sw sw bert-sw
    """
    from relexify.pretrained.languages import export_language
    from relexify.storage.files import check_output

    check_output(output, model, overwrite=overwrite)
    export_language(model, language, output, overwrite=overwrite)
    print_model_folder(output)
    emit(output=output)
