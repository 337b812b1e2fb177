"""Fine-tune an encoder on a task, as often as there are seeds, and measure it.

Pairs of texts are classified, or given a number; words are tagged. A model with a new language is worth what it can
learn to do with it, and one run of a small task says little: hence several seeds, a mean and a deviation. Finished
seeds lie as json in a folder, an unfinished one leaves checkpoints there, and the same call goes on from both.
"""

from __future__ import annotations

from pathlib import Path

from relexify.evaluation.finetuning.encoder import encoder_config
from relexify.evaluation.finetuning.finished_seeds import keep_seed, kept_seed, run_of
from relexify.evaluation.finetuning.learner import Learner
from relexify.evaluation.finetuning.options import TASKS, FineTuning, Task, check_options
from relexify.evaluation.finetuning.problem import Data, problem_of
from relexify.evaluation.finetuning.results import SeedResult, TaskResult, summary_of
from relexify.storage.work import claim_folder

__all__ = ["TASKS", "FineTuning", "SeedResult", "Task", "TaskResult", "fine_tune"]


def fine_tune(
    model: str | Path,
    training: Data,
    test: Data,
    options: FineTuning,
    *,
    folder: str | Path,
    dev: Data | None = None,
    through: str | Path | None = None,
) -> TaskResult:
    """Fine-tune an encoder once for each seed, and measure it on test data.

    Args:
        model: A folder or Hub name of an encoder, with its tokenizer.
        training: To learn from; its labels are the ones to choose among.
        test: To measure on.
        options: How.
        folder: For finished seeds and for checkpoints; the same call goes on from what lies there.
        dev: To choose the best epoch by; the last one is kept where this is not given.
        through: A model of another language that shares the encoder; the test data is read with its tokenizer and its
            embeddings: zero-shot transfer.

    Raises:
        InputError: Something about model, data or options does not fit, or the folder is another run's.
        VocabularyError: The tokenizer is not the model's, or lacks a token.
        TrainingError: The model diverged, or the memory does not suffice.
        OutputError: A checkpoint cannot be written.
        MissingExtra: Names are to be scored, and the package seqeval is not installed.
    """
    folder = Path(folder)
    check_options(options)
    problem = problem_of(options.task, training, test, dev)
    config = encoder_config(model)
    claim_folder(folder, run_of(model, options, training, test, dev, through))
    finished = {seed: kept_seed(folder, seed) for seed in options.seeds}
    if any(result is None for result in finished.values()):
        learner = Learner.of(model, config, problem, options, training, test, dev, through)
        for seed in options.seeds:
            if finished[seed] is None:
                finished[seed] = learner.run(seed, folder)
                keep_seed(folder, finished[seed])
    return summary_of([result for result in finished.values() if result is not None])
