"""What the report of a comparison says: curves, scores, tasks, and the facts of the runs."""

from __future__ import annotations

from relexify.reports.comparison import Comparison
from relexify.reports.html.curves import draw_curves
from relexify.reports.html.elements import definition_list, table
from relexify.reports.html.page import Section, render
from relexify.reports.tables import effort_rows, reach_rows, score_rows, stage_rows, task_rows

__all__ = ["render_comparison"]


def render_comparison(comparison: Comparison) -> str:
    """Return the report of a comparison as a page."""
    runs = list(comparison.curves)
    curves = {run: [(point.step, point.bits_per_byte) for point in comparison.mean_curve(run).points] for run in runs}
    both = bool(comparison.languages and comparison.earlier)
    several = len(runs) > 1
    notes = {name: str(value) for name, value in comparison.notes.items()}
    sections = [
        Section("curves", "Training curves", draw_curves(curves)),
        Section("scores", "Bits per byte of held-out text (lower is better)", table(score_rows(comparison))),
        Section("stages", "Both languages, by stage", table(stage_rows(comparison)) if both else ""),
        Section("tasks", "Tasks", table(task_rows(comparison)) if comparison.tasks else ""),
        Section("reach", "Steps to reach the score of another run", table(reach_rows(comparison)) if several else ""),
        Section("effort", "Training effort", table(effort_rows(comparison)) if several else ""),
        Section("facts", "How it was made", definition_list({**notes, "tokens per step": comparison.step_size})),
    ]
    return render(comparison.title, f"Comparison of {', '.join(runs)}", sections)
