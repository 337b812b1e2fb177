"""A whole training: text packed once, stages one after the other, a model to load at the end.

Beside the output lies `OUTPUT.training` until the work is done: checkpoints, results of stages, and logs. The same
command goes on from there, whenever it was stopped, and ends with the same bits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from relexify.storage.files import check_inputs, check_output
from relexify.storage.work import only_one, read_notes
from relexify.training.engine.stages import run_stages
from relexify.training.identity import claim_work, digest_of, identity_of
from relexify.training.job import TrainingJob, one_language
from relexify.training.plan import Training, plan_stages
from relexify.training.result import (
    CURVE_FILE,
    TrainingResult,
    finished_result,
    is_trained,
    load_result,
    work_folder,
    write_result,
)

__all__ = ["CURVE_FILE", "TrainingResult", "is_trained", "load_result", "run_training", "train"]

logger = logging.getLogger(__name__)


def train(
    model: str | Path,
    output: str | Path,
    corpus: Any,
    training: Training | None = None,
    *,
    held_out: Any = None,
    overwrite: bool = False,
) -> TrainingResult:
    """Train a model on, measure it along the way, and write it to a folder.

    Args:
        model: A folder, a Hub name, or `smollm2-135m`; a decoder or a masked language model.
        output: The folder to write; checkpoints lie in `OUTPUT.training` until it is written.
        corpus: Text to learn from, whatever `Corpus.open` takes.
        training: How.
        held_out: Text to measure on; where none is given, one line in 100 of the corpus is kept aside. What it shares
            with the corpus is not learnt from.
        overwrite: Replace the output, and checkpoints of another training that lie in its way.

    Raises:
        InputError: Something about model, text or options does not fit, or checkpoints are another run's or damaged.
        VocabularyError: The tokenizer is not the model's.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
        OutputError: A checkpoint or the result cannot be written.
    """
    processes = PartialState(cpu=not torch.cuda.is_available())
    return run_training(
        lambda plan: one_language(model, corpus, held_out, plan, processes),
        output,
        training or Training(),
        processes,
        inputs=(model, corpus, held_out),
        overwrite=overwrite,
    )


def run_training(
    prepare: Callable[[Training], TrainingJob],
    output: str | Path,
    training: Training,
    processes: PartialState,
    *,
    inputs: Sequence[Any] = (),
    overwrite: bool = False,
) -> TrainingResult:
    """Train whatever subject on, as `train` does with an ordinary model; raises what `train` raises.

    Args:
        prepare: Loads the model and its text, once it is known that the output can be written.
        output: The folder to write.
        training: How.
        processes: Those that train together.
        inputs: Models and texts that are read, none of which may lie in what is replaced or removed.
        overwrite: Replace the output, and checkpoints of another training that lie in its way.
    """
    begun, output = time.monotonic(), Path(output)
    for folder in (output, work_folder(output)):
        check_inputs(folder, *inputs)
    stages = plan_stages(training)
    training = replace(training, steps=sum(stage.steps for stage in stages))
    earlier = None if overwrite else read_notes(output).get("training", {}).get("run")
    if earlier is None and processes.is_main_process:
        check_output(output, overwrite=overwrite)
    subject = prepare(training)
    run = identity_of(subject.identity, training, stages)
    if earlier == digest_of(run):
        logger.info("%s is the result of this very training already", output)
        return finished_result(output, time.monotonic() - begun)
    work = work_folder(output)
    if processes.is_main_process:
        check_output(output, overwrite=overwrite)
        claim_work(work, run, overwrite)
    processes.wait_for_everyone()
    with only_one(work) if processes.is_main_process else nullcontext():
        curve, chosen, speed = run_stages(subject, stages, training, work, processes)
        outcome = TrainingResult(output, curve, chosen.step, curve.last.tokens, time.monotonic() - begun, speed)
        if processes.is_main_process:
            write_result(subject, chosen.folder, outcome, training, run, overwrite)
        processes.wait_for_everyone()
    return outcome
