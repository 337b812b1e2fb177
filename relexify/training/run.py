"""A whole training: text packed once, stages one after the other, a model to load at the end.

Beside the output lies `OUTPUT.training` until the work is done: checkpoints, results of stages, and logs. The same
command goes on from there, whenever it was stopped, and ends with the same bits.
"""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from relexify.artifacts import check_output
from relexify.grafting import load_model, load_tokenizer
from relexify.progress import Progress, silent
from relexify.scoring import check_fit, held_out_windows, model_kind
from relexify.text import Corpus
from relexify.training.batches import Blocks
from relexify.training.checkpoints import only_one
from relexify.training.identity import claim_work, digest_of, identity_of
from relexify.training.packing import PackedText, pack
from relexify.training.plan import Training, plan_stages
from relexify.training.result import CURVE_FILE, TrainingResult, finished_result, is_trained, notes_of, write_result
from relexify.training.stage_run import Text
from relexify.training.stages import run_stages
from relexify.training.trainable import check_trainable

__all__ = ["CURVE_FILE", "TrainingResult", "is_trained", "train"]

HELD_OUT_EVERY = 100

logger = logging.getLogger(__name__)


def train(
    model: str | Path,
    output: str | Path,
    corpus: Any,
    training: Training | None = None,
    *,
    held_out: Any = None,
    overwrite: bool = False,
    progress: Progress = silent,
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
        progress: Told about everything that takes long.

    Raises:
        InputError: Something about model, text or options does not fit, or checkpoints are another run's or damaged.
        VocabularyError: The tokenizer is not the model's.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
        OutputError: A checkpoint or the result cannot be written.
    """
    begun, training, output = time.monotonic(), training or Training(), Path(output)
    stages = plan_stages(training)
    training = replace(training, steps=sum(stage.steps for stage in stages))
    processes = PartialState(cpu=not torch.cuda.is_available())
    earlier = None if overwrite else notes_of(output).get("training", {}).get("run")
    if earlier is None and processes.is_main_process:
        check_output(output, overwrite=overwrite)
    with processes.main_process_first():
        learner, tokenizer = load_model(model), load_tokenizer(model)
    dtype = learner.dtype
    learner = learner.float()
    check_trainable(learner, training)
    check_fit(learner, tokenizer)
    with processes.main_process_first():
        text, packed = _text(learner, tokenizer, corpus, held_out, training, progress)
    run = identity_of(learner, tokenizer, packed, text.held_out, training, stages)
    work = output.with_name(f"{output.name}.training")
    if earlier == digest_of(run):
        logger.info("%s is the result of this very training already", output)
        return finished_result(output, work, time.monotonic() - begun)
    if processes.is_main_process:
        check_output(output, overwrite=overwrite)
        claim_work(work, run, overwrite)
    processes.wait_for_everyone()
    with only_one(work) if processes.is_main_process else nullcontext():
        curve, chosen, speed = run_stages(learner, text, stages, training, work, processes, progress)
        outcome = TrainingResult(output, curve, chosen.step, curve.last.tokens, time.monotonic() - begun, speed)
        if processes.is_main_process:
            trained = load_model(chosen.folder or model)
            write_result(trained.to(dtype), tokenizer, model, work, outcome, training, run, overwrite)
        processes.wait_for_everyone()
    return outcome


def _text(
    model: Any, tokenizer: Any, corpus: Any, held_out: Any, training: Training, progress: Progress
) -> tuple[Text, PackedText]:
    """Text to learn from and text to measure on, which never meet."""
    whole = Corpus.open(corpus)
    learnt, kept = whole.split(HELD_OUT_EVERY) if held_out is None else (whole, Corpus.open(held_out))
    kind = model_kind(model)
    sample = kept.sample_bytes(training.held_out_bytes or (400_000 if torch.cuda.is_available() else 40_000))
    windows = held_out_windows(tokenizer, sample.split("\n"), kind, length=training.length)
    packed = pack(learnt, tokenizer, excluding=kept, progress=progress)
    blocks = Blocks(packed, tokenizer, kind, length=training.length, masking=training.masking, seed=training.seed)
    epochs = training.steps * training.batch / blocks.count
    logger.info("%d tokens of text, seen %.2f times; measured on %d bytes", len(packed), epochs, windows.bytes)
    return Text(blocks, windows, kind), packed
