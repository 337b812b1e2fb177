"""When a stage is scored and saved, and what is reported about its progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from relexify.progress import Advance, count_of, describe_estimate

__all__ = ["ANNOUNCED_FROM", "BITS", "PERPLEXITY", "StageMonitor", "scores_with_losses", "suggest_shortening"]

BITS, PERPLEXITY = "eval_bits_per_byte", "eval_perplexity"
"""Names of the scores in the Trainer's log; those of a language end in its name."""
LEAST_SECONDS_BETWEEN_CHECKPOINTS = 15
CHECKPOINT_SHARE = 0.03
"""Share of the time that checkpoints may take, if their interval is not given."""
WARM_STEPS = 5
"""Steps on a GPU that do not count for the speed, because of compilation and first allocations; on a CPU, one."""
ANNOUNCED_FROM = 60
"""Seconds that a training must take for its time to be announced."""
LONG_TRAINING = 24 * 3600
"""Seconds above which the announcement says how to shorten the training."""
UNSTABLE_SHARE, UNSTABLE_BITS = 0.03, 0.02
"""By what share of the best score before it, and by how many bits per byte, a score must be worse for a warning that
the training is unstable. Both are choices."""

logger = logging.getLogger(__name__)


def suggest_shortening(seconds: float, device: str) -> str:
    """Return what would make a training shorter, as the end of a sentence; nothing if it takes less than a day."""
    if seconds <= LONG_TRAINING:
        return ""
    advice = "; consider fewer steps, a smaller batch or shorter sequences"
    return f"{advice}, or a GPU" if device == "cpu" else advice


def scores_with_losses(log: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], float | None]]:
    """Yield the scores in the Trainer's log, each with the mean training loss of the steps since the one before.

    A logged loss is the mean of the steps since the last one that was logged; besides the regular interval, losses are
    logged with every checkpoint.
    """
    total, steps, logged = 0.0, 0, 0
    for entry in log:
        if "loss" in entry:
            since = entry["step"] - logged
            total, steps, logged = total + entry["loss"] * since, steps + since, entry["step"]
        if BITS in entry:
            yield entry, total / steps if steps else None
            total, steps = 0.0, 0


