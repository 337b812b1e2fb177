"""`relexify trelm`: take a masked language model over to another language in three phases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from relexify.cli.console import results
from relexify.cli.progress import bars
from relexify.cli.summary import print_curve, print_effort, print_measured
from relexify.systems.trelm.options import COMMONALITY, SPECIFIC, TRANSFER, Trelm

__all__ = ["trelm"]

TEXT, PAIRS, PLAN, RUN = "Text", "Parallel text", "Phases", "Run"


def trelm(
    model: Annotated[str, typer.Argument(help="A BERT, RoBERTa or ALBERT: one vocabulary for both languages.")],
    output: Annotated[Path, typer.Argument(help="The folder to write; the phases lie in OUTPUT.trelm until then.")],
    corpus: Annotated[list[str], typer.Option(help="Text in the new language. Repeatable.", rich_help_panel=TEXT)],
    source_corpus: Annotated[
        list[str], typer.Option(help="Text in the model's language. Repeatable.", rich_help_panel=TEXT)
    ],
    bitext: Annotated[
        list[str] | None,
        typer.Option(
            help="Sentences in the model's language and their translations: two columns, json lines, or a.{en,de}. "
            "Only --until commonality does without.",
            rich_help_panel=PAIRS,
        ),
    ] = None,
    held_out: Annotated[
        list[str] | None, typer.Option(help="To measure on; else one line in 100 of --corpus.", rich_help_panel=TEXT)
    ] = None,
    source_held_out: Annotated[
        list[str] | None, typer.Option(help="Likewise for the model's language.", rich_help_panel=TEXT)
    ] = None,
    source_language: Annotated[str, typer.Option(help="What to call it.", rich_help_panel=TEXT)] = "source",
    target_language: Annotated[str, typer.Option(help="What to call it.", rich_help_panel=TEXT)] = "target",
    alignment: Annotated[
        Path | None,
        typer.Option(help="A ready alignment of --bitext (0-0 1-2 …); else eflomal.", rich_help_panel=PAIRS),
    ] = None,
    test_bitext: Annotated[
        list[str] | None, typer.Option(help="Other pairs, to measure BLEU on.", rich_help_panel=PAIRS)
    ] = None,
    source_words: Annotated[
        str, typer.Option(help="How BLEU cuts the model's language: 13a, char, …", rich_help_panel=PAIRS)
    ] = Trelm.source_words,
    target_words: Annotated[
        str, typer.Option(help="The same of the new language.", rich_help_panel=PAIRS)
    ] = Trelm.target_words,
    vocabularies: Annotated[
        str,
        typer.Option(
            help="joint, or separate: MODEL has the new language's, --source-model its own; no language embeddings.",
            rich_help_panel=PLAN,
        ),
    ] = Trelm.vocabularies,
    source_model: Annotated[
        str | None, typer.Option(help="What MODEL was transferred from, for separate ones.", rich_help_panel=PLAN)
    ] = None,
    objective: Annotated[
        str, typer.Option(help="Learnt from pairs: cdlm, or tlm or brlm in its place.", rich_help_panel=PLAN)
    ] = Trelm.objective,
    trilayer: Annotated[bool, typer.Option(help="Put a layer between the halves.", rich_help_panel=PLAN)] = True,
    until: Annotated[
        str, typer.Option(help="The last phase: specific, or commonality, the first one.", rich_help_panel=PLAN)
    ] = Trelm.until,
    embedding_size: Annotated[
        int | None, typer.Option(help="Fewer columns for the word embeddings.", rich_help_panel=PLAN)
    ] = None,
    commonality_steps: Annotated[
        int, typer.Option(help="Of both languages together.", rich_help_panel=PLAN)
    ] = COMMONALITY.steps,
    transfer_steps: Annotated[int, typer.Option(help="Of each direction.", rich_help_panel=PLAN)] = TRANSFER.steps,
    specific_steps: Annotated[int, typer.Option(help="Of the new language.", rich_help_panel=PLAN)] = SPECIFIC.steps,
    batch: Annotated[int, typer.Option(help="Sequences a step.", rich_help_panel=PLAN)] = COMMONALITY.batch,
    length: Annotated[int, typer.Option(help="Tokens a sequence.", rich_help_panel=PLAN)] = COMMONALITY.length,
    learning_rate: Annotated[
        float | None, typer.Option(help="The peak in every phase; the paper's if not given.", rich_help_panel=PLAN)
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between two measurements; a twentieth by default.", rich_help_panel=RUN)
    ] = None,
    save_every: Annotated[
        int | None, typer.Option(help="Steps between two checkpoints; by default 3 % of the time.", rich_help_panel=RUN)
    ] = None,
    micro_batch: Annotated[
        int | None, typer.Option(help="Sequences a device takes at once, where memory is short.", rich_help_panel=RUN)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of language embeddings, order, masks, dropout.", rich_help_panel=RUN)] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output folder.", rich_help_panel=RUN)
    ] = False,
) -> None:
    """Take MODEL over to a new language as TreLM does: both languages, both directions of translation, the new one.

    Between the halves of the model a layer puts sentences into the order of their translations. Stopped, the same
    command goes on.

    Example: relexify trelm bert-en-de bert-de --corpus de.txt --source-corpus en.txt --bitext news.tsv

    Example: relexify trelm grafted bert-de --vocabularies separate --source-model bert-base-cased --corpus de.txt
    --source-corpus en.txt --bitext news.tsv
    """
    from relexify.systems.trelm.run import run_trelm

    changes: dict[str, Any] = {
        "batch": batch,
        "length": length,
        "evaluate_every": evaluate_every,
        "save_every": save_every,
        "micro_batch": micro_batch,
        "seed": seed,
    } | ({} if learning_rate is None else {"learning_rate": learning_rate})
    options = Trelm(
        languages=(source_language, target_language),
        source_corpus=source_corpus,
        source_held_out=source_held_out or None,
        bitext=bitext or None,
        alignment=alignment,
        test_bitext=test_bitext or None,
        vocabularies=vocabularies,  # type: ignore[arg-type]
        source_model=source_model,
        objective=objective,
        trilayer=trilayer,
        until=until,  # type: ignore[arg-type]
        embedding_size=embedding_size,
        source_words=source_words,
        target_words=target_words,
        commonality=replace(COMMONALITY, steps=commonality_steps, **changes),
        transfer=replace(TRANSFER, steps=transfer_steps, **changes),
        specific=replace(SPECIFIC, steps=specific_steps, **changes),
        seed=seed,
    )
    with bars():
        result = run_trelm(model, output, corpus, options, held_out=held_out or None, overwrite=overwrite)
    print_curve(result.training.curve, result.training.selected)
    print_measured(result.scores)
    print_effort(result.training)
    results.print(f"\nThe model is in [bold]{escape(str(result.training.output))}[/]")
