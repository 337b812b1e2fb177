"""Held-out scores during training, by step."""

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

__all__ = ["EARLIER_CURVE_FILE", "SOURCE", "TARGET", "Curve", "Measurement"]

EARLIER_CURVE_FILE = "earlier_curve.json"
"""The curve of the training before the last one, in the folder of a bilingual model or of a trial."""

SOURCE, TARGET = "source", "target"
"""Names of the two languages of a model that is trained on text of both."""


@dataclass(frozen=True)
class Measurement:
    """Held-out scores at one step.

    Attributes:
        step: Number of finished steps, over all stages.
        tokens: Number of tokens seen so far.
        stage: The stage that was running.
        bits_per_byte: The score; it is comparable across tokenizers. With two languages, the mean of both.
        perplexity: Perplexity per token; for a masked language model, the pseudo-perplexity. With two languages, the
            geometric mean of both.
        loss: Mean training loss since the last measurement, in nats per token; None before the first step. With two
            objectives, the sum of both losses.
        by_language: With two languages, the bits per byte of each, the target language last.
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
        """Return a curve of measurements in any order; of two measurements at the same step, the later is kept."""
        return cls(tuple(point for _, point in sorted({point.step: point for point in points}.items())))

    @property
    def first(self) -> Measurement:
        """The measurement before training."""
        return self.points[0]

    @property
    def last(self) -> Measurement:
        """The measurement at the end."""
        return self.points[-1]

    @property
    def best(self) -> Measurement:
        """The measurement with the lowest bits per byte; the earliest if several are equal. NaN counts as the worst."""
        return min(self.points, key=lambda point: (math.isnan(point.bits_per_byte), point.bits_per_byte))

    @property
    def by_language(self) -> dict[str, Curve]:
        """The curve of each language, target language first; with one language, this curve under the name ''."""
        return {
            name: Curve(tuple(replace(point, bits_per_byte=(point.by_language or {})[name]) for point in self.points))
            for name in reversed(list(self.first.by_language or ()))
        } or {"": self}

    @property
    def target(self) -> Curve:
        """The curve of the target language; with one language, this curve."""
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
