"""Carry a recipe file out: transfer, train, or compare several runs; stopped, it goes on where it was."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from relexify.artifacts import MARKER, check_output, sha256_of, write_file
from relexify.errors import InputError
from relexify.progress import Progress, silent
from relexify.recipes.checks import HELD_OUT_EVERY, check_recipe
from relexify.recipes.comparing import Run
from relexify.recipes.recipe import METHODS, Transfer
from relexify.recipes.recipe_file import RecipeFile, recipe_text
from relexify.recipes.steps import step_name
from relexify.recipes.transfer import TransferResult, run_transfer
from relexify.reports import Comparison, write_report
from relexify.text import Corpus
from relexify.training import Curve, Training, TrainingResult, train

__all__ = ["run_comparison", "run_recipe"]

RECIPE_FILE = "recipe.toml"
_CURVE, _RUN = "curve.json", "run.json"

logger = logging.getLogger(__name__)


def run_recipe(
    recipe: RecipeFile, *, device: str = "cpu", overwrite: bool = False, progress: Progress = silent
) -> TransferResult | TrainingResult:
    """Transfer a model, train it on, or both, as a recipe says.

    Args:
        recipe: With `[transfer]`, `[training]` or both.
        device: Where to search and score; training takes what there is.
        overwrite: Replace the output.
        progress: Told about everything that takes long.

    Raises:
        InputError: There is nothing to do.
    """
    if recipe.transfer is None and recipe.training is None:
        raise InputError(f"{recipe.source} has neither [transfer] nor [training]: say what is to be done")
    check_output(recipe.output, overwrite=overwrite)
    if recipe.training is None and recipe.transfer is not None:
        return run_transfer(replace(recipe.transfer, device=device, overwrite=overwrite), progress=progress)
    if recipe.transfer is None:
        return _train(recipe, recipe.model, overwrite, progress)
    grafted = recipe.output.with_name(f"{recipe.output.name}.grafted")
    _graft(replace(recipe.transfer, output=grafted, device=device), progress)
    result = _train(recipe, str(grafted), overwrite, progress)
    shutil.rmtree(grafted, ignore_errors=True)
    _note_of(grafted).unlink(missing_ok=True)
    return result


def run_comparison(
    recipe: RecipeFile, *, device: str = "cpu", overwrite: bool = False, progress: Progress = silent
) -> list[Comparison]:
    """Train several initialisations on the same text in the same order, and hold them side by side.

    Finished runs are kept in the output folder, and a stopped run goes on from its last checkpoint.

    Args:
        recipe: With `[transfer]`, `[training]` and `[compare]`.
        device: Where to search; training takes what there is.
        overwrite: Do runs anew that lie in the output folder and belong to another recipe.
        progress: Told about everything that takes long.

    Returns:
        One comparison for each subsample of the text, or a single one.

    Raises:
        InputError: Something is missing in the recipe, or the output belongs to another one.
    """
    if recipe.compare is None or recipe.transfer is None or recipe.training is None:
        raise InputError(f"{recipe.source} cannot be compared: it needs [transfer], [training] and [compare]")
    check_recipe(replace(recipe.transfer, output=recipe.output / "runs" / "new"))
    write_file(recipe.output / RECIPE_FILE, recipe_text(recipe))
    comparisons = []
    for size in recipe.compare.subsamples or (None,):
        curves: dict[str, list[Curve]] = {run.name: [] for run in recipe.compare.runs}
        for task in _tasks(recipe, size, device):
            logger.info("%s", task.title)
            curves[task.run.name].append(_carried_out(recipe, task, overwrite, progress))
            comparison = _comparison(recipe, size, curves)
            folder = recipe.output if size is None else recipe.output / _size_name(size)
            write_report(comparison, folder)
        comparisons.append(comparison)
    return comparisons


@dataclass(frozen=True)
class _Task:
    """One run of a comparison, with one seed, on one part of the text."""

    run: Run
    title: str
    folder: Path
    transfer: Transfer
    training: Training


def _tasks(recipe: RecipeFile, size: int | None, device: str) -> Iterator[_Task]:
    comparing, transfer, training = recipe.compare, recipe.transfer, recipe.training
    if comparing is None or transfer is None or training is None:
        return
    corpus = Corpus.open(recipe.corpus)
    if recipe.held_out is not None:
        held_out = Corpus.open(recipe.held_out)
    else:  # the same held-out text for every size
        corpus, held_out = corpus.split(HELD_OUT_EVERY)
    part = corpus if size is None else corpus.subsample(size)
    for seed in comparing.seeds:
        for run in comparing.runs:
            evidence = transfer if METHODS[run.method].uses_vectors else replace(transfer, **_NO_EVIDENCE)
            name = "-".join([*([_size_name(size)] if size else []), run.name, f"seed{seed}"])
            folder = recipe.output / "runs" / name
            yield _Task(
                run,
                f"{run.name}, seed {seed}" + (f", {_size_name(size)}" if size else ""),
                folder,
                replace(
                    evidence,
                    method=run.method,
                    seed=seed,
                    corpus=part,
                    held_out=held_out,
                    output=folder / "grafted",
                    device=device,
                ),
                replace(training, plan=run.plan, stages=(), seed=seed),
            )


_NO_EVIDENCE: dict[str, Any] = dict.fromkeys(
    ("dictionary", "rotation", "source_vectors", "target_vectors", "source_corpus")
)
"""What methods without vectors have no use for."""


def _carried_out(recipe: RecipeFile, task: _Task, overwrite: bool, progress: Progress) -> Curve:
    """The curve of one run, from an earlier call where it is finished."""
    asked = {"transfer": _identity(task.transfer), "training": asdict(task.training)}
    asked = json.loads(json.dumps(asked))
    kept = task.folder / _RUN
    if kept.exists() and json.loads(kept.read_text()) != asked:
        if not overwrite:
            raise InputError(
                f"{task.folder} belongs to another recipe: give another output, or pass --overwrite to do it anew"
            )
        shutil.rmtree(task.folder)
    if (task.folder / _CURVE).exists():
        return Curve.load(task.folder / _CURVE)
    write_file(kept, json.dumps(asked, indent=1) + "\n")
    _graft(task.transfer, progress)
    held_out = task.transfer.held_out
    result = train(
        task.transfer.output,
        task.folder / "model",
        task.transfer.corpus,
        task.training,
        held_out=held_out,
        overwrite=True,
        progress=progress,
    )
    result.curve.save(task.folder / _CURVE)
    shutil.rmtree(task.transfer.output, ignore_errors=True)
    _note_of(Path(task.transfer.output)).unlink(missing_ok=True)
    if recipe.compare is not None and not recipe.compare.keep_models:
        shutil.rmtree(task.folder / "model", ignore_errors=True)
    return result.curve


def _train(recipe: RecipeFile, model: str, overwrite: bool, progress: Progress) -> TrainingResult:
    return train(
        model,
        recipe.output,
        recipe.corpus,
        recipe.training,
        held_out=recipe.held_out,
        overwrite=overwrite,
        progress=progress,
    )


def _graft(transfer: Transfer, progress: Progress) -> None:
    """Write the grafted model, unless an earlier run did; training measures it, so it is not scored."""
    identity, folder = _identity(transfer), Path(transfer.output)
    note = _note_of(folder)
    if (folder / MARKER).exists() and note.exists() and json.loads(note.read_text()) == identity:
        return
    run_transfer(replace(transfer, score=False, overwrite=True), progress=progress)
    write_file(note, json.dumps(identity) + "\n")


def _note_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _identity(transfer: Transfer) -> str:
    """A name that changes with everything that a graft depends on, by content."""
    texts = ("corpus", "source_corpus", "held_out")
    files = ("dictionary", "rotation", "source_vectors", "target_vectors")
    values: dict[str, Any] = {}
    for entry in fields(transfer):
        value = getattr(transfer, entry.name)
        if entry.name in ("output", "overwrite", "device", "score", "score_bytes") or value is None:
            continue
        if entry.name in texts:
            value = Corpus.open(value).fingerprint()
        elif entry.name in files and isinstance(value, str | Path):
            value = sha256_of(value)
        values[entry.name] = value
    return step_name("graft", **values)


def _comparison(recipe: RecipeFile, size: int | None, curves: dict[str, list[Curve]]) -> Comparison:
    import torch

    training = recipe.training or Training()
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    title = recipe.title if size is None else f"{recipe.title}, {_size_name(size)} of text"
    found = {name: tuple(each) for name, each in curves.items() if each}
    return Comparison(title, found, training.tokens_a_step, {"machine": machine, "model": recipe.model})


def _size_name(size: int) -> str:
    return f"{size / 2**20:g}MiB"
