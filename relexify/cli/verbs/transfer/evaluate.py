"""`relexify evaluate`: score a model on held-out text or on a task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from relexify.cli.console import emit, results
from relexify.cli.options import RUN, TEXT, Device, Model, apply_settings, chosen_device, option, say_loading
from relexify.cli.progress import bars
from relexify.cli.summary import print_rows, print_summary
from relexify.errors import InputError
from relexify.evaluation.registry import TASKS

if TYPE_CHECKING:
    from relexify.evaluation.results import TaskResult
    from relexify.scoring import Score

__all__ = ["evaluate"]

TASK = "Task"


def _list_tasks() -> str:
    """Return the names of all tasks in groups: those of texts, those of words, and the suites."""
    groups: dict[str, list[str]] = {"Texts": [], "words": []}
    for name, task in TASKS.items():
        of_words = task.predicts in ("tags", "trees", "roles")
        groups.setdefault(task.suite or ("words" if of_words else "Texts"), []).append(name)
    return "; ".join(f"{group}: {', '.join(names)}" for group, names in groups.items())


def evaluate(
    model: Model,
    held_out: Annotated[list[str] | None, option("Held-out text to score on. Repeatable.", TEXT)] = None,
    language: Annotated[str | None, option("Language of a model of several languages.")] = None,
    task: Annotated[str | None, option(f"{_list_tasks()}.", TASK)] = None,
    data: Annotated[Path | None, option("A folder with train, dev and test files.", TASK)] = None,
    train: Annotated[list[str] | None, option("Training data, instead of --data. Repeatable.", TASK)] = None,
    dev: Annotated[list[str] | None, option("Data to select the best epoch. Repeatable.", TASK)] = None,
    test: Annotated[list[str] | None, option("Test data; several test sets: --test NAME=FILE for each.", TASK)] = None,
    through: Annotated[
        str | None,
        option("Zero-shot: test with the embeddings of this model, or of this language of a bilingual MODEL.", TASK),
    ] = None,
    probe: Annotated[bool, option("Linear probe on frozen features (nli, pos).", TASK, "--probe")] = False,
    seeds: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of runs, with seeds 0, 1, ….", rich_help_panel=TASK)
    ] = 1,
    output: Annotated[
        Path | None, option("Folder for finished seeds and checkpoints (default: MODEL.TASK).", TASK)
    ] = None,
    keep_encoders: Annotated[
        bool, option("Keep the fine-tuned encoders, to start another task from.", TASK, "--keep-encoders")
    ] = False,
    details: Annotated[bool, option("Show scores per label and the confusion matrix.", RUN, "--details")] = False,
    device: Device = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="On held-out text, set held_out_bytes (how much to score on), length, batch or masking; for a "
            "task, any key of [[tasks]] in a recipe. Repeatable.",
            rich_help_panel=RUN,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Score MODEL on held-out text (bits per byte and perplexity), or fine-tune and score it on a task.

    Bits per byte is comparable across tokenizers, perplexity is not. Tasks are fine-tuned with the papers'
    hyperparameters. If interrupted, run the same command again to resume.

    Example: relexify evaluate smollm2-swahili --held-out held.txt

    Example: relexify evaluate bert-swahili --task ner --data wikiann/sw --seeds 3 --set epochs=5

    Example: relexify evaluate bert-en-sw --language en --task nli --train en.tsv --test sw.tsv --through sw
    """
    if task is None:
        if not held_out:
            raise InputError("nothing to score on: give --held-out FILE, or --task NAME with --data FOLDER")
        given: dict[str, object] = {"--data": data, "--train": train, "--dev": dev, "--test": test}
        given |= {"--through": through, "--probe": probe, "--seeds": seeds != 1, "--output": output}
        given |= {"--keep-encoders": keep_encoders, "--details": details}
        if unused := next((name for name, value in given.items() if value), None):
            raise InputError(f"{unused} is for a task: give --task NAME, or leave it out")
        scores = _score_text(model, held_out, language, device, settings)
        return emit(model=model, scores=scores)
    from relexify.evaluation.data.files import TaskFiles, check_files, find_files
    from relexify.evaluation.options import Evaluation

    if held_out:
        raise InputError(f"--held-out is for language modelling: leave it out, or leave out --task {task}")
    if data is None and not (train and test):
        raise InputError(f"no data for the task {task}: give --data FOLDER, or --train FILE and --test FILE")
    found = TaskFiles(train="", test="") if data is None else find_files(data)
    files = TaskFiles(train or found.train, _test_files(test) if test else found.test, dev or found.dev)
    named = Evaluation(
        task, probe=probe, language=language, through=through, seeds=tuple(range(seeds)), keep_encoders=keep_encoders
    )
    options = apply_settings("tasks", named, settings)
    check_files(files)
    say_loading()
    from relexify.evaluation.evaluate import evaluate_task

    options = replace(options, device=chosen_device(device))
    with bars():
        result = evaluate_task(model, files, options, folder=output or Path(f"{Path(model).name}.{task}"))
    _print_task_result(result, f"{task} probe" if probe else task, details)
    emit(
        model=model,
        task=task,
        mean=result.mean,
        deviation=result.deviation,
        per_seed=result.per_seed,
        search=result.search,
    )


