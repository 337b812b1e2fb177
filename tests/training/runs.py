"""Tiny training runs for tests, some of which are killed at a given moment."""

from __future__ import annotations

import os
import pkgutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from relexify.progress import report_to
from relexify.text import Corpus
from relexify.training.data.packing import PackedText, pack
from relexify.training.options import Training
from relexify.training.results.curve import Curve
from relexify.training.results.result import TrainingResult
from relexify.training.run import train
from tests import pico
from tests.processes import in_a_process

LENGTH, BATCH = 16, 4
TRAINING = Training(
    steps=12,
    batch=BATCH,
    length=LENGTH,
    learning_rate=1e-2,
    plan="direct",
    evaluate_every=3,
    save_every=2,
    report_to=(),
)
"""Twelve steps, with checkpoints after every second."""
LINES = pico.sentences(25)
"""An epoch of them is a few steps of `TRAINING`."""
HELD_OUT = pico.sentences(12, seed=1)


@dataclass(frozen=True)
class Run:
    """A source model, its text, and a folder for outputs."""

    source: Path
    corpus: Path
    held_out: Path
    folder: Path
    cache: Path

    def output(self, name: str = "out") -> Path:
        return self.folder / name

    def work(self, name: str = "out") -> Path:
        """The work folder with checkpoints."""
        return self.folder / f"{name}.training"

    def train(self, training: Training = TRAINING, name: str = "out", **options: Any) -> TrainingResult:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RELEXIFY_CACHE", str(self.cache))
            return train(
                self.source, self.output(name), self.corpus, training, **{"held_out": self.held_out, **options}
            )

    def train_until_killed(self, moment: Moment, training: Training = TRAINING, name: str = "out") -> None:
        """Train in a process that is killed at a moment."""
        assert in_a_process(train_and_die, self, moment, training, name) == -signal.SIGKILL, f"{moment} never came"


def make_run(folder: Path, family: str = "gpt2", **options: Any) -> Run:
    """A source of a family with a tiny text; options as for `save_source`."""
    run = Run(folder / "source", folder / "corpus.txt", folder / "held-out.txt", folder, folder / "cache")
    save_source(run.source, family, **options)
    run.corpus.write_text("\n".join(LINES))
    run.held_out.write_text("\n".join(HELD_OUT))
    return run


def beside(run: Run, folder: Path) -> Run:
    """The run with another folder for outputs."""
    return replace(run, folder=folder)


def save_source(folder: Path, family: str, *, dropout: bool = True, dtype: torch.dtype = torch.float32) -> Path:
    model, tokenizer = pico.pair(family)
    for name in vars(model.config):
        if not dropout and isinstance(getattr(model.config, name), float) and ("dropout" in name or "pdrop" in name):
            setattr(model.config, name, 0.0)
    model.to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def packed_in(cache: Path, corpus: Corpus, tokenizer: Any) -> PackedText:
    """Pack text in a cache of one's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(cache))
        return pack(corpus, tokenizer)


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_bits(one: Path, other: Path) -> None:
    first, second = tensors(one), tensors(other)
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert not different


def assert_close(one: Path, other: Path, *, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    first, second = tensors(one), tensors(other)
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(
            first[name], second[name], rtol=rtol, atol=atol, msg=lambda text, at=name: f"{at}: {text}"
        )


def assert_curves_close(one: Curve, other: Curve) -> None:
    assert [point.step for point in one.points] == [point.step for point in other.points]
    for first, second in zip(one.points, other.points, strict=True):
        assert first.bits_per_byte == pytest.approx(second.bits_per_byte, abs=1e-5)
        assert first.loss == (None if second.loss is None else pytest.approx(second.loss, rel=1e-4))


@dataclass(frozen=True)
class Moment:
    """When a training dies: the n-th time that something is about to be done.

    Attributes:
        doing: `step` (just done), `stage` (just begun), `measured` (a stage, all steps done), or a key of `_PLACES`.
        count: The how manieth time.
    """

    doing: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.doing} {self.count}"


_TARGETS = {
    "writing": ("relexify.training.engine.trainer.StageTrainer", "_save_optimizer_and_scheduler"),
    "sealing": ("relexify.storage.runs.checkpoints", "seal"),
    "rotating": ("relexify.storage.runs.checkpoints.shutil", "rmtree"),
    "keeping a stage": ("relexify.training.run", "_keep_stage"),
    "finishing": ("relexify.training.run", "_write_result"),
}


@dataclass
class _Countdown:
    """Kill the process, without cleaning up, at the n-th call."""

    left: int
    otherwise: Callable[..., Any] = field(default=lambda *arguments, **options: None)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.otherwise(*arguments, **options)


def train_and_die(run: Run, moment: Moment | None, training: Training, name: str) -> None:
    """For a process of its own; without a moment it lives."""
    with dying_at(moment):
        run.train(training, name)


def dying_at(moment: Moment | None) -> AbstractContextManager[None]:
    """Ends this process at a moment of the work inside; for processes that are to die."""
    if moment is None:
        return nullcontext()
    countdown = _Countdown(moment.count)
    if moment.doing in _TARGETS:
        owner_name, name = _TARGETS[moment.doing]
        owner = pkgutil.resolve_name(owner_name)
        countdown.otherwise = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:  # a function, so that it can be a method
            return countdown(*arguments, **options)

        setattr(owner, name, counted)
        return nullcontext()

    @contextmanager
    def reporter(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        is_training = f"{description}: ".startswith("training: ")
        if is_training and moment.doing == "stage":
            countdown()
        # An advance by 0 only changes the status.
        yield lambda amount, status="": countdown() if amount and is_training and moment.doing == "step" else None
        if is_training and moment.doing == "measured":
            countdown()

    return report_to(reporter)
