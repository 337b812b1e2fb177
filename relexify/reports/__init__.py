"""Tables and plots of training curves: which initialisation learns how fast."""

from relexify.reports.comparison import Comparison, Reach, Statistic, step_reaching, steps_to_reach
from relexify.reports.plots import plot_curves
from relexify.reports.summary import write_report
from relexify.reports.tables import effort_rows, markdown, reach_rows, score_rows
from relexify.reports.task_scores import TaskScores
from relexify.reports.task_tables import task_result_rows, task_rows

__all__ = [
    "Comparison",
    "Reach",
    "Statistic",
    "TaskScores",
    "effort_rows",
    "markdown",
    "plot_curves",
    "reach_rows",
    "score_rows",
    "step_reaching",
    "steps_to_reach",
    "task_result_rows",
    "task_rows",
    "write_report",
]
