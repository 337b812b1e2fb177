"""What the report of a comparison says: curves, scores, tasks, and the facts of the runs."""

from __future__ import annotations

from relexify.reports.comparison import Comparison
from relexify.reports.conclusions import conclude
from relexify.reports.html.curves import draw_curves
from relexify.reports.html.elements import definition_list, hint, notice, table
from relexify.reports.html.page import Section, render
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

__all__ = ["render_comparison"]


def render_comparison(comparison: Comparison) -> str:
    """Return the report of a comparison as a page."""
    runs = list(comparison.curves)
    curves = {run: [(point.step, point.bits_per_byte) for point in comparison.mean_curve(run).points] for run in runs}
    both = bool(comparison.languages and comparison.earlier)
    several = len(runs) > 1
    notes = {name: str(value) for name, value in comparison.notes.items()}
    rows = score_rows(comparison)
    # Apart from the scores, so that neither table is wider than the page.
    split = next(index for index, name in enumerate(rows[0]) if name.startswith("perplexity"))
    scores = table([row[:split] for row in rows]) + hint(score_note(comparison))
    scores += table([[row[0], *row[split:]] for row in rows])
    reach = table(reach_rows(comparison)) + hint(reach_note(comparison))
    effort = table(effort_rows(comparison)) + hint(effort_note(comparison))
    summary = "".join(notice(each.kind, each.headline, each.details) for each in conclude(comparison))
    sections = [
        Section("summary", "Summary", summary if several else ""),
        Section("curves", "Training curves", draw_curves(curves)),
        Section("scores", "Scores", scores),
        Section("stages", "Both languages, by stage", table(stage_rows(comparison)) if both else ""),
        Section("tasks", "Tasks", table(task_rows(comparison)) if comparison.tasks else ""),
        Section("reach", "Steps to reach the score of another run", reach if several else ""),
        Section("effort", "Training effort", effort if several else ""),
        Section("facts", "How it was made", definition_list({**notes, "tokens per step": comparison.step_size})),
    ]
    return render(comparison.title, f"Comparison of {', '.join(runs)}", sections)
