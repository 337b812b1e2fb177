"""Revisions: version numbers of the computations in relexify.

Earlier results are reused if their inputs are the same: cached tokenizers and scores, finished and unfinished outputs,
trials of a comparison, cells of a grid, seeds of a task. When the code gives another result for the same inputs, a
revision is raised here. Cached results are then computed again, and results in folders of the user are rejected, so
that they are not used or combined with new ones. This module also declares the sets of revisions that results depend
on. Methods have their own revisions (`Method.revision`), which transfers and recipes add.
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
    "TRANSFER_NOTES",
    "TRANSFER_REVISIONS",
    "TRIALS",
    "changed_revisions",
    "check_revisions",
]

EVIDENCE = 4
"""Steps that several methods share: how tokens are matched with dictionaries and with each other."""
TOKENIZERS = 4
"""Trained tokenizers."""
PRIORS = 3
"""Unigram priors."""
SCORES = 3
"""Bits per byte and perplexity."""
TRAININGS = 6
"""Models that were trained on text."""
TASK_SCORES = 6
"""Scores on tasks, by fine-tuning, parsing and probing."""
GRIDS = 1
"""Scores of the cells of a grid."""
TRIALS = 1
"""Files of the trials of a comparison."""
TRANSFER_NOTES = 1
"""What a transfer writes into `relexify.json`, such as its verdict."""
SAMPLES = 1
"""Samples of text with several sources; only results that may depend on such a text record it (`sample_revisions`)."""

TRANSFER_REVISIONS: Mapping[str, int] = MappingProxyType(
    {"evidence": EVIDENCE, "tokenizers": TOKENIZERS, "priors": PRIORS, "scores": SCORES, "notes": TRANSFER_NOTES}
)
"""Revisions that the result of a transfer depends on, in addition to the revision of its method."""
TRAINING_REVISIONS: Mapping[str, int] = MappingProxyType({"scores": SCORES, "trainings": TRAININGS})
"""Revisions that the result of a training depends on, with any number of phases."""
TASK_REVISIONS: Mapping[str, int] = MappingProxyType({"tasks": TASK_SCORES})
"""Revisions that a score on a task depends on, in addition to those of the model."""
GRID_REVISIONS: Mapping[str, int] = MappingProxyType({**TASK_REVISIONS, "grids": GRIDS})
"""Revisions that a cell of a grid depends on, in addition to the revisions of a transfer."""
RUN_REVISIONS: Mapping[str, int] = MappingProxyType({**TRANSFER_REVISIONS, **TRAINING_REVISIONS})
"""Revisions that the model of a recipe depends on, in addition to those of its methods; tasks have their own."""


def changed_revisions(before: object, now: Mapping[str, int]) -> str:
    """Describe the version that made a result, as the end of a sentence; empty if this version gives the same result.

    Args:
        before: The revisions that the result was made with, as read from a file; anything but a mapping counts as none.
        now: The current revisions.
    """
    known = before if isinstance(before, Mapping) else {}
    if now and not known:
        return "an older version of relexify, whose results may differ from those of this version"
    changed = sorted(name for name in {*known, *now} if known.get(name) != now.get(name))
    if not changed:
        return ""
    return (
        "another version of relexify, whose results may differ from those of this version (changed: "
        f"{', '.join(changed)})"
    )


def check_revisions(output: Path, before: object, now: Mapping[str, int]) -> None:
    """Validate that this version of relexify would make the same output from the same inputs.

    Args:
        output: The folder.
        before: As for `changed_revisions`.
        now: As for `changed_revisions`.

    Raises:
        OutputError: The output was made by a version with other revisions.
    """
    if changed := changed_revisions(before, now):
        raise OutputError(f"{output} was made by {changed}: choose another name, or replace it with `overwrite`")
