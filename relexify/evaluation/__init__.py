"""What a trained model is worth on a task: inference, entities, tags, trees."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relexify.evaluation.finetuning import FineTuning, TaskResult, fine_tune
    from relexify.evaluation.parsing import ParserTraining, attachment_scores, parse, swap_lexicon, train_parser
    from relexify.evaluation.probes import probe_pairs, probe_words
    from relexify.evaluation.tasks import (
        EVALUATIONS,
        Evaluation,
        EvaluationResult,
        TaskFiles,
        evaluate_task,
        find_files,
    )

__all__ = [
    "EVALUATIONS",
    "Evaluation",
    "EvaluationResult",
    "FineTuning",
    "ParserTraining",
    "TaskFiles",
    "TaskResult",
    "attachment_scores",
    "evaluate_task",
    "find_files",
    "fine_tune",
    "parse",
    "probe_pairs",
    "probe_words",
    "swap_lexicon",
    "train_parser",
]


def __getattr__(name: str) -> Any:
    """Import a public name at first use, so that reading a metric does not cost the import of torch."""
    if name in __all__:
        for module in ("tasks", "finetuning", "parsing", "probes"):
            found = vars(import_module(f"relexify.evaluation.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module 'relexify.evaluation' has no attribute {name!r}")
