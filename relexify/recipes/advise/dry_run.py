"""What an advice would do, without doing it."""

from __future__ import annotations

from relexify.pretrained.loading import load_config, meta_model
from relexify.progress import count_of, describe_estimate
from relexify.recipes.advise.options import Advise, planned_runs
from relexify.storage.files import format_size
from relexify.systems.transfer.options import given_translations
from relexify.text import Corpus
from relexify.training.cost.here import seconds_here
from relexify.training.options import Training

__all__ = ["planned_advice"]


def planned_advice(options: Advise) -> list[tuple[str, object]]:
    """Validate what needs the model's config, and return what an advice would do, by subject.

    Args:
        options: The advice.

    Raises:
        InputError: The model cannot be loaded.
    """
    transfer, runs = options.transfer, planned_runs(options)
    text = Corpus.open(transfer.corpus)
    size = text.size()
    used = text.describe()
    if size is None or size > options.text_bytes:
        used += f", {format_size(options.text_bytes)} of it are used (`text_bytes`)"
    trained, time = "nothing: held-out words of the dictionary rank the methods", "some minutes"
    if options.steps:
        training = Training(steps=options.steps, batch=options.batch, length=options.length)
        trained = f"each of them for {count_of(options.steps, 'step')} of {options.batch} x {options.length} tokens"
        # The vocabulary of the model itself is counted: a smaller one takes less time.
        seconds = seconds_here(meta_model(transfer.model), training)
        each = "estimated after the first steps" if seconds is None else "less than a minute for each"
        if seconds:
            each = f"{describe_estimate(len(runs) * seconds)} for all of them on this machine"
        time = f"trainings: {each}; building and scoring each of them takes some minutes more on a CPU"
    return [
        ("model", f"{transfer.model} ({load_config(transfer.model).model_type})"),
        ("text", used),
        ("evidence", ", ".join(name.replace("_", " ") for name in given_translations(transfer)) or "no translations"),
        ("tried", ", ".join(run.name for run in runs)),
        ("trained", trained),
        ("time", time),
        ("output", transfer.output),
    ]
