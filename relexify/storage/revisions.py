"""Revisions of what relexify computes.

Results are found again by their inputs: cached tokenizers and scores, finished and unfinished outputs, trials of a
comparison, cells of a grid, seeds of a task. A revision is raised here when the code gives another result for the same
inputs. Cached results are then computed again, and results in folders of the user are rejected instead of being used or
combined with new ones. The sets of revisions that results depend on are declared here too. Methods have revisions of
their own (`Method.revision`), which transfers and recipes add.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from relexify.errors import OutputError

__all__ = [
    "EVIDENCE",
    "GRID_REVISIONS",
    "PRIORS",
    "RUN_REVISIONS",
    "SAMPLES",
    "SCORES",
    "TASK_REVISIONS",
    "TASK_SCORES",
    "TOKENIZERS",
    "TRAININGS",
    "TRAINING_REVISIONS",
    "TRANSFER_REVISIONS",
    "TRIALS",
    "changed_revisions",
    "check_revisions",
]

EVIDENCE = 4
"""What several methods have in common: how tokens are matched with dictionaries and with each other."""
TOKENIZERS = 4
"""Trained tokenizers."""
PRIORS = 3
"""Unigram priors."""
SCORES = 3
"""Bits per byte and perplexity."""
TRAININGS = 5
"""Models that were trained on text."""
TASK_SCORES = 6
"""Scores on tasks, by fine-tuning, parsing and probing."""
GRIDS = 1
"""Scores of the cells of a grid."""
TRIALS = 1
"""Files of the trials of a comparison."""
SAMPLES = 1
"""Samples of text with several sources; only results that may depend on such a text have it (`sample_revisions`)."""

TRANSFER_REVISIONS: Mapping[str, int] = MappingProxyType(
    {"evidence": EVIDENCE, "tokenizers": TOKENIZERS, "priors": PRIORS, "scores": SCORES}
)
"""What the result of a transfer depends on, besides its method."""
TRAINING_REVISIONS: Mapping[str, int] = MappingProxyType({"scores": SCORES, "trainings": TRAININGS})
"""What the result of a training depends on, with any number of phases."""
TASK_REVISIONS: Mapping[str, int] = MappingProxyType({"tasks": TASK_SCORES})
"""What a score on a task depends on, besides the model."""
GRID_REVISIONS: Mapping[str, int] = MappingProxyType({**TRANSFER_REVISIONS, **TASK_REVISIONS, "grids": GRIDS})
"""What a cell of a grid depends on, besides its method."""
RUN_REVISIONS: Mapping[str, int] = MappingProxyType({**TRANSFER_REVISIONS, **TRAINING_REVISIONS})
"""What the model of a recipe depends on, besides its methods; scores on tasks have a revision of their own."""


def changed_revisions(before: object, now: Mapping[str, int]) -> str:
    """Say which other version made a result, as the end of a sentence; empty if this version would make the same.

    Args:
        before: The revisions that the result was made with, as they were read; anything else counts as none.
        now: The current ones.
    """
    known = before if isinstance(before, Mapping) else {}
    if now and not known:
        return "an older version of relexify, whose results may differ from those of this one"
    changed = sorted(name for name in {*known, *now} if known.get(name) != now.get(name))
    if not changed:
        return ""
    return (
        f"another version of relexify, whose results may differ from those of this one (changed: {', '.join(changed)})"
    )


def check_revisions(output: Path, before: object, now: Mapping[str, int]) -> None:
    """Validate that an output, which was made with the same inputs, is what this version of relexify would make.

    Args:
        output: The folder.
        before: As for `changed_revisions`.
        now: As for `changed_revisions`.

    Raises:
        OutputError: It is the result of other code.
    """
    if changed := changed_revisions(before, now):
        raise OutputError(f"{output} was made by {changed}: choose another name, or replace it with `overwrite`")
