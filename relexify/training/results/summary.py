"""The result of a training in words and tables: held-out scores along the way, the effort, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from relexify.scoring import format_perplexity
from relexify.steps import ResultTable
from relexify.training.results.curve import Curve, Measurement
from relexify.training.results.result import TrainingResult

__all__ = ["FEWEST_TOKENS", "TrainingVerdict", "curve_table", "judge_training", "summarise_training"]

MAX_ROWS = 12
"""Rows of a training curve that are shown."""
LEAST_TRAINING_GAIN = 0.01
"""Bits per byte that count as a gain, or as a loss, of a training."""
FEWEST_TOKENS = 10_000
"""Tokens of training below which scores, and the order of several trainings, say nothing about longer ones: 20 steps of
`relexify advise`. A choice."""

Outcome = Literal["improving", "short", "finished", "overfitted", "unstable", "worse"]


@dataclass(frozen=True)
class TrainingVerdict:
    """Whether a training helped, and whether more of it would.

    Attributes:
        outcome: `improving`, if scores were still improving when it ended; `short`, if they had not become worse, but
            it has seen fewer than `FEWEST_TOKENS`; `finished`, if they were not improving, or if they became worse
            again and the best step was kept; `overfitted`, if they did and it was not; `unstable`, if no text had been
            seen twice then; `worse`, if they became worse and never were better than before. Differences below
            `LEAST_TRAINING_GAIN` do not count.
        headline: The outcome in a sentence.
        details: Further sentences: the scores, and what to do next.
    """

    outcome: Outcome
    headline: str
    details: tuple[str, ...]

    @property
    def reason(self) -> str:
        """All sentences as one text."""
        return " ".join((self.headline, *self.details))


def judge_training(curve: Curve, selected: int, *, new_text_steps: int = 0) -> TrainingVerdict:
    """Judge a training by its scores on held-out text; with two languages, by the target language.

    Args:
        curve: The scores.
        selected: The step whose parameters were kept.
        new_text_steps: Steps before any text was seen for the second time; 0 if it is not known.
    """
    (language, target), *others = curve.by_language.items()
    text = f"Held-out text ({language})" if language else "Held-out text"
    verdict = _judge(target, selected, text, is_new_text=target.last.step <= new_text_steps)
    details = [*verdict.details]
    for name, other in others:
        score, before = other.at(selected).bits_per_byte, other.first.bits_per_byte
        details.append(f"Held-out text ({name}) takes {score:.3f}, {before:.3f} at step 0.")
        if selected != curve.last.step:
            details.append(f"Step {selected:,} has the best mean of both languages.")
    return replace(verdict, details=tuple(details))


def summarise_training(result: TrainingResult) -> list[ResultTable | str]:
    """Return the curve of held-out scores as a table, and the effort and the verdict as sentences."""
    speed = f"; {result.tokens_per_second:,.0f} tokens/s without scoring" if result.tokens_per_second else ""
    taken = f"; {result.seconds:,.0f} s since it was resumed" if result.resumed else f" in {result.seconds:,.0f} s"
    return [
        curve_table(result.curve, result.selected),
        f"{result.tokens:,} tokens{taken}{speed}",
        judge_training(result.curve, result.selected, new_text_steps=result.new_text_steps).reason,
    ]


def curve_table(curve: Curve, selected: int) -> ResultTable:
    """Return about a dozen points, among them the first, the last, the best and the selected one, which is marked."""
    points = curve.points
    every = -(-len(points) // MAX_ROWS)
    indices = {0, len(points) - 1, *range(0, len(points), every)}
    languages = list(curve.first.by_language or ())
    scores = [f"{name}: bits per byte" for name in (*languages, "mean")]
    if not languages:
        scores = ["bits per byte", "perplexity"]
    rows = [["step", "tokens", "stage", *scores]]
    for index, point in enumerate(points):
        if index not in indices and point.step not in (selected, curve.best.step):
            continue
        mark = " (selected)" if point.step == selected != curve.last.step else ""
        values = [f"{score:.4f}" for score in (*(point.by_language or {}).values(), point.bits_per_byte)]
        if not languages:
            values.append(format_perplexity(point.perplexity))
        rows.append([f"{point.step:,}{mark}", f"{point.tokens:,}", point.stage, *values])
    return ResultTable("Held-out text (lower is better)", rows)


def _judge(curve: Curve, selected: int, text: str, *, is_new_text: bool) -> TrainingVerdict:
    first, last, kept = curve.first, curve.last, curve.at(selected)
    scores = f"{text} takes {kept.bits_per_byte:.3f} bits per byte, {first.bits_per_byte:.3f} at step 0"
    best = curve.best if first.bits_per_byte - curve.best.bits_per_byte >= LEAST_TRAINING_GAIN else first
    if last.bits_per_byte - best.bits_per_byte >= LEAST_TRAINING_GAIN:
        return _judge_worse(scores, first, best, last, kept, is_new_text=is_new_text)
    earlier = min(curve.points[:-1] or curve.points, key=lambda point: abs(point.step - 0.75 * last.step))
    if earlier is not first:
        scores += f" and {earlier.bits_per_byte:.3f} at step {earlier.step:,}"
    if last.tokens < FEWEST_TOKENS:
        # Neither a slope nor a flat end says anything: the learning rate falls until the last step of any training.
        headline = "This training is too short to be judged."
        if first.bits_per_byte - last.bits_per_byte >= LEAST_TRAINING_GAIN:
            headline = "The model has improved, but in too short a training to judge it by."
        few = f"It has seen only {last.tokens:,} tokens."
        return TrainingVerdict("short", headline, (f"{scores}: train it for longer.", few))
    if earlier.bits_per_byte - last.bits_per_byte >= LEAST_TRAINING_GAIN:
        return TrainingVerdict("improving", "The model is still improving.", (f"{scores}: train it for longer.",))
    details = (f"{scores}: more steps on this text gain little.",)
    return TrainingVerdict("finished", "The model hardly improves any more.", details)


def _judge_worse(
    scores: str, first: Measurement, best: Measurement, last: Measurement, kept: Measurement, *, is_new_text: bool
) -> TrainingVerdict:
    """Judge a training whose last score is worse than its best one, which is the first if none is better."""
    if kept.step != last.step:
        scores += f" and {last.bits_per_byte:.3f} at step {last.step:,}, which was not kept"
    elif best is not first:
        scores += f" and {best.bits_per_byte:.3f} at step {best.step:,}"
    outcome: Outcome
    if best is first:
        outcome, headline = "worse", "Training made the model worse."
        advice = "train with a lower learning rate, or on more text"
    elif kept.step != last.step:
        outcome, headline = "finished", f"The model improves no more after step {kept.step:,}."
        advice = "more steps on this text gain little"
    elif is_new_text:
        outcome = "unstable"
        headline = "The model became worse again, and not by overfitting, since no text was seen twice."
        advice = (
            "train with a lower learning rate or a larger batch, and check that the held-out text is like the corpus"
        )
    else:
        outcome, headline = "overfitted", "The model is overfitting."
        advice = "train on more text, or for fewer steps"
    return TrainingVerdict(outcome, headline, (f"{scores}: {advice}.",))