def _score_text(
    model: str, held_out: list[str], language: str | None, device: str, settings: list[str] | None
) -> tuple[Score, ...]:
    """Score a model on held-out text, and print and return the scores."""
    from relexify.evaluation.text import TextScoring, explain_size, score_text
    from relexify.text import Corpus

    options = apply_settings("evaluate", TextScoring(language=language, device=device), settings)
    Corpus.open(held_out).ensure_text()
    options = replace(options, device=chosen_device(options.device))
    from relexify.scoring import format_score

    with bars():
        scores = score_text(model, held_out, options)
    rows = [[score.metric, format_score(score), score.measured_on] for score in scores]
    print_rows("Language modelling (lower is better)", [["metric", "value", "scored on"], *rows])
    windows = f"In windows of at most {options.length:,} tokens, or as many as the model reads (--set length=N)"
    about = [explain_size(held_out, options), f"{windows}: compare only scores of the same text and windows."]
    if any("perplexity" in score.metric for score in scores):
        about.append("Perplexity is per token and cannot be compared between tokenizers; bits per byte can.")
    print_summary(about)
    return scores


def _test_files(given: list[str]) -> str | dict[str, str]:
    """Return a single test file, or several by name."""
    if len(given) == 1 and ("=" not in given[0] or Path(given[0]).exists()):
        return given[0]
    pairs = [each.partition("=")[::2] for each in given]
    if not all(name and file for name, file in pairs) or len(dict(pairs)) < len(pairs):
        raise InputError("several test sets need different names: give --test NAME=FILE for each")
    return dict(pairs)


def _print_task_result(result: TaskResult, title: str, details: bool) -> None:
    rows = [["metric", "value", "std over seeds", "measured on"]]
    for score, deviation in zip(result.mean, result.deviation or [None] * len(result.mean), strict=True):
        rows.append([score.metric, f"{score.value:.4f}", _format_deviation(deviation), score.measured_on])
    print_rows(f"{title} (higher is better)", rows)
    if result.hint:
        print_summary([f"Hint: {result.hint}."])
    if result.tests:
        rows = [["test set", "metric", "value", "std over seeds", "measured on"]]
        for name, part in result.tests.items():
            main, deviation = part.mean[0], None if part.deviation is None else part.deviation[0]
            rows.append([name, main.metric, f"{main.value:.4f}", _format_deviation(deviation), main.measured_on])
        print_rows("By test set", rows)
    if result.search:
        rows = [["learning rate", "batch", "score", ""]]
        for candidate in result.search:
            mark = "chosen" if candidate == result.chosen else ""
            rows.append([f"{candidate.learning_rate:g}", str(candidate.batch), f"{candidate.dev:.4f}", mark])
        print_rows("Search on development data", rows)
    for encoder in result.encoders:
        results.print(f"The fine-tuned encoder is in [bold]{escape(str(encoder))}[/]", soft_wrap=True)
    if details and result.table:
        rows = [["label", "precision", "recall", "F1", "examples"]]
        for row in result.table:
            scores = [f"{score:.3f}" for score in (row.precision, row.recall, row.f1)]
            rows.append([row.label, *scores, f"{row.examples:,}"])
        print_rows("By label", rows)
    if details and result.confusion:
        rows = [["", *result.confusion.labels]]
        for label, numbers in zip(result.confusion.labels, result.confusion.counts, strict=True):
            rows.append([label, *(f"{number:,}" for number in numbers)])
        print_rows("Confusion matrix: gold (rows), predicted (columns)", rows)


def _format_deviation(deviation: float | None) -> str:
    return "" if deviation is None else f"± {deviation:.4f}"
