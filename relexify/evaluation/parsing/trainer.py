"""How a parser is trained: the options, and the Trainer that follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers import TrainingArguments

from relexify.errors import InputError, TrainingError
from relexify.evaluation.data.treebank import ParsedSentence
from relexify.evaluation.epoch_trainer import EpochTrainer, epoch_arguments
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.inputs import Cutting, cut_sentences, padded_batch
from relexify.evaluation.parsing.trees import attachment_scores, parse
from relexify.scoring import usable_length

__all__ = [
    "LAS",
    "UAS",
    "Example",
    "ParserTrainer",
    "ParserTraining",
    "arguments_of",
    "collate",
    "examples_of",
    "optimizer_of",
]

UAS, LAS = "eval_uas", "eval_las"


@dataclass(frozen=True)
class ParserTraining:
    """How a parser is trained.

    Batch, learning rate and epochs are RAMEN's (section 3.3), and one learning rate serves encoder and scores there.
    Sizes, dropout and Adam's second moment are Dozat & Manning's (2017, table 1). Warm-up, decay and clipping, of
    which RAMEN says nothing, are those usual for fine-tuning BERT (Devlin et al., 2019).

    Attributes:
        epochs: How often the treebank is read; the epoch that is best on the held-out treebank is kept.
        batch: Sentences a step.
        learning_rate: The highest.
        score_learning_rate: The same for what stands on top of the encoder, where it is to be another; 1e-3 learns in
            few epochs.
        warmup: Share of the steps in which the rate rises; after them it falls to zero.
        weight_decay: On matrices.
        beta2: Of Adam.
        clip: The longest gradient.
        arc_size: Width of the perceptrons for arcs.
        label_size: Width of the perceptrons for labels.
        dropout: On the word vectors and inside the perceptrons.
        pooling: Whether a word is the mean of its pieces or the first of them.
        patience: Epochs without progress after which to stop; never if not given.
        precision: `auto` takes bfloat16 where the GPU has it.
        seeds: One training for each.
    """

    epochs: int = 50
    batch: int = 32
    learning_rate: float = 1e-5
    score_learning_rate: float | None = None
    warmup: float = 0.1
    weight_decay: float = 0.0
    beta2: float = 0.9
    clip: float = 1.0
    arc_size: int = 500
    label_size: int = 100
    dropout: float = 0.33
    pooling: Literal["mean", "first"] = "mean"
    patience: int | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "learning_rate", "arc_size", "label_size", "clip"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} is {getattr(self, name)}: give a number above zero")
        if self.pooling not in {"mean", "first"}:
            raise InputError(f"pooling is {self.pooling!r}: give 'mean' or 'first'")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"the seeds are {list(self.seeds)}: give at least one, and none twice")


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
