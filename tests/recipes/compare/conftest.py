"""Three tables that no system has: one with a method, and two that train, in no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from relexify.methods.registry import METHODS
from relexify.steps import STEPS, Step, StepComparison, StepTraining, Variant
from relexify.storage.files import write_folder
from relexify.training.results.curve import Curve, Measurement
from relexify.training.results.result import TrainingResult

START, ALIGNED, CURVE = "start.txt", "aligned.txt", "learned.json"


@dataclass(frozen=True)
class Options:
    """Options of all three steps."""

    method: str = "blend"
    aligned_by: str = "dictionary"
    steps: int = 4
    plan: str = "direct"
    seed: int = 0
    selects_best: bool = False


def first_bits(method: str, seed: int) -> float:
    """Return where the curve of a run begins."""
    return 2.0 + list(METHODS).index(method) + seed / 100


def _begin(options: Options, context: object, model: str, output: Path) -> None:
    with write_folder(output) as folder:
        (folder / START).write_text(str(first_bits(options.method, options.seed)))
        (folder / ALIGNED).write_text(options.aligned_by)


def _shares(output: Path) -> dict[str, float]:
    return {"precision": 0.0 if (output / ALIGNED).read_text() == "random" else 0.25}


def _learn(options: Options, context: object, model: str, output: Path) -> None:
    """Write a curve from the number of the model that it takes down to half of it."""
    bits = float(Path(model, START).read_text())
    points = [
        Measurement(0, 0, options.plan, bits, 2.0),
        Measurement(options.steps, 8 * options.steps, options.plan, bits / 2, 2.0),
    ]
    with write_folder(output) as folder:
        Curve.of(points).save(folder / CURVE)
        (folder / START).write_text(str(bits / 2))


def _learned(folder: Path) -> TrainingResult:
    return TrainingResult(folder, Curve.load(folder / CURVE), 4, 32, seconds=2.0, tokens_per_second=16.0)


def _vary(options: Options, variant: Variant) -> Options:
    return replace(
        options,
        method=variant.method or options.method,
        aligned_by=variant.aligned_by or options.aligned_by,
        seed=variant.seed,
    )


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Register the tables, and return a function that writes a recipe."""
    common: dict[str, Any] = {"options": Options, "check": lambda options, context: None, "summary": ""}
    training = StepTraining(settings=lambda options: options, load=_learned)
    planned = replace(training, with_plan=lambda options, plan: replace(options, plan=plan))
    seed, comparison = (lambda options: options.seed), StepComparison(vary=_vary, evidence_quality=_shares)
    assert STEPS, "those of the systems are there before these are added"
    for step in (
        Step(
            "begin",
            order=11,
            run=_begin,
            method=lambda options: options.method,
            seed=seed,
            comparison=comparison,
            **common,
        ),
        Step("learn", order=41, run=_learn, training=planned, seed=seed, **common),
        Step("refine", order=42, run=_learn, training=training, seed=seed, **common),
    ):
        monkeypatch.setitem(STEPS._entries, step.table, step)
    (tmp_path / "text.txt").write_text("one line\n" * 50)
    (tmp_path / "model").mkdir()

    def written(tables: str) -> Path:
        file = tmp_path / "recipe.toml"
        file.write_text(f'output = "out"\nmodel = "./model"\ncorpus = "text.txt"\n{tables}')
        return file

    return written
