"""How a parser is trained: the options, and the Trainer that follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import TrainingArguments

from relexify.errors import TrainingError
from relexify.evaluation.data.treebank import ParsedSentence
from relexify.evaluation.epoch_trainer import EpochTrainer, epoch_arguments
from relexify.evaluation.options import ParserTraining
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.inputs import Cutting, cut_sentences, padded_batch
from relexify.evaluation.parsing.trees import attachment_scores, parse
from relexify.pretrained.architecture import usable_length

__all__ = [
    "LAS",
    "UAS",
    "Example",
    "ParserTrainer",
    "arguments_of",
    "collate",
    "examples_of",
    "optimizer_of",
]

UAS, LAS = "eval_uas", "eval_las"


@dataclass(frozen=True)
class Example:
    """A sentence to learn from."""

    cutting: Cutting
    heads: tuple[int, ...]
    relations: tuple[int, ...]


class ParserTrainer(EpochTrainer):
    """Trains a parser, and measures it with trees."""

    def __init__(self, dev: Sequence[ParsedSentence], tokenizer: Any, **rest: Any) -> None:
        super().__init__(measures=True, **rest)
        self.dev, self.dev_tokenizer = dev, tokenizer

    def measure(self) -> dict[str, float]:
        """Parse the held-out treebank."""
        parser = self.accelerator.unwrap_model(self.model)
        try:
            scores = attachment_scores(self.dev, parse(parser, self.dev_tokenizer, self.dev))
        except TrainingError as error:
            raise TrainingError(f"at step {self.state.global_step} of training, {error}") from error
        return {UAS: scores.uas.value, LAS: scores.las.value}


def arguments_of(options: ParserTraining, seed: int, folder: str, steps: int) -> TrainingArguments:
    """What the Trainer is told."""
    return epoch_arguments(
        folder,
        precision=options.precision,
        best_by=LAS,
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch,
        warmup_steps=round(options.warmup * steps),
        max_grad_norm=options.clip,
        save_total_limit=1,
        save_only_model=True,
        seed=seed,
    )


def optimizer_of(parser: BiaffineParser, options: ParserTraining) -> torch.optim.Optimizer:
    """AdamW, which is Adam without decay; matrices decay, vectors do not."""
    groups: dict[tuple[bool, bool], list[torch.Tensor]] = {}
    for name, parameter in parser.named_parameters():
        groups.setdefault((name.startswith("encoder."), parameter.ndim > 1), []).append(parameter)
    rates = {True: options.learning_rate, False: options.score_learning_rate or options.learning_rate}
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": rates[inside], "weight_decay": options.weight_decay if decays else 0.0}
            for (inside, decays), parameters in groups.items()
        ],
        betas=(0.9, options.beta2),
    )


def examples_of(parser: BiaffineParser, tokenizer: Any, sentences: Sequence[ParsedSentence]) -> list[Example]:
    """Sentences in pieces, relations as numbers."""
    number = {relation: place for place, relation in enumerate(parser.config.relations)}
    cuttings = cut_sentences(tokenizer, sentences, usable_length(parser.encoder))
    return [
        Example(cutting, sentence.heads, tuple(number[relation] for relation in sentence.relations))
        for cutting, sentence in zip(cuttings, sentences, strict=True)
    ]


def collate(examples: Sequence[Example]) -> dict[str, torch.Tensor]:
    """A batch of them."""
    gold = [(example.heads, example.relations) for example in examples]
    return padded_batch([example.cutting for example in examples], gold)
