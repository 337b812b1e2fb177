"""Several runs side by side, each with one curve a seed.

All that is told of a run is read off its mean curve: the steps at which every seed was measured, and the mean of the
seeds there. Where one seed stopped earlier than another, the run therefore ends with the last step they share. What
counts of a run is the model that it hands on: the last one, or the best one of every seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from relexify.errors import InputError
from relexify.reports.task_scores import TaskScores
from relexify.storage.files import write_file
from relexify.training.curve import Curve, Measurement

__all__ = ["METRICS", "Comparison", "Reach", "Statistic", "step_reaching", "steps_to_reach"]

METRICS = ("bits_per_byte", "perplexity")
"""What can be compared; of both, less is better."""


@dataclass(frozen=True)
class Statistic:
    """A number measured once a seed.

    Attributes:
        mean: Over the seeds.
        deviation: The sample standard deviation; None of a single seed.
        seeds: How many there were.
        step: The step at which it was measured; the mean of them where every seed has one of its own.
    """

    mean: float
    deviation: float | None
    seeds: int
    step: int


@dataclass(frozen=True)
class Reach:
    """When one run is as good as the model that another one hands on.

    Attributes:
        run: The run that is to become as good.
        target: The run whose bits per byte are to be reached, those of the model that it hands on.
        step: Where it is reached, between two measurements by a straight line; None if never.
        factor: Steps of the target, up to the model that it hands on, for one of these; None if it is never reached, or
            without any training.
    """

    run: str
    target: str
    step: float | None
    factor: float | None


@dataclass(frozen=True)
class Comparison:
    """Several runs on the same text.

    Attributes:
        title: What is compared, such as the language.
        curves: One curve a seed for every run, by the run's name, in the order they are to be shown.
        tokens_a_step: Tokens seen in one step, by every run.
        notes: What else a reader must know (machine, recipe, …), as plain data for json.
        tasks: What runs came to on tasks, by the run's name; all seeds of a run side by side.
        keeps_best: Whether every seed hands its best measured model on rather than its last.
        earlier: Of bilingual models, what was measured while the new language was trained alone, as `curves`.

    Raises:
        InputError: There is no run, a run has no measurements, its seeds were measured at different steps, or tasks
            belong to no run.
    """

    title: str
    curves: Mapping[str, tuple[Curve, ...]]
    tokens_a_step: int
    notes: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, tuple[TaskScores, ...]] = field(default_factory=dict)
    keeps_best: bool = False
    earlier: Mapping[str, tuple[Curve, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.curves:
            raise InputError(f"the comparison {self.title!r} has no runs: give at least one")
        if self.tokens_a_step < 1:
            raise InputError(f"tokens_a_step = {self.tokens_a_step} is not possible: give 1 or more")
        for run in (*self.tasks, *self.earlier):
            self._seeds(run)
        for run, seeds in self.curves.items():
            if not seeds or not all(curve.points for curve in seeds):
                raise InputError(f"the run {run!r} of {self.title!r} has no measurements: train it, or leave it out")
            if not _common_steps(seeds):
                raise InputError(
                    f"the seeds of the run {run!r} of {self.title!r} have no step in common: "
                    "measure all of them at the same steps"
                )

    def mean_curve(self, run: str) -> Curve:
        """The mean over the seeds of a run, at the steps that all of them share."""
        seeds = self._seeds(run)
        measured = [{point.step: point for point in curve.points} for curve in seeds]
        return Curve(tuple(_mean([points[step] for points in measured]) for step in _common_steps(seeds)))

    def at(self, run: str, share: float, *, metric: str = "bits_per_byte") -> Statistic:
        """A run's measurement nearest to a share of its last step.

        Args:
            run: The name of the run.
            share: 0 is the start, 0.1 a tenth of the steps, 1 the end.
            metric: One of `METRICS`.

        Raises:
            InputError: There is no such run or metric, or the share lies outside.
        """
        if not 0 <= share <= 1:
            raise InputError(f"share = {share} is not a share: give a number from 0 to 1")
        return self.at_step(run, share * _common_steps(self._seeds(run))[-1], metric=metric)

    def at_step(self, run: str, step: float, *, metric: str = "bits_per_byte") -> Statistic:
        """A run's measurement nearest to a step; the earlier of two as near.

        Raises:
            InputError: There is no such run or metric.
        """
        _check_metric(metric)
        seeds = self._seeds(run)
        measured = min(_common_steps(seeds), key=lambda common: abs(common - step))
        values = [float(getattr(curve.at(measured), metric)) for curve in seeds]
        return Statistic(fmean(values), _deviation(values), len(values), measured)

    def best(self, run: str) -> Statistic:
        """The lowest bits per byte of a run's mean curve; the earliest of equals."""
        points = self.mean_curve(run).points
        lowest = min(points, key=lambda point: math.inf if math.isnan(point.bits_per_byte) else point.bits_per_byte)
        return self.at_step(run, lowest.step)

    def kept(self, run: str, *, metric: str = "bits_per_byte") -> Statistic:
        """What counts of a run: the models that its seeds hand on, their last or their best ones.

        Raises:
            InputError: There is no such run or metric.
        """
        if not self.keeps_best:
            return self.at(run, 1, metric=metric)
        _check_metric(metric)
        points = [curve.best for curve in self._seeds(run)]
        values = [float(getattr(point, metric)) for point in points]
        return Statistic(fmean(values), _deviation(values), len(values), round(fmean(point.step for point in points)))

    def save(self, path: str | Path) -> Path:
        """Write as json."""
        content = {
            "kind": "comparison",
            "title": self.title,
            "tokens_a_step": self.tokens_a_step,
            "notes": dict(self.notes),
            "keeps_best": self.keeps_best,
            "curves": _plain(self.curves),
            **({"earlier": _plain(self.earlier)} if self.earlier else {}),
            "tasks": {run: [scores.as_table() for scores in found] for run, found in self.tasks.items()},
        }
        return write_file(path, json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Read what `save` wrote.

        Raises:
            InputError: The file is missing or damaged, or holds something else.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            tasks = {
                str(run): tuple(map(TaskScores.of_table, found)) for run, found in content.get("tasks", {}).items()
            }
            return cls(
                str(content["title"]),
                _curves(content["curves"]),
                int(content["tokens_a_step"]),
                dict(content["notes"]),
                tasks,
                keeps_best=bool(content.get("keeps_best", False)),
                earlier=_curves(content.get("earlier", {})),
            )
        except KeyError as error:
            raise InputError(f"{path} holds no comparison (it lacks {error}): write the report anew") from error
        except (OSError, ValueError, TypeError, AttributeError, InputError) as error:
            raise InputError(f"{path} holds no comparison ({error}): write the report anew") from error

    def _seeds(self, run: str) -> tuple[Curve, ...]:
        if run not in self.curves:
            raise InputError(f"{self.title!r} has no run {run!r}: choose one of {', '.join(self.curves)}")
        return self.curves[run]


def steps_to_reach(comparison: Comparison) -> list[Reach]:
    """For every ordered pair of runs: when the one is as good as what the other hands on."""
    runs = list(comparison.curves)
    curves = {run: comparison.mean_curve(run) for run in runs}
    kept = {run: comparison.kept(run) for run in runs}
    return [_reach(run, curves[run], target, kept[target]) for run in runs for target in runs if run != target]


def step_reaching(curve: Curve, bits_per_byte: float) -> float | None:
    """Where a curve first comes down to some bits per byte, by straight lines between measurements; None if never."""
    reached = next((place for place, point in enumerate(curve.points) if point.bits_per_byte <= bits_per_byte), None)
    if reached is None:
        return None
    after = curve.points[reached]
    before = curve.points[reached - 1] if reached else after
    fall = before.bits_per_byte - after.bits_per_byte
    if not (0 < fall < math.inf):
        return float(after.step)
    return before.step + (after.step - before.step) * (before.bits_per_byte - bits_per_byte) / fall


def _reach(run: str, curve: Curve, target: str, kept: Statistic) -> Reach:
    step = step_reaching(curve, kept.mean)
    return Reach(run, target, step, kept.step / step if step and kept.step else None)


def _plain(curves: Mapping[str, tuple[Curve, ...]]) -> dict[str, Any]:
    return {run: [curve.as_list() for curve in seeds] for run, seeds in curves.items()}


def _curves(table: Mapping[str, Any]) -> dict[str, tuple[Curve, ...]]:
    return {
        str(run): tuple(Curve.of(Measurement(**point) for point in points) for points in seeds)
        for run, seeds in table.items()
    }


def _check_metric(metric: str) -> None:
    if metric not in METRICS:
        raise InputError(f"there is no metric {metric!r}: choose one of {', '.join(METRICS)}")


def _common_steps(seeds: Sequence[Curve]) -> list[int]:
    return sorted(set.intersection(*({point.step for point in curve.points} for curve in seeds)))


def _mean(points: Sequence[Measurement]) -> Measurement:
    losses = [point.loss for point in points if point.loss is not None]
    return Measurement(
        step=points[0].step,
        tokens=points[0].tokens,
        stage=points[0].stage,
        bits_per_byte=fmean(point.bits_per_byte for point in points),
        perplexity=fmean(point.perplexity for point in points),
        loss=fmean(losses) if losses else None,
    )


def _deviation(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return stdev(values) if all(map(math.isfinite, values)) else math.nan
