"""Tables, plots and reports.

comparison.py, task_scores.py, statistics.py   what a comparison measured, and means over its seeds
conclusions.py           which of its runs is the best, and whether this can be concluded
tables.py, plots.py      its tables and curves
comparison_report.py     its report: a folder with numbers, tables and figures
html/                    reports as a page, of a model or a comparison
next_steps.py            what usually follows a transfer or a training, with the commands for it
command_line.py          the options of these commands, and the name of the model that a command started from
model_card.py, push.py   the model card of an output, and its upload to the Hub
geometry/                embeddings and hidden states in space
"""

from relexify.reports.comparison import Comparison, Reach, TrainingCost, step_reaching, steps_to_reach
from relexify.reports.comparison_report import write_report
from relexify.reports.conclusions import Conclusion, conclude
from relexify.reports.geometry.measures import (
    EmbeddingChange,
    HiddenStates,
    LayerSimilarities,
    Neighbourhood,
    Principal,
    embedding_changes,
    hidden_states,
    layer_similarities,
    neighbourhood,
    principal_components,
)
from relexify.reports.geometry.plots import plot_embedding, plot_neighbourhoods, plot_similarities, plot_states
from relexify.reports.plots import plot_curves, plot_tasks
from relexify.reports.statistics import Statistic
from relexify.reports.tables import (
    effort_rows,
    reach_rows,
    score_rows,
    stage_rows,
    task_result_rows,
    task_rows,
)
from relexify.reports.task_scores import TaskScores, task_notes

__all__ = [
    "Comparison",
    "Conclusion",
    "EmbeddingChange",
    "HiddenStates",
    "LayerSimilarities",
    "Neighbourhood",
    "Principal",
    "Reach",
    "Statistic",
    "TaskScores",
    "TrainingCost",
    "conclude",
    "effort_rows",
    "embedding_changes",
    "hidden_states",
    "layer_similarities",
    "neighbourhood",
    "plot_curves",
    "plot_embedding",
    "plot_neighbourhoods",
    "plot_similarities",
    "plot_states",
    "plot_tasks",
    "principal_components",
    "reach_rows",
    "score_rows",
    "stage_rows",
    "step_reaching",
    "steps_to_reach",
    "task_notes",
    "task_result_rows",
    "task_rows",
    "write_report",
]
