"""Validate a training before any work. This module imports neither torch nor transformers.

What can be validated only with the model's config is in `trainable.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relexify.storage.inputs import check_inputs
from relexify.storage.notes import finished_run, output_notes
from relexify.storage.revisions import TRAINING_REVISIONS
from relexify.storage.runs.work import WorkFolder
from relexify.training.options import Training
from relexify.training.plan import count_steps

__all__ = ["prepare_training"]


def prepare_training(
    training: Training,
    output: str | Path,
    *,
    inputs: Sequence[str | Path] = (),
    texts: Sequence[object] = (),
    overwrite: bool = False,
) -> WorkFolder:
    """Validate everything about a training that can be known without its model and text; return its work folder.

    The output may already be the result of this training if its number of steps, length and seed are the same; whether
    it is also depends on model and text.

    Args:
        training: The options.
        output: The folder to write.
        inputs: Models that are read; none of them may be in a folder that is replaced or removed.
        texts: Texts that are read, as for `check_inputs`.
        overwrite: Replace the output, and unfinished work of another run.

    Raises:
        InputError: An option is impossible.
        OutputError: The output exists and may not be replaced, would replace an input, or cannot be written.
    """
    steps = count_steps(training)
    work = WorkFolder(output, "training", revisions=TRAINING_REVISIONS, overwrite=overwrite)
    for folder in (work.output, work.path):
        check_inputs(folder, *inputs, texts=texts)
    before = output_notes(work.output).get("training") or {}
    same = (steps, training.length, training.seed) == tuple(before.get(name) for name in ("steps", "length", "seed"))
    if overwrite or not same or finished_run(work.output, "training") is None:
        work.check()
    return work