class StageMonitor(TrainerCallback):  # type: ignore[misc]
    """Decides when to score and to save, reports progress, measures the speed, and estimates the time that is left.

    Args:
        evaluated: Steps after which the model is scored, besides the last one.
        save_every: Steps between two checkpoints; if None, as often as `CHECKPOINT_SHARE` allows.
        advance: Called with the number of finished steps, and with loss, score and speed.
        tokens_per_step: Tokens seen in one step.
        steps_before: Number of steps of the stages before.
        later_steps: Number of steps of the stages after.
        new_text_steps: Steps of all stages, from the first one on, in which no text is seen for the second time.
    """

    def __init__(
        self,
        evaluated: frozenset[int],
        save_every: int | None,
        advance: Advance,
        *,
        tokens_per_step: int,
        steps_before: int = 0,
        later_steps: int = 0,
        new_text_steps: int = 0,
    ) -> None:
        self.evaluated, self.save_every, self.advance = evaluated, save_every, advance
        self.tokens_per_step, self.steps_before, self.later_steps = tokens_per_step, steps_before, later_steps
        self.new_text_steps = new_text_steps
        # Times are those of `time.monotonic`, durations are in seconds.
        self.reported = 0  # steps that were reported to `advance`
        self.saved = time.monotonic()  # when the last checkpoint was complete
        self.saving_took = 0.0
        self.scoring_took = 0.0
        self.step_ended = time.monotonic()  # when the last step ended, so that scoring and saving can be timed
        self.last_step: float | None = None  # when the last step ended, before it was reported
        self.was_interrupted = False  # whether the model was scored or saved after the last step
        self.steps_seen = 0
        self.steps_timed, self.seconds_timed = 0, 0.0  # without the first steps, scoring and saving
        self.loss: float | None = None

    @property
    def seconds_per_step(self) -> float | None:
        """Mean time of a step, without scoring and saving; None if there were too few steps."""
        return self.seconds_timed / self.steps_timed if self.seconds_timed else None

    @property
    def status(self) -> str:
        """The last loss and the speed, as far as they are known; scores have a line of their own."""
        parts = []
        if self.loss is not None:
            parts.append(f"loss {self.loss:.3f}")
        if self.seconds_per_step:
            parts.append(f"{self.tokens_per_step / self.seconds_per_step:,.0f} tokens/s")
        return ", ".join(parts)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Set the model to training, which `StageTrainer.training_step` does not."""
        rest["model"].train()
        self.step_ended = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Report the step, and request scoring and saving when they are due."""
        step = state.global_step
        now = time.monotonic()
        warm_steps = WARM_STEPS if args.device.type == "cuda" else 1
        if self.last_step is not None and self.steps_seen >= warm_steps and not self.was_interrupted:
            self.steps_timed += 1
            self.seconds_timed += now - self.last_step
            if self.steps_timed == 1:
                self._announce(state.max_steps - step, step, args.device.type)
        self.advance(step - self.reported, self.status)
        self.reported = step
        self.last_step = now
        self.steps_seen += 1
        if step in self.evaluated or step >= state.max_steps:
            control.should_evaluate = True
        # After the last step the result itself is written.
        control.should_save = step < state.max_steps and self._is_save_due(step, args.world_size)
        control.should_log = control.should_log or control.should_evaluate or control.should_save
        self.was_interrupted = control.should_evaluate or control.should_save
        self.step_ended = time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **rest: Any,
    ) -> None:
        """Report the loss, and log a new score with the mean loss since the last one, as the curve has it."""
        found = logs or {}
        self.loss = found.get("loss", self.loss)
        if "loss" in found and control.should_evaluate:  # the Trainer does so next
            self.advance(0, f"{self.status}, scoring")
        if BITS in found:
            *_, (_, mean_loss) = scores_with_losses(state.log_history)
            languages = {name.removeprefix(f"{BITS}_"): found[name] for name in found if name.startswith(f"{BITS}_")}
            # With two languages, patience and selection use their mean.
            bits = {**languages, "mean": found[BITS]} if languages else {"": found[BITS]}
            scores = ", ".join(f"{name} {score:.3f}".strip() for name, score in bits.items())
            loss = "" if mean_loss is None else f", training loss {mean_loss:.3f} nats per token"
            logger.info("step %d: %s bits per byte%s", self.steps_before + state.global_step, scores, loss)
            self._warn_if_unstable(state)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Measure how long scoring took."""
        self.scoring_took = time.monotonic() - self.step_ended
        self.advance(0, self.status)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Measure how long saving took."""
        self.saved = time.monotonic()
        self.saving_took = self.saved - self.step_ended

    def _warn_if_unstable(self, state: TrainerState) -> None:
        """Warn, once in a stage, of a score that is worse than an earlier one although no text has been seen twice.

        It cannot be overfitting then.
        """
        scores = [(entry[BITS], self.steps_before + entry["step"]) for entry in state.log_history if BITS in entry]
        worse = [index for index in range(1, len(scores)) if self._is_worse(scores[: index + 1])]
        # Earlier scores are also those before an interruption, after which the warning is not repeated.
        if worse == [len(scores) - 1]:
            score, step = scores[-1]
            best, best_step = min(scores[:-1])
            logger.warning(
                "held-out text takes %.3f bits per byte at step %d, %.3f at step %d: if it is like the corpus, the "
                "training is unstable; a lower learning rate or a larger batch may help",
                score,
                step,
                best,
                best_step,
            )

    def _is_worse(self, scores: Sequence[tuple[float, int]]) -> bool:
        """Whether the last of some scores with their steps is worse than an earlier one without any text seen twice."""
        *earlier, (score, step) = scores
        best, _ = min(earlier)
        return step <= self.new_text_steps and score - best > max(UNSTABLE_SHARE * best, UNSTABLE_BITS)

    def _announce(self, left: int, step: int, device: str) -> None:
        """Log how long the rest of the training will take, if that is long, and what would make it shorter."""
        seconds_per_step = self.seconds_per_step or 0.0
        steps, scores = left + self.later_steps, sum(later > step for later in self.evaluated)
        seconds = steps * seconds_per_step + scores * self.scoring_took
        if seconds < ANNOUNCED_FROM:
            return
        speed = f"{self.tokens_per_step / seconds_per_step:,.0f} tokens/s"
        where = "this CPU" if device == "cpu" else "this machine"
        advice = suggest_shortening(seconds, device)
        logger.info(
            "the remaining %s %s on %s (%s)%s",
            count_of(steps, "step takes", "steps take"),
            describe_estimate(seconds),
            where,
            speed,
            advice,
        )

    def _is_save_due(self, step: int, devices: int) -> bool:
        if self.save_every is not None:
            return step % self.save_every == 0
        # Several processes must save together and have several clocks, so they are always given `save_every`.
        wait = max(LEAST_SECONDS_BETWEEN_CHECKPOINTS, self.saving_took / CHECKPOINT_SHARE)
        return devices == 1 and time.monotonic() - self.saved > wait
