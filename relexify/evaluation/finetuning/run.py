"""Fine-tune an encoder on a task, once for each seed, and score it.

A single run on a small task is not conclusive, so there are several seeds, with mean and deviation. Results of finished
seeds are json files in a folder; an unfinished seed leaves checkpoints there. The same call resumes from both.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from relexify.errors import InputError, TrainingError, VocabularyError
from relexify.evaluation.data.files import TaskData
from relexify.evaluation.finetuning.encoder import encoder_config, load_classifier
from relexify.evaluation.finetuning.inputs import TARGETS, EncodedData, row_width, stack_rows
from relexify.evaluation.finetuning.problem import Problem, find_labels
from relexify.evaluation.metrics import confusion
from relexify.evaluation.options import FineTuning, check_seeds
from relexify.evaluation.results import SeedResult, TaskResult
from relexify.evaluation.training import by_content, epoch_arguments, seeded_run, train_epochs
from relexify.grafting.swap import load_lexicon, swap_lexicon
from relexify.pretrained.architecture import IGNORED, check_fit, token_types, usable_length
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.runtime.precision import computes_in_bfloat16
from relexify.pretrained.runtime.runnable import evaluating
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.files import write_file, write_folder
from relexify.storage.fingerprint import describe, fingerprint
from relexify.storage.json import read_result
from relexify.storage.revisions import TASK_REVISIONS
from relexify.storage.runs.claims import claimed

__all__ = ["FineTuner", "fine_tune"]


def fine_tune(
    model: str | Path,
    task: str,
    data: TaskData,
    options: FineTuning,
    *,
    seeds: tuple[int, ...],
    folder: str | Path,
    through: str | Path | None = None,
    keep_encoders: bool = False,
) -> TaskResult:
    """Fine-tune an encoder once for each seed, and score it on test data.

    Args:
        model: A folder or Hub name of an encoder, with its tokenizer.
        task: One of `TASKS`.
        data: The data of the task; the training data determines the labels. Without development data, the last epoch is
            kept.
        options: Options of fine-tuning.
        seeds: The random seeds, with one run for each.
        folder: The folder for finished seeds and checkpoints; the same call resumes from it.
        through: For zero-shot transfer: a model of another language that shares the encoder. The test data is read with
            its tokenizer and its embeddings.
        keep_encoders: Keep the fine-tuned encoders in `folder`, as models of the same kind as `model`.

    Raises:
        InputError: Model, data and options do not match, or the folder belongs to another run.
        VocabularyError: The tokenizer is not the model's, or lacks a token.
        TrainingError: The training diverged, or the GPU is out of memory.
        OutputError: A checkpoint cannot be written.
        MissingExtra: The task needs a package that is not installed.
    """
    folder = Path(folder)
    check_seeds(seeds)
    problem = find_labels(task, data)
    config = encoder_config(model, task)
    identity = {
        "model": by_content(model),
        "through": by_content(through),
        "task": task,
        **describe(options),
        "training data": fingerprint(data.train),
        "development data": fingerprint(data.dev),
        "test data": fingerprint(data.test),
    }
    with claimed(folder, identity, TASK_REVISIONS):
        encoders = {seed: folder / f"encoder-{seed}" for seed in seeds} if keep_encoders else {}
        finished = {seed: _read_seed(folder, seed) for seed in seeds}
        # If encoders are to be kept, a finished seed without its encoder is trained again.
        finished |= {seed: None for seed, kept in encoders.items() if not kept.exists()}
        results = list(finished.values())
        if None in results:
            tuner = FineTuner(model, config, problem, options, data, through)
            results = [result or tuner.run(seed, folder, encoders.get(seed)) for seed, result in finished.items()]
    return TaskResult(tuple(filter(None, results)), encoders=tuple(encoders.values()))


class FineTuner:
    """Fine-tunes one model on encoded data, seed by seed."""

    def __init__(
        self,
        model: str | Path,
        config: PreTrainedConfig,
        problem: Problem,
        options: FineTuning,
        data: TaskData,
        through: str | Path | None,
    ) -> None:
        """Load the tokenizer and encode all examples.

        Raises:
            InputError: The tokenizer finds no tokens in the training data.
            VocabularyError: The tokenizer is not the model's, or has no padding token.
        """
        self.model, self.problem, self.options = model, problem, options
        tokenizer = load_tokenizer(model)
        self.lexicon = None if through is None else load_lexicon(through)
        test_tokenizer = tokenizer if self.lexicon is None else self.lexicon.tokenizer
        for name, each in ((model, tokenizer), (through, test_tokenizer)):
            if each.pad_token_id is None:
                raise VocabularyError(f"the tokenizer of {name} has no token to pad with: set its pad_token")
        with torch.device("meta"):  # only its shape is needed here
            hollow = AutoModel.from_config(config, trust_remote_code=False)
        check_fit(hollow, tokenizer)
        length = min(options.length, usable_length(hollow) or options.length)
        types = token_types(config)
        self.padding, self.test_padding = int(tokenizer.pad_token_id), int(test_tokenizer.pad_token_id)
        encode, labels = problem.prediction.encode, problem.labels
        self.rows = encode(data.train, labels, tokenizer, length, types).rows
        self.tests = {name: encode(test, labels, test_tokenizer, length, types) for name, test in data.tests.items()}
        self.dev = None if data.dev is None else encode(data.dev, labels, tokenizer, length, types)
        if problem.prediction.tags_words:  # drop sentences whose words have no pieces: their loss would be NaN
            self.rows = [row for row in self.rows if any(label != IGNORED for label in row["labels"])]
        if not self.rows:
            raise InputError("the tokenizer finds no tokens in the training data: give text in a script that it knows")

    def run(self, seed: int, folder: Path, kept: Path | None = None) -> SeedResult:
        """Train with one seed, or resume, score the model, write the result, and remove the checkpoints.

        Args:
            seed: The seed.
            folder: The folder for the result and the checkpoints.
            kept: The folder in which to keep the fine-tuned encoder; if None, it is not kept.
        """
        options, checkpoints = self.options, folder / f"seed-{seed}"
        steps_per_epoch = math.ceil(len(self.rows) / options.batch)
        steps = steps_per_epoch * options.epochs
        size = options.micro_batch or options.batch
        advice = (
            f"process fewer than {size} sequences of {options.length} tokens at a time "
            f"(`micro_batch={max(1, size // 2)}`), or shorter ones (`length`)"
        )
        title = f"fine-tuning on {self.problem.name}, seed {seed}"
        with seeded_run(title, seed, steps, memory_advice=advice) as advance:
            model = load_classifier(self.model, self.problem)
            dev = self.dev
            state = train_epochs(
                model,
                self.rows,
                lambda rows: stack_rows(rows, self.padding),
                epoch_arguments(
                    options,
                    checkpoints,
                    seed=seed,
                    steps=steps,
                    is_scored=dev is not None,
                    micro_batch=options.micro_batch,
                ),
                score=None if dev is None else lambda: self.score(model, dev).scores[0].value,
                advance=advance,
            )
            tested = model if self.lexicon is None else swap_lexicon(model, self.lexicon)
            found = {name: self.score(tested, test, padding=self.test_padding) for name, test in self.tests.items()}
            result = SeedResult.over_tests(seed, found)
            if dev is not None:
                result = replace(result, dev=self.score(model, dev).scores[0])
        best_step = steps if dev is None else int(state.best_global_step or steps)
        result = replace(result, epoch=best_step // steps_per_epoch)
        if kept is not None:
            self._keep(model, kept)
        text = json.dumps(asdict(result), ensure_ascii=False, indent=1) + "\n"
        write_file(folder / f"seed-{result.seed}.json", text)
        shutil.rmtree(checkpoints, ignore_errors=True)
        return result

    def _keep(self, model: PreTrainedModel, folder: Path) -> None:
        """Write the fine-tuned encoder as a model of the same class as the original, which it can replace."""
        whole = load_model(self.model).float()
        # Not strict, because the encoders of some classifiers have a pooler, but those of language models do not.
        whole.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
        with write_folder(folder, internal=True) as beside:
            whole.save_pretrained(beside)
            # Load the tokenizer again: the one that encoded the examples would save its truncation to tokenizer.json.
            save_tokenizer(load_tokenizer(self.model), beside)

    def score(self, model: PreTrainedModel, data: EncodedData, *, padding: int | None = None) -> SeedResult:
        """Score a model on encoded data, including words that the model did not see."""
        task = self.problem.task
        logits = self._logits(model, data.rows, self.padding if padding is None else padding)
        predicted = self.problem.prediction.decode(self.problem, data, logits)
        result = SeedResult(0, task.metric(data.gold, predicted, task=self.problem.name))
        if task.table is None:
            return result
        table = task.table(data.gold, predicted)
        gold = data.gold
        if self.problem.prediction.tags_words:
            gold, predicted = list(chain(*gold)), list(chain(*predicted))
        only = predicted[0] if len(set(predicted)) == 1 < len(set(gold)) else None
        return replace(result, table=table, confusion=confusion(gold, predicted), only_label=only)

    def _logits(self, model: PreTrainedModel, rows: Sequence[Mapping[str, Any]], padding: int) -> list[np.ndarray]:
        """Return the logits of each row, [labels] or [pieces × labels]; rows of similar length share a batch."""
        size = self.options.micro_batch or self.options.batch
        order = sorted(range(len(rows)), key=lambda index: -row_width(rows[index]))
        logits: dict[int, np.ndarray] = {}
        with (
            evaluating(model),
            torch.inference_mode(),
            torch.autocast(model.device.type, torch.bfloat16, enabled=computes_in_bfloat16(self.options.precision)),
        ):
            for start in range(0, len(order), size):
                indices = order[start : start + size]
                batch = stack_rows([rows[index] for index in indices], padding)
                given = {name: tensor.to(model.device) for name, tensor in batch.items() if name not in TARGETS}
                output = self.problem.prediction.logits(model(**given)).float()
                if not bool(output.isfinite().all()):
                    raise TrainingError(
                        "the fine-tuned model produced NaN or infinite logits: "
                        "try a lower learning rate or a longer warm-up"
                    )
                logits.update(zip(indices, output.cpu().numpy(), strict=True))
        return [logits[index] for index in range(len(rows))]


def _read_seed(folder: Path, seed: int) -> SeedResult | None:
    """Return the result of a finished seed; None if it is not finished, or cannot be read."""
    return read_result(folder / f"seed-{seed}.json", SeedResult.from_dict, otherwise=f"training seed {seed} again")
