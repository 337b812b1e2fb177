"""What `relexify train` would do, without doing it."""

from __future__ import annotations

from pathlib import Path

from relexify.pretrained.loading import headed_model
from relexify.pretrained.runtime.runnable import check_finite
from relexify.progress import count_of, describe_estimate
from relexify.text import Corpus, TextOption
from relexify.training.cost.here import seconds_here
from relexify.training.job import load_valid
from relexify.training.options import Training
from relexify.training.plan import plan_stages
from relexify.training.trainable import check_trainable

__all__ = ["planned_training"]


def planned_training(
    model: str | Path,
    output: str | Path,
    corpus: TextOption,
    training: Training,
    *,
    held_out: TextOption | None = None,
    add_head: bool = False,
) -> list[tuple[str, object]]:
    """Validate the model and the text, and return what a training would do, by subject.

    Args:
        model: As for `load_model`.
        output: The folder that would be written.
        corpus: The text.
        training: The options, validated.
        held_out: The text to score.
        add_head: Whether a language-modelling head is added first.

    Raises:
        InputError: There is no such model, it is damaged or cannot be trained as requested, or nothing is left of the
            text.
        VocabularyError: The tokenizer does not belong to the model.
    """
    if add_head:
        loaded = headed_model(model)
        check_finite(loaded)
    else:
        loaded, _ = load_valid(model)
    check_trainable(loaded, training)
    seconds = seconds_here(loaded, training)
    left_out = Corpus.open(corpus).without(Corpus.open(held_out)).describe_left_out() if held_out is not None else ""
    interval = training.evaluation_interval
    return [
        ("model", model),
        *([("text", left_out)] if left_out else []),
        *(
            (f"stage {stage.name}", f"{count_of(stage.steps, 'step')}, trains {stage.trains}")
            for stage in plan_stages(training)
        ),
        (
            "tokens per step",
            f"{training.batch} x {training.length} = {training.tokens_per_step:,}, or fewer if there is little text",
        ),
        ("tokens", f"{training.steps * training.tokens_per_step:,}, or fewer"),
        ("scored", "every step" if interval == 1 else f"every {interval:,} steps"),
        ("time", f"{_describe_time(seconds)}; fewer steps, or smaller ones, if there is little text"),
        ("output", output),
    ]


def _describe_time(seconds: float | None) -> str:
    if seconds is None:
        return "estimated after the first steps"
    return f"{describe_estimate(seconds) if seconds else 'less than a minute'} on this machine, without scores"
