"""One seed after the other: train an encoder on a task, or go on with it, and measure it."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, set_seed

from relexify.errors import InputError, TrainingError, VocabularyError
from relexify.evaluation.finetuning.encoder import with_head
from relexify.evaluation.finetuning.inputs import Inputs, collate, encode
from relexify.evaluation.finetuning.problem import Data, Problem
from relexify.evaluation.finetuning.trainer import TaskTrainer, task_arguments
from relexify.evaluation.finetuning.word_pieces import tags_of
from relexify.evaluation.metrics import confusion
from relexify.evaluation.options import FineTuning
from relexify.evaluation.results import SeedResult
from relexify.grafting.swap import Lexicon, load_lexicon
from relexify.pretrained.architecture import IGNORED, check_fit, usable_length
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.precision import computes_in_bfloat16
from relexify.progress import track
from relexify.storage.checkpoints import find_checkpoint, remove_unsealed
from relexify.training.engine.randomness import isolated_randomness

__all__ = ["Learner"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Learner:
    """Everything that the runs of all seeds have in common."""

    model: str | Path
    problem: Problem
    options: FineTuning
    padding: int
    training: Inputs
    test: Inputs
    dev: Inputs | None
    lexicon: Lexicon | None

    @classmethod
    def of(
        cls,
        model: str | Path,
        config: Any,
        problem: Problem,
        options: FineTuning,
        training: Data,
        test: Data,
        dev: Data | None,
        through: str | Path | None = None,
    ) -> Learner:
        """Load the tokenizer and cut all examples.

        Raises:
            InputError: The tokenizer finds nothing in the training data.
            VocabularyError: The tokenizer is not the model's, or has no token to pad with.
        """
        tokenizer = load_tokenizer(model)
        if tokenizer.pad_token_id is None:
            raise VocabularyError(f"the tokenizer of {model} has no token to pad with: set its pad_token")
        with torch.device("meta"):
            hollow = AutoModel.from_config(config, trust_remote_code=False)
        check_fit(hollow, tokenizer)
        length = min(options.length, usable_length(hollow) or options.length)
        kinds = int(getattr(config, "type_vocab_size", 0) or 0)
        lexicon = None if through is None else load_lexicon(through)
        reader = tokenizer if lexicon is None else lexicon.tokenizer
        learnt = encode(problem, tokenizer, training, length, kinds=kinds)
        tested = encode(problem, reader, test, length, kinds=kinds)
        chosen_by = None if dev is None else encode(problem, tokenizer, dev, length, kinds=kinds)
        if problem.task.predicts == "tags":  # nothing can be learnt from a sentence whose words have no pieces
            rows = [row for row in learnt.rows if any(label != IGNORED for label in row["labels"])]
            learnt = Inputs(rows, [], [])
        if not learnt.rows:
            raise InputError("the tokenizer finds no tokens in the training data: give text in a script that it knows")
        return cls(model, problem, options, int(tokenizer.pad_token_id), learnt, tested, chosen_by, lexicon)

    def run(self, seed: int, folder: Path) -> SeedResult:
        """Train with one seed, or go on with it, and measure."""
        work = folder / f"seed-{seed}"
        checkpoint = _checkpoint(work, seed)
        steps = math.ceil(len(self.training.rows) / self.options.batch) * self.options.epochs
        title = f"fine-tuning on {self.problem.name}, seed {seed}"
        with isolated_randomness(), track(title, steps) as advance:
            set_seed(seed)
            learner = with_head(self.model, self.problem)
            trainer = TaskTrainer(
                learner,
                task_arguments(self.options, work, seed, steps, choose=self.dev is not None),
                self.training.rows,
                self.collate,
                None if self.dev is None else lambda: self.measure(learner, self.dev, seed).scores[0].value,
                advance,
            )
            try:
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
                tested = self.tested(learner, seed)
                dev = None if self.dev is None else self.measure(learner, self.dev, seed).scores[0]
            except torch.OutOfMemoryError as error:
                raise self._too_large() from error
        kept = int(trainer.state.best_global_step or steps) if self.dev is not None else steps
        epoch = kept // (steps // self.options.epochs)
        return replace(tested, dev=dev, epoch=epoch)

    def tested(self, learner: Any, seed: int) -> SeedResult:
        """Score a model on the test data, through the lexicon of another language if there is one."""
        if self.lexicon is None:
            return self.measure(learner, self.test, seed)
        reader = replace(self, padding=int(self.lexicon.tokenizer.pad_token_id))
        return reader.measure(self.lexicon.put_into(learner), self.test, seed)

    def collate(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Rows of one batch, padded to the longest."""
        return collate(rows, self.padding)

    def measure(self, learner: Any, data: Inputs | None, seed: int) -> SeedResult:
        """Score a model; all words count, including those that the model did not see."""
        assert data is not None
        task, labels = self.problem.task, self.problem.labels
        logits = self._predict(learner, data.rows)
        predicted: list[Any]
        if task.predicts == "number":
            predicted = [float(each[0]) for each in logits]
        elif task.predicts == "class":
            predicted = [labels[int(each.argmax())] for each in logits]
        else:
            predicted = [
                tags_of(pieces, each.argmax(-1), labels, default=self.problem.default)
                for pieces, each in zip(data.pieces, logits, strict=True)
            ]
        scores = task.metric(data.gold, predicted, task=self.problem.name)
        if task.table is None:
            return SeedResult(seed, scores)
        pair = (data.gold, predicted)
        if task.predicts == "tags":
            pair = (list(chain(*data.gold)), list(chain(*predicted)))
        return SeedResult(seed, scores, table=task.table(data.gold, predicted), confusion=confusion(pair[0], pair[1]))

    def _predict(self, learner: Any, rows: Sequence[Mapping[str, Any]]) -> Iterator[np.ndarray]:
        """The logits of each example, computed in order of length, given back in order."""
        size = self.options.micro_batch or self.options.batch
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]["input_ids"]))
        logits: dict[int, np.ndarray] = {}
        was_training = learner.training
        learner.eval()
        with (
            torch.inference_mode(),
            torch.autocast(learner.device.type, torch.bfloat16, enabled=computes_in_bfloat16(self.options.precision)),
        ):
            for start in range(0, len(order), size):
                places = order[start : start + size]
                batch = self.collate([rows[place] for place in places])
                batch.pop("labels")
                given = learner(**{name: tensor.to(learner.device) for name, tensor in batch.items()}).logits.float()
                if not bool(given.isfinite().all()):
                    raise TrainingError(
                        "the fine-tuned model gives numbers that are none: "
                        "try a lower learning rate or a longer warm-up"
                    )
                logits.update(zip(places, given.cpu().numpy(), strict=True))
        learner.train(was_training)
        return (logits[place] for place in range(len(rows)))

    def _too_large(self) -> TrainingError:
        size = self.options.micro_batch or self.options.batch
        return TrainingError(
            f"the GPU's memory does not suffice for {size} sequences of {self.options.length} tokens at once: "
            f"take fewer of them (micro_batch = {max(1, size // 2)}), or shorter ones (length)"
        )


def _checkpoint(work: Path, seed: int) -> Path | None:
    """Where a seed that was stopped goes on; damaged checkpoints are removed."""
    remove_unsealed(work)
    try:
        return find_checkpoint(work)
    except InputError as error:
        logger.warning("%s; seed %d starts anew", error, seed)
        shutil.rmtree(work, ignore_errors=True)
        return None
