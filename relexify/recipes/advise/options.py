"""What advice tries: the model, text and evidence of a transfer, and the length of the trainings."""

from __future__ import annotations

from dataclasses import dataclass

from relexify.errors import InputError, check_number
from relexify.methods.registry import METHODS
from relexify.recipes.file.comparison import Run
from relexify.registry import choose
from relexify.systems.transfer.checks import validate_transfer
from relexify.systems.transfer.defaults import ADVICE_BATCH, ADVICE_BYTES, ADVICE_LENGTH, ADVICE_STEPS
from relexify.systems.transfer.options import Transfer, given_translations, with_method
from relexify.training.options import Training
from relexify.training.plan import plan_stages

__all__ = ["BASELINE", "DEFAULT", "Advise", "planned_runs"]

DEFAULT = "blend"
"""The method that combines all kinds of evidence: its loss without one kind measures the use of that kind."""
BASELINE = "random"
"""The method without evidence that others are compared with."""


@dataclass(frozen=True)
class Advise:
    """What advice is based on.

    Attributes:
        transfer: The model, the text and the evidence; its method does not matter, its `held_out_bytes` are scored, and
            its `output` is the folder of the trials.
        methods: The methods to try; if empty, all that the evidence suffices for and that need no training themselves.
        steps: Optimiser steps of each training; with 0, nothing is trained, and held-out words rank the methods.
        batch: Sequences per step.
        length: Tokens per sequence.
        text_bytes: Bytes of the text to use; tokenizer, vectors and trainings see the same part.
    """

    transfer: Transfer
    methods: tuple[str, ...] = ()
    steps: int = ADVICE_STEPS
    batch: int = ADVICE_BATCH
    length: int = ADVICE_LENGTH
    text_bytes: int = ADVICE_BYTES

    def __post_init__(self) -> None:
        if self.steps:
            plan_stages(Training(steps=self.steps, batch=self.batch, length=self.length, seed=self.transfer.seed))
        elif self.transfer.dictionary is None:
            raise InputError(
                "`steps=0` ranks the methods by held-out words of a dictionary, and there is none: give a `dictionary` "
                "or a number of steps"
            )
        check_number("text_bytes", self.text_bytes)
        for name in self.methods:
            choose(name, METHODS, "method")


def planned_runs(options: Advise) -> tuple[Run, ...]:
    """Return the runs to compare: methods, the default without each kind of translations, and a baseline.

    Raises:
        InputError: A method that was named lacks evidence.
    """
    transfer = options.transfer
    for name in options.methods:
        validate_transfer(with_method(transfer, name))
    names = tuple(dict.fromkeys(options.methods)) or tuple(name for name in METHODS if _applies(name, transfer))
    # Only training measures how useful a kind of evidence is.
    left_out = given_translations(transfer) if options.steps and DEFAULT in names else []
    return (
        *(Run(name, name) for name in names),
        *(Run(f"{DEFAULT}-without-{kind}", DEFAULT, without=(kind,)) for kind in left_out),
        *([] if BASELINE in names else [Run(BASELINE, BASELINE)]),
    )


def _applies(name: str, transfer: Transfer) -> bool:
    """Whether a method can be tried within minutes, with the evidence and the vocabulary of a transfer."""
    method = METHODS[name]
    # Word vectors and rows of tokens are given with the same option, so rows are tried only on request.
    if method.is_baseline or method.train_tokenizer or {"model", "token vectors"} & set(method.needs):
        return False
    try:
        validate_transfer(with_method(transfer, name))
    except InputError:
        return False
    return True
