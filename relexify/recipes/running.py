"""Carry a recipe file out: transfer, train, or compare several runs; stopped, it goes on where it was."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from relexify.artifacts import MARKER, check_output, sha256_of, write_file
from relexify.errors import InputError, OutputError
from relexify.progress import Progress, silent
from relexify.recipes.checks import HELD_OUT_EVERY, check_recipe
from relexify.recipes.comparing import Run
from relexify.recipes.recipe import METHODS, Transfer
from relexify.recipes.recipe_file import RecipeFile, recipe_text
from relexify.recipes.transfer import TransferResult, run_transfer
from relexify.reports import Comparison, write_report
from relexify.text import Corpus
from relexify.training import Curve, Training, TrainingResult, is_trained, train

__all__ = ["run_comparison", "run_recipe", "transfer_identity"]

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
    if recipe.training is None and recipe.transfer is not None:
        return run_transfer(replace(recipe.transfer, device=device, overwrite=overwrite), progress=progress)
    if recipe.transfer is None:
        return _train(recipe, recipe.model, overwrite, progress)
    grafted = recipe.output.with_name(f"{recipe.output.name}.grafted")
    transfer = replace(recipe.transfer, output=grafted, device=device)
    if not (_is_grafted(transfer) and is_trained(recipe.output)):  # else stopped while it was clearing up
        check_output(recipe.output, overwrite=overwrite)
    _graft(transfer, progress)
    result = _train(recipe, str(grafted), overwrite, progress)
    _clear(grafted)
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
    if recipe.training.stages:
        raise InputError(
            f"{recipe.source} has [[training.stages]] and [compare]: runs have plans of their own, leave out one"
        )
    sizes = recipe.compare.subsamples or (None,)
    tasks = {size: list(_tasks(recipe, size, device)) for size in sizes}
    _check_comparison(recipe, [task for each in tasks.values() for task in each], overwrite)
    write_file(recipe.output / MARKER, "{}\n")
    write_file(recipe.output / RECIPE_FILE, recipe_text(recipe))
    comparisons = []
    for size, each in tasks.items():
        curves = {task: _kept_curve(task) for task in each}
        folder = recipe.output if size is None else recipe.output / _size_name(size)
        for task in each:
            if curves[task] is None:
                logger.info("%s", task.title)
                curves[task] = _carried_out(recipe, task, progress)
                write_report(_comparison(recipe, size, curves), folder)
        comparisons.append(_comparison(recipe, size, curves))
        write_report(comparisons[-1], folder)
    return comparisons


def _check_comparison(recipe: RecipeFile, tasks: list[_Task], overwrite: bool) -> None:
    """Refuse everything that would stop a comparison in its middle, and make way where told to."""
    if recipe.output.exists() and any(recipe.output.iterdir()) and not (recipe.output / MARKER).exists():
        raise OutputError(f"{recipe.output} was not written by relexify: give another output, or remove it")
    for task in tasks:
        check_recipe(replace(task.transfer, output=task.folder / "new"))
        if (task.folder / _RUN).exists() and _read(task.folder / _RUN) != task.asked():
            if not overwrite:
                raise InputError(
                    f"{task.folder} belongs to another recipe, other texts or another model: give another output, "
                    "or pass --overwrite to do it anew"
                )
            shutil.rmtree(task.folder)


@dataclass(frozen=True, eq=False)
class _Task:
    """One run of a comparison, with one seed, on one part of the text."""

    run: Run
    title: str
    folder: Path
    transfer: Transfer
    training: Training

    def asked(self) -> dict[str, Any]:
        """All that its curve depends on."""
        options = asdict(self.training)
        for name in ("save_every", "tensorboard", "compile"):
            options.pop(name)
        found: dict[str, Any] = json.loads(
            json.dumps({"transfer": transfer_identity(self.transfer), "training": options})
        )
        return found


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
            method = METHODS[run.method]
            evidence = transfer if method.uses_vectors else replace(transfer, **_NO_EVIDENCE)
            if method.needs_source_text:
                evidence = replace(evidence, source_corpus=transfer.source_corpus)
            evidence = evidence if method.takes_overrides else replace(evidence, overrides={})
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


def _kept_curve(task: _Task) -> Curve | None:
    """The curve of a run that an earlier call finished."""
    path = task.folder / _CURVE
    if not path.exists():
        return None
    try:
        return Curve.load(path)
    except InputError as error:
        logger.warning("%s is damaged, and its run done anew (%s)", path, error)
        path.unlink()
        return None


def _carried_out(recipe: RecipeFile, task: _Task, progress: Progress) -> Curve:
    """Graft and train one run of a comparison."""
    write_file(task.folder / _RUN, json.dumps(task.asked(), indent=1) + "\n")
    _graft(task.transfer, progress)
    result = train(
        task.transfer.output,
        task.folder / "model",
        task.transfer.corpus,
        task.training,
        held_out=task.transfer.held_out,
        progress=progress,
    )
    result.curve.save(task.folder / _CURVE)
    _clear(Path(task.transfer.output))
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
    if _is_grafted(transfer):
        return
    folder = Path(transfer.output)
    ours = _note_of(folder).exists()
    if not ours:
        check_output(folder)
    write_file(_note_of(folder), json.dumps("under way") + "\n")
    run_transfer(replace(transfer, score=False, overwrite=True), progress=progress)
    write_file(_note_of(folder), json.dumps(transfer_identity(transfer)) + "\n")


def _is_grafted(transfer: Transfer) -> bool:
    folder = Path(transfer.output)
    return (folder / MARKER).exists() and _read(_note_of(folder)) == transfer_identity(transfer)


def _clear(grafted: Path) -> None:
    shutil.rmtree(grafted, ignore_errors=True)
    _note_of(grafted).unlink(missing_ok=True)


def _read(path: Path) -> Any:
    """What a json file holds; nothing where it cannot be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _note_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def transfer_identity(transfer: Transfer) -> str:
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
        elif (entry.name in files and isinstance(value, str | Path)) or (
            entry.name in ("model", "tokenizer") and Path(value).is_dir()
        ):
            value = sha256_of(value)
        values[entry.name] = value
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _comparison(recipe: RecipeFile, size: int | None, curves: dict[_Task, Curve | None]) -> Comparison:
    import torch

    training = recipe.training or Training()
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    title = recipe.title if size is None else f"{recipe.title}, {_size_name(size)} of text"
    found: dict[str, tuple[Curve, ...]] = {}
    for task, curve in curves.items():
        if curve is not None:
            found[task.run.name] = (*found.get(task.run.name, ()), curve)
    return Comparison(title, found, training.tokens_a_step, {"machine": machine, "model": recipe.model})


def _size_name(size: int) -> str:
    return f"{size / 2**20:g}MiB"
