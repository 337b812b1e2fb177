"""`relexify evaluate`: what a model is worth, on held-out text or on a task."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from relexify.cli.console import results, table
from relexify.cli.device import chosen_device
from relexify.cli.progress import bars
from relexify.errors import InputError

__all__ = ["evaluate"]

TEXT, TASK = "Held-out text", "Task"
LANGUAGE_MODELLING = "lm"


def evaluate(
    model: Annotated[str, typer.Argument(help="A model folder, a Hub name, or smollm2-135m.")],
    held_out: Annotated[
        list[str] | None,
        typer.Option(help="Text: .txt, .gz, .xz, .jsonl, …, or hf:NAME. Repeatable.", rich_help_panel=TEXT),
    ] = None,
    language: Annotated[str | None, typer.Option(help="Of a bilingual MODEL: which language.")] = None,
    limit: Annotated[int, typer.Option(help="Measure on so many bytes of it.", rich_help_panel=TEXT)] = 400_000,
    length: Annotated[int, typer.Option(help="Tokens the model sees at once.", rich_help_panel=TEXT)] = 512,
    one_at_a_time: Annotated[
        bool,
        typer.Option(
            "--one-at-a-time",
            help="Of a masked language model, mask one token alone: the exact pseudo-perplexity, many times slower.",
            rich_help_panel=TEXT,
        ),
    ] = False,
    whole_words: Annotated[
        bool,
        typer.Option(
            "--whole-words",
            help="Of a masked language model, mask whole words: compares vocabularies. Takes several times as long.",
            rich_help_panel=TEXT,
        ),
    ] = False,
    task: Annotated[
        str,
        typer.Option(help="lm (held-out text), nli, ner, pos, parse, or one of GLUE's.", rich_help_panel=TASK),
    ] = LANGUAGE_MODELLING,
    data: Annotated[
        Path | None, typer.Option(help="A folder with train, dev and test files.", rich_help_panel=TASK)
    ] = None,
    train: Annotated[str | None, typer.Option(help="To learn from; or use --data.", rich_help_panel=TASK)] = None,
    dev: Annotated[str | None, typer.Option(help="To choose the best epoch by.", rich_help_panel=TASK)] = None,
    test: Annotated[str | None, typer.Option(help="To measure on.", rich_help_panel=TASK)] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="For finished seeds and checkpoints; MODEL.TASK if not given.", rich_help_panel=TASK),
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="A linear probe on frozen hidden states (nli, pos).", rich_help_panel=TASK)
    ] = False,
    through: Annotated[
        str | None,
        typer.Option(
            help="Test through the embeddings of this model, or of this language of a bilingual MODEL: zero-shot.",
            rich_help_panel=TASK,
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="The papers' if not given.", rich_help_panel=TASK)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Likewise.", rich_help_panel=TASK)] = None,
    score_learning_rate: Annotated[
        float | None,
        typer.Option(help="Of parse: the rate of what stands on the encoder, such as 1e-3.", rich_help_panel=TASK),
    ] = None,
    examples: Annotated[
        int | None, typer.Option(help="Learn from so many, at even distances; else from all.", rich_help_panel=TASK)
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs with seeds 0, 1, …", rich_help_panel=TASK)] = 1,
    labels: Annotated[bool, typer.Option("--labels", help="Show every label.", rich_help_panel=TASK)] = False,
    confusion: Annotated[
        bool, typer.Option("--confusion", help="Show what was taken for what.", rich_help_panel=TASK)
    ] = False,
    batch: Annotated[int | None, typer.Option(help="Windows, or examples, at a time.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
) -> None:
    """Measure MODEL on held-out text (bits per byte and perplexity), or on a task after fine-tuning it.

    Bits per byte can be compared across tokenizers, perplexity cannot. Tasks are fine-tuned with the papers'
    hyperparameters; finished seeds are kept, and the same command goes on.

    Example: relexify evaluate smollm2-swahili --held-out held.txt

    Example: relexify evaluate bert-swahili --task ner --data wikiann/sw --seeds 3

    Example: relexify evaluate bert-en-sw --language en --task nli --train en.tsv --test sw.tsv --through sw
    """
    if task == LANGUAGE_MODELLING:
        if not held_out:
            raise InputError("no text to measure on: give --held-out FILE, or a --task with --data FOLDER")
        if limit < 1 or length < 2 or (batch is not None and batch < 1):
            raise InputError("--limit and --batch must be 1 or more, --length 2 or more")
        if one_at_a_time and whole_words:
            raise InputError("--one-at-a-time and --whole-words mask differently: choose one")
        where = chosen_device(device)
        if whole_words:
            _whole_words(model, language, held_out, limit, length, batch or 8, where)
        else:
            _language_modelling(model, language, held_out, limit, length, batch or 8, one_at_a_time, where)
        return
    if held_out or one_at_a_time or whole_words:
        raise InputError(
            "--held-out, --one-at-a-time and --whole-words are for language modelling: "
            f"leave them out, or --task {task}"
        )
    from relexify.evaluation.data.files import TaskFiles, find_files
    from relexify.evaluation.evaluate import evaluate_task
    from relexify.evaluation.options import Evaluation

    if data is None and not (train and test):
        raise InputError(f"no data for the task {task}: give --data FOLDER, or --train FILE and --test FILE")
    found = find_files(data) if data is not None else TaskFiles(train or "", test or "", dev)
    files = TaskFiles(train or found.train, test or found.test, dev or found.dev)
    options = Evaluation(
        task,
        probe=probe,
        language=language,
        through=through,
        epochs=epochs,
        batch=batch,
        learning_rate=learning_rate,
        score_learning_rate=score_learning_rate,
        examples=examples,
        seeds=tuple(range(seeds)),
        device=chosen_device(device),
    )
    folder = output or Path(f"{Path(model).name}.{task}")
    with bars():
        result = evaluate_task(model, files, options, folder=folder)
    _show(result, f"{task}{' probe' if probe else ''}", labels, confusion)


def _language_modelling(
    model: str,
    language: str | None,
    held_out: list[str],
    limit: int,
    length: int,
    batch: int,
    one_at_a_time: bool,
    device: str,
) -> None:
    from relexify.pretrained.languages import load_for_language
    from relexify.scoring import language_model_scores
    from relexify.scoring.windows import MASK_STRIDE
    from relexify.text import Corpus

    text = Corpus.open(held_out).sample_bytes(limit)
    speaker, tokenizer = load_for_language(model, language)
    with bars():
        scores = language_model_scores(
            speaker.to(device),
            tokenizer,
            text.split("\n"),
            window=length,
            batch=batch,
            mask_stride=None if one_at_a_time else MASK_STRIDE,
        )
    _show_text(zip(scores, ("bytes", "tokens"), strict=True))


def _whole_words(
    model: str, language: str | None, held_out: list[str], limit: int, length: int, batch: int, device: str
) -> None:
    from relexify.pretrained.languages import load_for_language
    from relexify.scoring import bits_per_byte_of_words
    from relexify.text import Corpus

    text = Corpus.open(held_out).sample_bytes(limit)
    speaker, tokenizer = load_for_language(model, language)
    with bars():
        score = bits_per_byte_of_words(speaker.to(device), tokenizer, text.split("\n"), window=length, batch=batch)
    _show_text([(score, "bytes")])


def _show_text(scores: Iterable[tuple[Any, str]]) -> None:
    shown = table("Language modelling (lower is better)", "measure", "value", "measured on")
    for score, unit in scores:
        shown.add_row(score.metric, f"{score.value:.4f}", f"{score.examples:,} {unit}")
    results.print(shown)


def _show(result: Any, title: str, labels: bool, confusion: bool) -> None:
    """The scores, and on request each label and what was taken for what."""
    shown = table(f"{title} (higher is better)", "measure", "value", "deviation", "measured on")
    deviations = result.deviation or [None] * len(result.mean)
    for score, deviation in zip(result.mean, deviations, strict=True):
        spread = "" if deviation is None else f"± {deviation:.4f}"
        shown.add_row(escape(score.metric), f"{score.value:.4f}", spread, f"{score.examples:,}")
    results.print(shown)
    if labels and result.table:
        rows = table("By label", "label", "precision", "recall", "F1", "examples")
        for row in result.table:
            rows.add_row(
                escape(row.label), f"{row.precision:.3f}", f"{row.recall:.3f}", f"{row.f1:.3f}", f"{row.examples:,}"
            )
        results.print(rows)
    if confusion and result.confusion:
        counts = table("Gold (rows), predicted (columns)", "", *result.confusion.labels)
        for label, row in zip(result.confusion.labels, result.confusion.counts, strict=True):
            counts.add_row(escape(label), *(f"{count:,}" for count in row))
        results.print(counts)
