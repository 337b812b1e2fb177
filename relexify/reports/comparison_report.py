"""The report of a comparison: a folder with numbers, tables and figures."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from relexify.errors import MissingExtra
from relexify.markdown import markdown_table, plain_text
from relexify.reports.comparison import Comparison
from relexify.reports.conclusions import conclude
from relexify.reports.html.comparison import render_comparison
from relexify.reports.html.page import REPORT
from relexify.reports.plots import plot_curves, plot_tasks
from relexify.reports.tables import (
    effort_note,
    effort_rows,
    reach_note,
    reach_rows,
    score_note,
    score_rows,
    stage_rows,
    task_rows,
)
from relexify.reports.task_scores import mean_scores, moments_of, task_notes
from relexify.storage.files import write_file

__all__ = ["write_report"]

logger = logging.getLogger(__name__)


def write_report(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write `comparison.json`, `comparison.md`, `report.html` and, where matplotlib is installed, `curves.svg`.

    `tasks.svg` is drawn too, if models were evaluated on tasks during training.

    Args:
        comparison: The runs.
        folder: The folder to write; an older report in it is replaced.

    Returns:
        The files that were written.

    Raises:
        OutputError: The folder cannot be written.
    """
    folder = Path(folder)
    written = [comparison.save(folder / "comparison.json")]
    pictures = []
    try:
        pictures.append(plot_curves([comparison], folder / "curves.svg"))
        if len(moments_of(chain.from_iterable(comparison.tasks.values()))) > 2:
            pictures.append(plot_tasks(comparison, folder / "tasks.svg"))
    except MissingExtra as error:
        logger.warning("%s is not drawn: %s.", folder / "curves.svg", error)
    written.append(write_file(folder / "comparison.md", _render_markdown(comparison, *pictures)))
    written.append(write_file(folder / REPORT, render_comparison(comparison)))
    return [*written, *pictures]


def _render_markdown(comparison: Comparison, picture: Path | None = None, task_picture: Path | None = None) -> str:
    notes = [f"- {plain_text(name)}: {plain_text(_plain(value))}\n" for name, value in comparison.notes.items()]
    parts = [f"# {plain_text(comparison.title)}\n", "".join([*notes, f"- tokens per step: {comparison.step_size}\n"])]
    if picture is not None:
        parts.append(f"![bits per byte against steps]({picture.name})\n")
    parts += ["## Scores\n", f"{score_note(comparison)}\n", *_remarks_on_steps(comparison)]
    parts.append(_render_table(score_rows(comparison)))
    if len(comparison.curves) > 1:
        parts += [f"{conclusion.text}\n" for conclusion in conclude(comparison)]
    if comparison.languages and comparison.earlier:
        parts += [
            "## Both languages, by stage\n",
            "Bits per byte of each language: as initialised, when the new embeddings were trained alone, and in the "
            "end, when both languages were trained together.\n",
            _render_table(stage_rows(comparison)),
        ]
    if comparison.tasks:
        parts += _render_tasks(comparison, task_picture)
    if len(comparison.curves) > 1:
        parts += [
            f"## Steps to reach another run's {'best' if comparison.keeps_best else 'end'}\n",
            f"{reach_note(comparison)}\n",
            _render_table(reach_rows(comparison)),
            "## Training effort\n",
            f"{effort_note(comparison)}\n",
            _render_table(effort_rows(comparison)),
        ]
    return "\n".join(parts)


def _remarks_on_steps(comparison: Comparison) -> list[str]:
    """Return remarks on runs whose seeds ended, or were at their best, at different steps."""
    remarks = []
    for run, seeds in comparison.curves.items():
        ends = sorted({curve.last.step for curve in seeds})
        if len(ends) > 1:  # what follows the last shared step is left out
            remarks.append(
                f"The seeds of {run} ended at the steps {_list_steps(ends)}; its end here is step "
                f"{comparison.mean_curve(run).last.step:,}, the last that all of them have.\n"
            )
    if comparison.keeps_best:
        remarks.append("Each seed keeps the model with its best score, and has the results of this model.\n")
        for run, seeds in comparison.curves.items():
            best = [curve.best.step for curve in seeds]
            if len(set(best)) > 1:
                remarks.append(f"The seeds of {run} are at their best at the steps {_list_steps(best)}.\n")
    return remarks


def _render_tasks(comparison: Comparison, picture: Path | None) -> list[str]:
    means = [mean for found in comparison.tasks.values() for mean in mean_scores(found).values()]
    several = any(mean.statistic.seeds > 1 for mean in means)
    seeds = "; mean ± sample standard deviation over all seeds of training and fine-tuning" if several else ""
    moments = moments_of(chain.from_iterable(comparison.tasks.values()))
    times = ["before training (step 0)"] if 0 in moments else []
    times += ["during it"] if any(moments[:-1]) else []
    times += ["after it (end)"] if None in moments else []
    parts = [
        "## Tasks\n",
        f"Each run {', '.join(times)}; the arrow points to where scores are better, the best of a row is "
        f"bold{seeds}.\n",
    ]
    if picture is not None:
        parts.append(f"![scores on tasks against steps]({picture.name})\n")
    parts.append(_render_table(task_rows(comparison)))
    notes = [f"- {run}, {note}\n" for run, found in comparison.tasks.items() for note in task_notes(found)]
    return [*parts, "".join(notes)] if notes else parts


def _list_steps(steps: Sequence[int]) -> str:
    return ", ".join(f"{step:,}" for step in steps)


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_plain(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value))
    return " ".join(str(value).split())


def _render_table(rows: list[list[str]]) -> str:
    header, *body = rows
    return markdown_table(header, body)
