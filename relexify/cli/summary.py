"""Print results of a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from relexify.cli.console import emit, print_table, results, table
from relexify.steps import ResultTable

if TYPE_CHECKING:
    import typer

    from relexify.scoring import Score
    from relexify.text import TextInput
    from relexify.training.result import TrainingResult

__all__ = [
    "print_after_training",
    "print_measured",
    "print_model_folder",
    "print_next_training",
    "print_plan",
    "print_rows",
    "print_summary",
]


def print_summary(summary: Iterable[ResultTable | str]) -> None:
    """Print the tables and sentences that a step summarises its result with."""
    for part in summary:
        if isinstance(part, ResultTable):
            print_rows(part.title, part.rows)
        else:
            results.print(escape(part), highlight=False, soft_wrap=not results.is_terminal)


def print_measured(scores: Iterable[Score]) -> None:
    """Print scores, one per line."""
    from relexify.scoring import format_score

    rows = [["task", "metric", "value", "measured on"]]
    for score in scores:
        arrow = "↑" if score.higher_is_better else "↓"
        rows.append([score.task, f"{score.metric} {arrow}", format_score(score), score.measured_on])
    print_rows("Scores", rows)


def print_rows(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text as a table, the header first; cells between two `**` are bold."""
    header, *body = rows
    shown = table(title, *header)
    for row in body:
        shown.add_row(*map(_cell, row))
    print_table(shown)


def print_model_folder(output: Path) -> None:
    """Print where the model is, and its report."""
    report = output / "report.html"
    described = f", its report is [bold]{escape(str(report))}[/]" if report.is_file() else ""
    results.print(f"\nThe model is in [bold]{escape(str(output))}[/]{described}", soft_wrap=True)


def print_plan(rows: Sequence[tuple[str, object]]) -> None:
    """Print what a command would do."""
    shown = table("Dry run: everything is valid", "", "what would be done")
    shown.columns[1].justify = "left"
    for name, value in rows:
        shown.add_row(escape(name), escape(str(value)))
    print_table(shown)
    emit(plan=dict(rows))


def print_next_training(
    model: Path,
    corpus: TextInput,
    held_out: TextInput | None,
    *,
    is_poor: bool,
    device: str,
    source_corpus: TextInput | None = None,
) -> None:
    """Print the commands that usually follow a transfer on a device; other arguments as for `after_transfer`."""
    from relexify.pretrained.architecture import usable_length
    from relexify.pretrained.loading import meta_model
    from relexify.reports.next_steps import after_transfer

    title, commands = after_transfer(
        model,
        corpus,
        held_out,
        is_poor=is_poor,
        longest=usable_length(meta_model(model)),
        source_corpus=source_corpus,
        on_cpu=device.startswith("cpu"),
    )
    _print_commands(title, commands)


def print_after_training(
    context: typer.Context,
    result: TrainingResult,
    held_out: TextInput | None,
    *,
    table: str = "training",
    languages: Sequence[str] = (),
) -> None:
    """Print the commands that usually follow a training, ready to be pasted.

    Args:
        context: Of the command that trained.
        result: The training.
        held_out: Its held-out text; None if it is a part of the corpus.
        table: The recipe table with the keys of the training.
        languages: Of the model, if it has several; the last one is the target language.
    """
    from relexify.reports.next_steps import repeated_option
    from relexify.storage.work import read_notes
    from relexify.training.summary import judge_training

    def again(suffix: object, **changes: object) -> list[str]:
        return [_changed_command(context, table, output=Path(f"{result.output}-{suffix}"), **changes)]

    outcome, notes = judge_training(result.curve, result.selected).outcome, read_notes(result.output)["training"]
    if outcome in ("improving", "overfitted"):
        advice, steps = "train it for longer", 4 * result.curve.last.step
        if outcome == "overfitted":
            advice, steps = "train it on more text, or for fewer steps", result.curve.best.step
        if notes["stages"]:
            _print_commands(f"Next, {advice}: change the steps of its stages.", [])
        elif any(step >= steps for step in notes["snapshots"]):
            _print_commands(f"Next, {advice}: leave out the snapshots from step {steps:,} on.", [])
        else:
            _print_commands(f"Next, {advice}:", again(steps, steps=steps))
    elif outcome == "worse" and notes["learning_rate"]:
        rate = f"{notes['learning_rate'] / 4:.1e}"
        _print_commands("Next, train it with a lower learning rate:", again("slower", learning_rate=rate))
    elif languages:
        exporting = ["relexify", "export", str(result.output), languages[-1], f"{result.output}-{languages[-1]}"]
        _print_commands("Next, write its target language as a model of its own:", [shlex.join(exporting)])
    elif held_out:
        scoring = ["relexify", "evaluate", str(result.output), *repeated_option("--held-out", held_out)]
        _print_commands("Next, score it on all of the held-out text:", [shlex.join(scoring)])
    else:
        commands = [shlex.join(["relexify", verb, str(result.output)]) for verb in ("inspect", "check")]
        _print_commands("Next, inspect some tokens, or check that it is intact:", commands)


def _print_commands(title: str, commands: Sequence[str]) -> None:
    results.print(title, highlight=False, soft_wrap=True)
    for command in commands:
        results.print(f"  {command}", highlight=False, markup=False, soft_wrap=True)


def _changed_command(context: typer.Context, table: str, **changes: object) -> str:
    """Return a command as it was given, with other values for some parameters, or for the keys of a recipe table."""
    from relexify.reports.next_steps import repeated_option

    words, parameters = ["relexify", str(context.info_name)], context.command.params
    keys = {name: name if name == "output" else f"{table}.{name}" for name in changes}
    options = {parameter.name for parameter in parameters}
    for parameter in parameters:
        name = str(parameter.name)
        value = changes.get(name, context.params.get(name))
        source = context.get_parameter_source(name)
        if name == "settings":  # they win over options
            kept = [
                text
                for text in context.params[name] or ()
                if text.partition("=")[0].strip() not in {*keys, *keys.values()}
            ]
            changed = [f"{keys[change]}={changes[change]}" for change in changes if change not in options]
            words += repeated_option(parameter.opts[0], [*kept, *changed])
        elif parameter.param_type_name == "argument":
            words.append(str(value))
        elif name in changes or (source is not None and source.name == "COMMANDLINE"):
            words += [parameter.opts[0]] if value is True else repeated_option(parameter.opts[0], value)
    return shlex.join(words)


def _cell(text: str) -> str:
    if text.startswith("**"):
        return f"[bold]{escape(text.strip('*'))}[/]"
    return escape(text)
