"""A comparison: several runs on the same text, each with one curve for every seed.

The results of a run are read off its mean curve: the steps at which every seed was scored, and the mean of the seeds
there. If one seed stopped earlier than another, the run ends with the last step that they share. A run counts by the
model that it keeps: the last one, or the best one of every seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from relexify.errors import InputError, check_choice
from relexify.reports.statistics import Statistic
from relexify.reports.task_scores import TaskScores
from relexify.storage.files import write_file
from relexify.storage.json import parse_json
from relexify.training.results.curve import Curve, Measurement

__all__ = ["METRICS", "Comparison", "Reach", "TrainingCost", "step_reaching", "steps_to_reach"]

METRICS = ("bits_per_byte", "perplexity")
"""The metrics to compare by; lower is better for both."""


@dataclass(frozen=True)
class Reach:
    """When one run is as good as the model that another one keeps.

    Attributes:
        run: The run that reaches the score.
        target: The run whose score is to be reached: the score of the model that it keeps.
        step: Where it is reached, interpolated between two scores; None if never.
        factor: Tokens that the target has seen, up to the model that it keeps, divided by those that this run has seen
            then; None if the score is never reached, or is reached without training.
    """

    run: str
    target: str
    step: float | None
    factor: float | None


@dataclass(frozen=True)
class TrainingCost:
    """The cost of training one model.

    Attributes:
        machine: The GPU, or `"CPU"`.
        seconds: Wall-clock time, with everything: loading, compilation, scoring and saving; None if it was resumed, so
            that a part of it is not known.
        tokens_per_second: Speed of training alone; None if it was too short to measure it.
    """

    machine: str
    seconds: float | None
    tokens_per_second: float | None


@dataclass(frozen=True)
class Comparison:
    """Several runs on the same text.

    Attributes:
        title: The title of the report.
        curves: One curve for each seed of every run, by the run's name, in the order of the tables.
        notes: Further facts (machine, model, …), as plain data for json.
        tasks: The scores on tasks, by the run's name; one list for all seeds.
        keeps_best: Whether every seed keeps its best model instead of its last one.
        earlier: If models were trained twice, the curves of the first training, as in `curves`. For bilingual models,
            that is the target language trained alone.
        plans: The training plan of every run, if known, by the run's name.
        costs: The cost of training each seed, if known, by the run's name.
        evidence_quality: How good the evidence of a run was: shares from 0 to 1 by name, for each seed.
        settings: Settings that the method of a run decides, if known, by the run's name and their recipe key.

    Raises:
        InputError: There is no run, a run has no measurements, its seeds were measured at different steps, or something
            belongs to no run.
    """

    title: str
    curves: Mapping[str, tuple[Curve, ...]]
    notes: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, tuple[TaskScores, ...]] = field(default_factory=dict)
    keeps_best: bool = False
    earlier: Mapping[str, tuple[Curve, ...]] = field(default_factory=dict)
    plans: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, tuple[TrainingCost, ...]] = field(default_factory=dict)
    evidence_quality: Mapping[str, tuple[Mapping[str, float], ...]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.curves:
            raise InputError(f"the comparison {self.title!r} has no runs: give at least one")
        for run in (*self.tasks, *self.earlier, *self.plans, *self.costs, *self.settings):
            self._seeds(run)
        for run, seeds in self.curves.items():
            if not seeds or not all(curve.points for curve in seeds):
                raise InputError(f"the run {run!r} of {self.title!r} has no measurements: train it, or leave it out")
            if not _common_steps(seeds):
                raise InputError(
                    f"the seeds of the run {run!r} of {self.title!r} have no step in common: "
                    "measure all of them at the same steps"
                )

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of bilingual models, the source language first; empty for others."""
        first = next(iter(self.curves.values()))[0].first
        return tuple(first.by_language or ())

    def different_settings(self) -> list[str]:
        """Return the recipe keys of settings in which the runs differ."""
        keys = dict.fromkeys(key for settings in self.settings.values() for key in settings)
        return [key for key in keys if len({bool(settings.get(key)) for settings in self.settings.values()}) > 1]

    def mean_curve(self, run: str) -> Curve:
        """Return the mean over the seeds of a run, at the steps that all of them share."""
        seeds = self._seeds(run)
        measured = [{point.step: point for point in curve.points} for curve in seeds]
        return Curve(tuple(_mean_measurement([points[step] for points in measured]) for step in _common_steps(seeds)))

    def at(self, run: str, share: float, *, metric: str = "bits_per_byte") -> Statistic:
        """Return a run's score nearest to a share of its last step.

        Args:
            run: The name of the run.
            share: 0 is the start, 0.1 a tenth of the steps, 1 the end.
            metric: One of `METRICS`.

        Raises:
            InputError: There is no such run or metric, or the share is not between 0 and 1.
        """
        if not 0 <= share <= 1:
            raise InputError(f"share = {share} is not a share: give a number from 0 to 1")
        return self.at_step(run, share * _common_steps(self._seeds(run))[-1], metric=metric)

    def at_step(self, run: str, step: float, *, metric: str = "bits_per_byte") -> Statistic:
        """Return a run's score nearest to a step; the earlier of two equally near.

        Raises:
            InputError: There is no such run or metric.
        """
        check_choice("metric", metric, METRICS)
        seeds = self._seeds(run)
        measured = min(_common_steps(seeds), key=lambda common: abs(common - step))
        values = [float(getattr(curve.at(measured), metric)) for curve in seeds]
        return Statistic.of(values, measured)

    def best(self, run: str) -> Statistic:
        """Return the lowest bits per byte of a run's mean curve; the earliest of equals."""
        points = self.mean_curve(run).points
        lowest = min(points, key=lambda point: math.inf if math.isnan(point.bits_per_byte) else point.bits_per_byte)
        return self.at_step(run, lowest.step)

    def kept(self, run: str, *, metric: str = "bits_per_byte") -> Statistic:
        """Return the score of the models that the seeds of a run keep, their last or their best ones.

        Raises:
            InputError: There is no such run or metric.
        """
        if not self.keeps_best:
            return self.at(run, 1, metric=metric)
        check_choice("metric", metric, METRICS)
        points = [curve.best for curve in self._seeds(run)]
        values = [float(getattr(point, metric)) for point in points]
        return Statistic.of(values, round(fmean(point.step for point in points)))

    def tokens_per_step(self, run: str) -> float:
        """Return the tokens that a run sees in one step; 0 if it was not trained.

        Raises:
            InputError: There is no such run.
        """
        last = self._seeds(run)[0].last
        return last.tokens / last.step if last.step else 0.0

    @property
    def step_size(self) -> str:
        """Tokens per step as text; a range if they differ between runs, since little text is trained in small steps."""
        sizes = {round(self.tokens_per_step(run)) for run in self.curves} - {0}
        least, most = min(sizes, default=0), max(sizes, default=0)
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"

    def save(self, path: str | Path) -> Path:
        """Write as json."""
        content: dict[str, Any] = {
            "kind": "comparison",
            "title": self.title,
            "notes": dict(self.notes),
            "keeps_best": self.keeps_best,
            "curves": _curves_as_data(self.curves),
            "tasks": {run: [scores.as_table() for scores in found] for run, found in self.tasks.items()},
            "plans": dict(self.plans),
            "costs": {run: [asdict(cost) for cost in found] for run, found in self.costs.items()},
        }
        if self.earlier:
            content["earlier"] = _curves_as_data(self.earlier)
        if self.evidence_quality:
            content["shares"] = {
                run: [dict(shares) for shares in seeds] for run, seeds in self.evidence_quality.items()
            }
        if self.settings:
            content["settings"] = {run: dict(settings) for run, settings in self.settings.items()}
        return write_file(path, json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Read what `save` wrote.

        Raises:
            InputError: The file is missing or damaged, or holds something else.
        """
        try:
            content = parse_json(Path(path).read_text(encoding="utf-8"))
            tasks = {
                str(run): tuple(map(TaskScores.of_table, found)) for run, found in content.get("tasks", {}).items()
            }
            return cls(
                str(content["title"]),
                _read_curves(content["curves"]),
                dict(content["notes"]),
                tasks,
                keeps_best=bool(content.get("keeps_best", False)),
                earlier=_read_curves(content.get("earlier", {})),
                plans=dict(content["plans"]),
                costs={run: tuple(TrainingCost(**cost) for cost in found) for run, found in content["costs"].items()},
                evidence_quality={run: tuple(seeds) for run, seeds in content.get("shares", {}).items()},
                settings={run: dict(found) for run, found in content.get("settings", {}).items()},
            )
        except KeyError as error:
            raise InputError(f"{path} is not a comparison (it lacks {error}): write the report again") from error
        except (OSError, ValueError, TypeError, AttributeError, InputError) as error:
            raise InputError(f"{path} is not a comparison ({error}): write the report again") from error

    def _seeds(self, run: str) -> tuple[Curve, ...]:
        if run not in self.curves:
            raise InputError(f"{self.title!r} has no run {run!r}: choose one of {', '.join(self.curves)}")
        return self.curves[run]


def steps_to_reach(comparison: Comparison) -> list[Reach]:
    """Return, for every ordered pair of runs, when the first is as good as the model that the second keeps."""
    runs = list(comparison.curves)
    curves = {run: comparison.mean_curve(run) for run in runs}
    kept = {run: comparison.kept(run) for run in runs}
    sizes = {run: comparison.tokens_per_step(run) for run in runs}

    def reach(run: str, target: str) -> Reach:
        step = step_reaching(curves[run], kept[target].mean)
        tokens, other_tokens = (step or 0.0) * sizes[run], kept[target].step * sizes[target]
        return Reach(run, target, step, other_tokens / tokens if tokens and other_tokens else None)

    return [reach(run, target) for run in runs for target in runs if run != target]


def step_reaching(curve: Curve, bits_per_byte: float) -> float | None:
    """Return the step at which a curve first reaches a number of bits per byte, interpolated; None if never."""
    reached = next((index for index, point in enumerate(curve.points) if point.bits_per_byte <= bits_per_byte), None)
    if reached is None:
        return None
    after = curve.points[reached]
    before = curve.points[reached - 1] if reached else after
    fall = before.bits_per_byte - after.bits_per_byte
    if not (0 < fall < math.inf):
        return float(after.step)
    return before.step + (after.step - before.step) * (before.bits_per_byte - bits_per_byte) / fall


def _curves_as_data(curves: Mapping[str, tuple[Curve, ...]]) -> dict[str, Any]:
    return {run: [curve.as_list() for curve in seeds] for run, seeds in curves.items()}


def _read_curves(table: Mapping[str, Any]) -> dict[str, tuple[Curve, ...]]:
    return {
        str(run): tuple(Curve.of(Measurement(**point) for point in points) for points in seeds)
        for run, seeds in table.items()
    }


def _common_steps(seeds: Sequence[Curve]) -> list[int]:
    return sorted(set.intersection(*({point.step for point in curve.points} for curve in seeds)))


def _mean_measurement(points: Sequence[Measurement]) -> Measurement:
    """Return the mean of measurements of several seeds at the same step."""
    losses = [point.loss for point in points if point.loss is not None]
    return Measurement(
        step=points[0].step,
        tokens=points[0].tokens,
        stage=points[0].stage,
        bits_per_byte=fmean(point.bits_per_byte for point in points),
        perplexity=fmean(point.perplexity for point in points),
        loss=fmean(losses) if losses else None,
    )
