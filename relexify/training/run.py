"""Train a model: pack the text once, train one stage after the other, write a model that `load_model` loads.

Unfinished work is kept in `OUTPUT.training`: checkpoints, results of stages, and logs. If interrupted, the same command
resumes from there, and ends with the same bits.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from relexify.errors import InputError
from relexify.pretrained.runtime.quiet import save_model
from relexify.progress import count_of, describe_estimate
from relexify.steps import snapshot_folder
from relexify.storage.documents import write_documents
from relexify.storage.files import MARKER, check_space, write_file, write_folder
from relexify.storage.notes import read_entry
from relexify.storage.runs.checkpoints import find_checkpoint, sealed_checkpoints
from relexify.storage.runs.work import WorkFolder
from relexify.text import TextSource
from relexify.training.checks import prepare_training
from relexify.training.cost.here import seconds_here
from relexify.training.data.batches import MixedTexts
from relexify.training.distributed import started_processes
from relexify.training.engine.adapters import ADAPTERS
from relexify.training.engine.freezing import trained_names
from relexify.training.engine.monitor import ANNOUNCED_FROM, suggest_shortening
from relexify.training.engine.stage import StageResult, train_stage
from relexify.training.job import TrainingJob, language_model_job
from relexify.training.options import FULL_STATE, Stage, Training
from relexify.training.plan import count_steps, plan_stages, training_identity
from relexify.training.rates import fill_in_options, fit_batch_to_text
from relexify.training.results.curve import Curve, Measurement
from relexify.training.results.result import CURVE_FILE, TrainingResult, load_result

__all__ = ["run_training", "train"]

_SNAPSHOTS = "snapshots"
"""The folder of sealed snapshots, in the work folder."""

logger = logging.getLogger(__name__)


def train(
    model: str | Path,
    output: str | Path,
    corpus: TextSource,
    training: Training | None = None,
    *,
    held_out: TextSource | None = None,
    overwrite: bool = False,
) -> TrainingResult:
    """Train a model on text, score it along the way, and write it to a folder.

    Args:
        model: A folder, a Hub name, or `smollm2-135m`; a decoder or a masked language model.
        output: The folder to write; unfinished work is kept in `OUTPUT.training`.
        corpus: Text to train on, whatever `Corpus.open` takes.
        training: The options.
        held_out: Text to score on; if None, one line in 100 of the corpus is held out. Paragraphs of the corpus that
            are in the held-out text are not trained on.
        overwrite: Replace the output, and unfinished work of another run.

    Raises:
        InputError: Model, text or options are not possible, or unfinished work is another run's or damaged.
        VocabularyError: The tokenizer does not belong to the model.
        TrainingError: The loss is NaN or infinite, or the memory is too small.
        OutputError: A checkpoint or the result cannot be written.
    """
    training = training or Training()
    return run_training(
        lambda training: language_model_job(model, corpus, held_out, training),
        output,
        training,
        inputs=(model,),
        texts=(corpus, held_out, training.source_corpus, training.source_held_out),
        overwrite=overwrite,
    )


def run_training(
    prepare: Callable[[Training], TrainingJob],
    output: str | Path,
    training: Training,
    *,
    inputs: Sequence[str | Path] = (),
    texts: Sequence[TextSource | None] = (),
    overwrite: bool = False,
) -> TrainingResult:
    """Train any job, as `train` does an ordinary model; raises the same errors.

    Args:
        prepare: Loads model and text; called once it is known that the output can be written.
        output: The folder to write.
        training: The options.
        inputs: Models that are read; none of them may be in a folder that is replaced or removed.
        texts: Texts that are read, as for `check_inputs`.
        overwrite: Replace the output, and unfinished work of another run.
    """
    start, output = time.monotonic(), Path(output)
    training = replace(training, steps=count_steps(training))  # the sum over the stages, if they are given
    work = prepare_training(training, output, inputs=inputs, texts=texts, overwrite=overwrite)
    processes = started_processes()
    is_main = processes.is_main_process
    job = prepare(training)
    if training.source_corpus is not None and not isinstance(job.data.batches, MixedTexts):
        raise InputError("`source_corpus` of a training is for one model that reads both languages: leave it out")
    if training.keep_rows and not job.kept_rows:
        raise InputError("`keep_rows` is for a model whose vocabulary was extended: leave it out")
    # The batch first, because learning rates depend on it; both decide what the stages are.
    training = fit_batch_to_text(training, job.data.count, processes.num_processes)
    training = fill_in_options(training, job.model)
    stages = plan_stages(training)
    work.identify({**job.identity, **training_identity(training)})  # model, text, and options with their derived values
    if not overwrite and work.is_finished():
        logger.info("%s is up to date; nothing to train", output)
        if is_main:  # an earlier call may have been killed before it did this
            work.clear()
            write_documents(output, only_missing=True)
        return load_result(output)
    if is_main:
        work.check()
        if not work.path.exists():  # if it exists, an interrupted run has written a part of these bytes already
            check_space(output, _bytes_to_write(job, stages, training))
    with work.claim() if is_main else nullcontext():
        if is_main and overwrite:
            _remove_damaged_stages(work.path)
        resumed = any((*work.path.glob("*/result"), *work.path.glob("*/checkpoint-*")))
        if is_main and not resumed and not torch.cuda.is_available():
            _announce(seconds_here(job.model, training), training.steps)
        processes.wait_for_everyone()
        trained = _train_stages(job, stages, training, work.path)
        result = TrainingResult(
            output=output,
            curve=trained.curve,
            selected=trained.selected,
            tokens=trained.curve.last.tokens,
            seconds=time.monotonic() - start,
            tokens_per_second=trained.tokens_per_second,
            resumed=resumed,
            new_text_steps=(job.data.new_sequences or 0) // training.batch,
        )
        if is_main:
            _write_result(job, training, work, result, trained.folder)
        processes.wait_for_everyone()
    return result


def _keep_stage(folder: Path, result: StageResult) -> None:
    """Write the result of a stage, and remove its checkpoints."""
    with write_folder(folder, internal=True) as beside:
        save_model(result.model, beside, weights=result.weights)
        result.curve.save(beside / CURVE_FILE)
        write_file(beside / MARKER, json.dumps({"selected": result.selected}) + "\n")
    for checkpoint in folder.parent.glob("checkpoint-*"):
        shutil.rmtree(checkpoint, ignore_errors=True)


def _write_result(
    job: TrainingJob, training: Training, work: WorkFolder, result: TrainingResult, folder: Path | None
) -> None:
    """Write the trained model with its curve, snapshots, logs and notes; then remove the unfinished work.

    Args:
        job: The job.
        training: Its options.
        work: Its work folder.
        result: The result, for the notes.
        folder: The folder of the stage whose model it is; None for the model that training started from.
    """
    notes = {
        **job.notes,
        "training": {
            **asdict(replace(training, source_corpus=None, source_held_out=None)),  # texts need not be files
            "selected_step": result.selected,
            "command": job.command,
            "from_trained": "training" in job.notes,
            "tokens_seen": result.tokens,
            "seconds": result.seconds,
            "resumed": result.resumed,
            "tokens_per_second": result.tokens_per_second,
            "new_text_steps": result.new_text_steps,
        },
    }
    trained = job.load(folder)
    with work.finish(notes) as output:
        job.save(trained.to(job.dtype), output)
        result.curve.save(output / CURVE_FILE)
        if folder is not None and (folder.parent / ADAPTERS).exists():
            shutil.copytree(folder.parent / ADAPTERS, output / ADAPTERS)
        for snapshot in sealed_checkpoints(work.path / _SNAPSHOTS):  # training may have stopped before some of them
            beside = snapshot_folder(output, int(snapshot.name.rpartition("-")[2]))
            beside.mkdir(parents=True)
            job.save(job.load(snapshot).to(job.dtype), beside)
        for logs in sorted(work.path.glob("*/logs")):
            shutil.copytree(logs, output / "logs" / logs.parent.name)
    write_documents(work.output)


def _announce(seconds: float | None, steps: int) -> None:
    """Log how long a training will take on this CPU, if that is long. On a GPU, it is measured in the first steps."""
    if seconds is not None and seconds >= ANNOUNCED_FROM:
        logger.info(
            "%s %s on this CPU%s",
            count_of(steps, "step takes", "steps take"),
            describe_estimate(seconds),
            suggest_shortening(seconds, "cpu"),
        )


def _bytes_to_write(job: TrainingJob, stages: Sequence[Stage], training: Training) -> int:
    """Return about how many bytes the result and one checkpoint take.

    Of the optimiser's state, at least one moment of what is trained is counted, and its average if there is one.
    """
    weights = dict(job.model.named_parameters())
    needed: int = sum(each.nbytes + each.numel() * job.dtype.itemsize for each in weights.values())
    if training.lora_rank:
        return needed
    kept = bool(training.average) + (training.optimiser_state == FULL_STATE)
    trained = [trained_names(job.model, stage.trains) & weights.keys() for stage in stages]
    most: int = max(sum(weights[name].nbytes for name in names) for names in trained)
    return needed + kept * most


def _remove_damaged_stages(work: Path) -> None:
    """Remove stages whose checkpoints are all damaged, so that they start again."""
    for stage in sorted(work.glob("*/")):
        try:
            find_checkpoint(stage)
        except InputError as error:
            logger.warning("%s; removing it", str(error).partition(":")[0])
            shutil.rmtree(stage)


@dataclass(frozen=True)
class _TrainedStages:
    """The result of all stages.

    Attributes:
        curve: Scores on held-out text.
        selected: The step whose parameters are kept.
        folder: The folder with its model; None for the model that training started from.
        tokens_per_second: Speed of training; None if nothing was trained in this call, or too little to measure it.
    """

    curve: Curve
    selected: int
    folder: Path | None
    tokens_per_second: float | None


def _train_stages(job: TrainingJob, stages: Sequence[Stage], training: Training, work: Path) -> _TrainedStages:
    """Train all stages that no earlier call has finished, and select a model."""
    points: list[Measurement] = []
    candidates: dict[int, Path | None] = {0: None}  # models to select from, by step
    processes = started_processes()
    model, speed = job.model, None
    steps_before, selected = 0, 0
    for number, stage in enumerate(stages, start=1):
        stage_folder = work / f"{number}-{stage.name}"
        folder = stage_folder / "result"
        if not folder.exists():
            if number > 1:
                # From disk, as after an interruption, so that both give the same bits.
                model = job.load(candidates[selected])
            result = train_stage(
                model,
                job.data,
                stage,
                training,
                stage_folder,
                steps_before=steps_before,
                is_last=number == len(stages),
                snapshots=work / _SNAPSHOTS,
                kept_rows=job.kept_rows,
            )
            speed = result.tokens_per_second or speed
            if processes.is_main_process:
                _keep_stage(folder, result)
            processes.wait_for_everyone()
            del result
        points += Curve.load(folder / CURVE_FILE).points
        selected = read_entry(folder, "selected")
        candidates[selected] = folder
        steps_before += stage.steps
    curve = Curve.of(points)
    if training.selects_best:
        selected = min(candidates, key=lambda step: curve.at(step).bits_per_byte)
        if selected == 0:
            what = "the mean of both languages" if curve.first.by_language else "held-out text"
            logger.warning("training made the model worse on %s: keeping the model as it was before", what)
    return _TrainedStages(curve, selected, candidates[selected], speed)
