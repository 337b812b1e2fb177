"""Carry a recipe with `[bilingual]` out: transfer, train the new embeddings, then both languages together."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.pretrained.loading import meta_model
from relexify.recipes.file.schema import RecipeFile
from relexify.recipes.file.task_entries import check_tasks
from relexify.recipes.measuring import check_place, measure_output
from relexify.storage.files import check_output, record_file, sha256_of, write_file
from relexify.systems.bilingual.options import BilingualOptions
from relexify.systems.bilingual.recipe import FIRST_STEP_FILE
from relexify.systems.bilingual.training import train_bilingual
from relexify.systems.transfer.grafts import clear_graft, graft_once, read_note, transfer_identity
from relexify.systems.transfer.options import Transfer
from relexify.text import Corpus
from relexify.training.curve import Curve
from relexify.training.plan import Training
from relexify.training.result import TrainingResult, is_trained, load_result
from relexify.training.run import train
from relexify.training.trainable import check_halves, check_language_model, check_trainable_name

__all__ = ["check_steps", "run_bilingual", "step_with_text", "train_in_two_steps"]


def run_bilingual(recipe: RecipeFile, *, device: str, overwrite: bool) -> TrainingResult:
    """RAMEN as a recipe says it; stopped at whatever moment, it goes on.

    Beside the output lie `OUTPUT.grafted` and `OUTPUT.target` until the work is done, and a note of what it is.

    Args:
        recipe: With `[transfer]` and `[bilingual]`, and with `[training]` where the new embeddings are trained first.
        device: Where to search.
        overwrite: Replace the output.

    Raises:
        InputError: Something is missing in the recipe, or the model cannot be trained as it says.
    """
    if recipe.transfer is None or recipe.bilingual is None:
        raise InputError(f"{recipe.source} has [bilingual] and no [transfer]: add it, or use relexify bilingual")
    step = step_with_text(recipe.bilingual, recipe.transfer, recipe.source)
    check_tasks(recipe.tasks, recipe.model, recipe.source)
    check_place(recipe.output, recipe.tasks)
    grafted, target = (recipe.output.with_name(f"{recipe.output.name}.{part}") for part in ("grafted", "target"))
    note = recipe.output.with_name(f"{recipe.output.name}.bilingual.json")
    transfer = replace(recipe.transfer, output=grafted, device=device)
    asked = _asked(recipe, step, transfer_identity(transfer))
    known = read_note(note)
    if known == {"done": asked} and is_trained(recipe.output):  # stopped while it was clearing up
        measure_output(recipe.output, recipe.tasks, device=device)
        return _cleared(load_result(recipe.output), grafted, target, note)
    if known != {"asked": asked}:
        check_output(recipe.output, overwrite=overwrite)
        check_steps(recipe.model, recipe.training, step)
        _make_way(target, ours=note.exists())
        write_file(note, json.dumps({"asked": asked}) + "\n")
    graft_once(transfer)
    first, result = train_in_two_steps(transfer, recipe.training, step, target, recipe.output, overwrite=overwrite)
    if first is not None:
        first.save(record_file(recipe.output / FIRST_STEP_FILE))
    write_file(note, json.dumps({"done": asked}) + "\n")
    measure_output(recipe.output, recipe.tasks, device=device)
    return _cleared(result, grafted, target, note)


def train_in_two_steps(
    transfer: Transfer,
    training: Training | None,
    step: BilingualOptions,
    target: Path,
    output: Path,
    *,
    overwrite: bool = False,
) -> tuple[Curve | None, TrainingResult]:
    """Train a grafted model in its new language, if so told, then both languages together.

    Args:
        transfer: How it was grafted; its output is the grafted model.
        training: Of the first step.
        step: The second.
        target: The folder for the model between the two.
        output: The folder for the bilingual model.
        overwrite: Replace the output.

    Returns:
        What was measured in the first step, and what the second came to.
    """
    first, model = None, Path(transfer.output)
    if training is not None:
        trained = train(model, target, transfer.corpus, training, held_out=transfer.held_out)
        first, model = trained.curve, target
    source, new = step.languages
    joined = train_bilingual(
        transfer.model,
        model,
        output,
        transfer.corpus,
        step.source_corpus,
        step.training,
        languages=(source, new),
        held_out=transfer.held_out,
        source_held_out=step.source_held_out,
        overwrite=overwrite,
    )
    return first, joined


def check_steps(model: str, training: Training | None, step: BilingualOptions) -> None:
    """Refuse what cannot be trained, in either step, before any work is done.

    Raises:
        InputError: The model or the numbers do not fit.
    """
    if training is not None:
        check_trainable_name(model, training)
    check_language_model(meta_model(model), step.training)
    check_halves(step.training, devices=1)


def _make_way(target: Path, *, ours: bool) -> None:
    """Remove what a run of another recipe left here; what is not known to be left over stays and is refused."""
    if not ours:
        check_output(target)
        return
    for folder in (target, target.with_name(f"{target.name}.training")):
        shutil.rmtree(folder, ignore_errors=True)


def _cleared(result: TrainingResult, grafted: Path, target: Path, note: Path) -> TrainingResult:
    shutil.rmtree(target, ignore_errors=True)
    clear_graft(grafted)
    note.unlink(missing_ok=True)  # last of all, since it tells that the rest may go
    return result


def step_with_text(step: BilingualOptions, transfer: Transfer, recipe: Path) -> BilingualOptions:
    """The step with text of the model's language, its own or that of the transfer.

    Raises:
        InputError: There is none.
    """
    text = step.source_corpus or transfer.source_corpus
    if text is None:
        raise InputError(f"{recipe}: [bilingual] lacks source_corpus, text in the model's language: add it")
    return replace(step, source_corpus=text)


def _asked(recipe: RecipeFile, step: BilingualOptions, transfer: str) -> str:
    """A name that changes with everything that the result depends on, by content."""
    texts = [step.source_corpus, step.source_held_out, recipe.corpus, recipe.held_out]
    values: dict[str, Any] = {
        "transfer": transfer,
        "model": sha256_of(recipe.model) if Path(recipe.model).is_dir() else recipe.model,
        "texts": [None if text is None else Corpus.open(text).fingerprint() for text in texts],
        "languages": list(step.languages),
        "training": [None if each is None else asdict(each) for each in (recipe.training, step.training)],
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
