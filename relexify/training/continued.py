"""Continue the training of a grafted model for a while, on text that fits in memory."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from transformers import (
    DataCollatorForLanguageModeling,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
)

from relexify.errors import InputError
from relexify.progress import Progress, silent

__all__ = ["Continuation", "continue_training"]


@dataclass(frozen=True)
class Continuation:
    """How to train on.

    Attributes:
        steps: Optimiser steps.
        batch: Sequences a step.
        length: Tokens a sequence.
        learning_rate: The peak, reached after the warm-up.
        warmup: Share of the steps with a rising rate; it falls linearly after them.
        seed: Of the order of the sequences.
    """

    steps: int = 20
    batch: int = 8
    length: int = 128
    learning_rate: float = 5e-4
    warmup: float = 0.1
    seed: int = 0


def continue_training(
    model: Any,
    tokenizer: Any,
    lines: Iterable[str],
    options: Continuation | None = None,
    *,
    on_step: Callable[[int], None] | None = None,
    progress: Progress = silent,
) -> Any:
    """Train a decoder or masked language model in place on packed text.

    Args:
        model: A transformers model; it is changed.
        tokenizer: Its tokenizer.
        lines: Paragraphs of text.
        options: How long and how fast.
        on_step: Called with the number of each finished step.
        progress: Told about steps.

    Returns:
        The same model.

    Raises:
        InputError: The text is shorter than one sequence.
    """
    options = options or Continuation()
    blocks = _packed(tokenizer, lines, options.length)
    masked = type(model).__name__.endswith("ForMaskedLM")
    collator = DataCollatorForLanguageModeling(tokenizer) if masked else default_data_collator
    with tempfile.TemporaryDirectory() as folder, progress("training", options.steps) as advance:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch,
            learning_rate=options.learning_rate,
            lr_scheduler_type="linear",
            warmup_steps=round(options.steps * options.warmup),
            seed=options.seed,
            data_seed=options.seed,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        callback = _Steps(lambda step: (advance(1), on_step(step) if on_step else None))
        trainer = Trainer(
            model=model, args=arguments, train_dataset=blocks, data_collator=collator, callbacks=[callback]
        )
        trainer.remove_callback(PrinterCallback)
        with _own_randomness():
            trainer.train()
    return model.eval()


@contextmanager
def _own_randomness() -> Iterator[None]:
    """Give the caller's random state back after the Trainer has set seeds."""
    python, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 (the Trainer seeds the legacy one)
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(arrays)  # noqa: NPY002


class _Steps(TrainerCallback):  # type: ignore[misc]
    """Tells the number of each finished step."""

    def __init__(self, tell: Callable[[int], Any]) -> None:
        self.tell = tell

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.tell(state.global_step)


def _packed(tokenizer: Any, lines: Iterable[str], length: int) -> list[dict[str, list[int]]]:
    """The text as sequences of exactly `length` tokens, a separator between paragraphs."""
    between = [id for id in (tokenizer.eos_token_id, tokenizer.sep_token_id) if id is not None][:1]
    ids = list(
        chain.from_iterable(
            [*tokenizer(line, add_special_tokens=False, verbose=False).input_ids, *between] for line in lines
        )
    )
    if len(ids) < length:
        raise InputError(f"the text has {len(ids)} tokens, less than one sequence of {length}: give more text")
    starts = range(0, len(ids) - length + 1, length)
    return [{"input_ids": ids[start : start + length], "labels": ids[start : start + length]} for start in starts]
