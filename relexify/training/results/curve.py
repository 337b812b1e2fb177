"""Held-out scores along a training, by step."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.storage.files import write_file
from relexify.storage.json import parse_json

__all__ = ["SOURCE", "TARGET", "Curve", "Measurement"]

SOURCE, TARGET = "source", "target"
"""Names of the two languages of a model that is trained on text of both."""


@dataclass(frozen=True)
class Measurement:
    """Held-out scores at one step.

    Attributes:
        step: Finished steps, over all stages.
        tokens: Tokens seen so far.
        stage: The stage that was running.
        bits_per_byte: Comparable across tokenizers.
        perplexity: Per token; for a masked language model, the pseudo-perplexity.
        loss: Mean training loss, in nats per token, since the last measurement; None before the first step. With two
            objectives, the sum of theirs.
        by_language: With two languages, the bits per byte of each, of the target language last; `bits_per_byte` is
            their mean, and `perplexity` the geometric mean of theirs.
    """

    step: int
    tokens: int
    stage: str
    bits_per_byte: float
    perplexity: float
    loss: float | None = None
    by_language: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Curve:
    """Measurements of one run, by ascending step."""

    points: tuple[Measurement, ...]

    @classmethod
    def of(cls, points: Iterable[Measurement]) -> Curve:
        """Return a curve of measurements in any order; of two at the same step the later one counts."""
        return cls(tuple(point for _, point in sorted({point.step: point for point in points}.items())))

    @property
    def first(self) -> Measurement:
        """Before training."""
        return self.points[0]

    @property
    def last(self) -> Measurement:
        """At the end."""
        return self.points[-1]

    @property
    def best(self) -> Measurement:
        """The lowest bits per byte; the earliest of equals. NaN counts as the worst."""
        return min(self.points, key=lambda point: (math.isnan(point.bits_per_byte), point.bits_per_byte))

    @property
    def by_language(self) -> dict[str, Curve]:
        """The curve of each language, the target language first; with one language, this one, named ''."""
        return {
            name: Curve(tuple(replace(point, bits_per_byte=(point.by_language or {})[name]) for point in self.points))
            for name in reversed(list(self.first.by_language or ()))
        } or {"": self}

    @property
    def target(self) -> Curve:
        """The curve of the target language; with one language, this one."""
        return next(iter(self.by_language.values()))

    def at(self, step: int) -> Measurement:
        """Return the measurement nearest to a step."""
        return min(self.points, key=lambda point: abs(point.step - step))

    def as_list(self) -> list[dict[str, Any]]:
        """Return plain data for json."""
        found = [asdict(point) for point in self.points]
        for values in found:
            if values["by_language"] is None:
                del values["by_language"]
        return found

    def save(self, path: str | Path) -> Path:
        """Write as json."""
        return write_file(path, json.dumps(self.as_list(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Curve:
        """Read what `save` wrote.

        Raises:
            InputError: The file is missing or damaged.
        """
        try:
            return cls.of(Measurement(**point) for point in parse_json(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path} holds no training curve ({error}): train again") from error
