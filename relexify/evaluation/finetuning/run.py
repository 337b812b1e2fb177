"""Fine-tune an encoder on a task, as often as there are seeds, and measure it.

Pairs of texts are classified, or given a number; words are tagged. A model with a new language is worth what it can
learn to do with it, and one run of a small task says little: hence several seeds, a mean and a deviation. Finished
seeds lie as json in a folder, an unfinished one leaves checkpoints there, and the same call goes on from both.
"""

from __future__ import annotations

from pathlib import Path

from relexify.evaluation.data.files import TaskData
from relexify.evaluation.finetuning.encoder import encoder_config
from relexify.evaluation.finetuning.finished_seeds import keep_seed, kept_seed, run_of
from relexify.evaluation.finetuning.learner import Learner
from relexify.evaluation.finetuning.problem import problem_of
from relexify.evaluation.options import FineTuning, check_seeds
from relexify.evaluation.results import TaskResult
from relexify.storage.work import claim_folder

__all__ = ["fine_tune"]


def fine_tune(
    model: str | Path,
    task: str,
    data: TaskData,
    options: FineTuning,
    *,
    seeds: tuple[int, ...],
    folder: str | Path,
    through: str | Path | None = None,
) -> TaskResult:
    """Fine-tune an encoder once for each seed, and score it on test data.

    Args:
        model: A folder or Hub name of an encoder, with its tokenizer.
        task: One of `TASKS`.
        data: The labels are those of the training data. Without development data, the last epoch is kept.
        options: How.
        seeds: One run for each.
        folder: For finished seeds and for checkpoints; the same call resumes from it.
        through: A model of another language that shares the encoder; the test data is read with its tokenizer and its
            embeddings: zero-shot transfer.

    Raises:
        InputError: Model, data and options do not fit together, or the folder belongs to another run.
        VocabularyError: The tokenizer is not the model's, or lacks a token.
        TrainingError: The training diverged, or the GPU is out of memory.
        OutputError: A checkpoint cannot be written.
        MissingExtra: The task needs a package that is not installed.
    """
    folder = Path(folder)
    check_seeds(seeds)
    problem = problem_of(task, data.train, data.test, data.dev)
    config = encoder_config(model)
    claim_folder(folder, run_of(model, task, options, data, through))
    finished = {seed: kept_seed(folder, seed) for seed in seeds}
    if any(result is None for result in finished.values()):
        learner = Learner.of(model, config, problem, options, data.train, data.test, data.dev, through)
        for seed in seeds:
            if finished[seed] is None:
                finished[seed] = learner.run(seed, folder)
                keep_seed(folder, finished[seed])
    return TaskResult(tuple(result for result in finished.values() if result is not None))
