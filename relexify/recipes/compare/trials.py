"""The single runs of a comparison: grafted, measured, trained and measured again; what is finished is kept."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from relexify.errors import InputError
from relexify.recipes.file.comparing import Run
from relexify.recipes.file.schema import RecipeFile
from relexify.recipes.file.task_entries import TaskEntry
from relexify.recipes.measuring import kept_scores, measure
from relexify.reports import TaskScores
from relexify.storage.files import MARKER, check_output, check_written, write_file
from relexify.systems.transfer.checks import with_method
from relexify.systems.transfer.grafts import clear_graft, graft_once, read_note, transfer_identity
from relexify.systems.transfer.options import Transfer
from relexify.text import Corpus
from relexify.training.curve import Curve
from relexify.training.plan import HELD_OUT_EVERY, Training
from relexify.training.run import train
from relexify.training.trainable import check_trainable_name

__all__ = ["Trial", "TrialResult", "size_name", "training_identity", "trials_of"]

_CURVE, _RUN, _TASKS = "curve.json", "run.json", "tasks"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialResult:
    """What a run came to.

    Attributes:
        curve: What was measured on held-out text.
        tasks: What was measured on tasks, before training and after it.
        earlier: What was measured while the new language was trained alone, before both were.
    """

    curve: Curve
    tasks: tuple[TaskScores, ...]
    earlier: Curve | None = None


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of a comparison, with one seed, on one part of the text.

    Attributes:
        run: What is compared.
        title: For people.
        folder: For its results.
        transfer: How its model is made.
        training: How it is trained.
        tasks: What it is measured on.
        keep_model: Keep the trained model when all is measured.
    """

    moments: ClassVar[tuple[str, ...]] = ("start", "end")  # when it is measured on tasks

    run: Run
    title: str
    folder: Path
    transfer: Transfer
    training: Training
    tasks: tuple[TaskEntry, ...]
    keep_model: bool

    def is_of_another_recipe(self) -> bool:
        """Whether its folder holds the results of something else."""
        return (self.folder / _RUN).exists() and read_note(self.folder / _RUN) != self._asked()

    def is_untrained(self) -> bool:
        """Whether it is still to be trained."""
        return not (self.folder / _CURVE).exists()

    def check(self) -> None:
        """Refuse what cannot be trained, before any work is done.

        Raises:
            InputError: The model or the numbers do not fit.
        """
        check_trainable_name(self.transfer.model, self.training)

    def check_removable(self) -> None:
        """Make sure that its folder contains nothing but what relexify wrote.

        Raises:
            OutputError: It does.
        """
        models = ("grafted", "model", "target")
        work = ("grafted.json", "model.training", "target.training")
        check_written(self.folder, (_CURVE, _RUN, _TASKS, "first_step.json", *models, *work), deep=False)
        for name in models:
            if (self.folder / name).is_dir():
                check_output(self.folder / name, overwrite=True)

    def lacks_its_model(self) -> bool:
        """Whether it was trained earlier, is to be measured on more tasks now, and its model was not kept."""
        if not self.tasks or self._kept_curve() is None or (self._model / MARKER).exists():
            return False
        return any(kept_scores(entry, "end", self.folder / _TASKS) is None for entry in self.tasks)

    def kept(self) -> TrialResult | None:
        """What an earlier call came to, if it came to an end."""
        curve = self._kept_curve()
        moments = [(entry, moment) for moment in self.moments for entry in self.tasks]
        found = [kept_scores(entry, moment, self.folder / _TASKS) for entry, moment in moments]
        scores = tuple(each for each in found if each is not None)
        return TrialResult(curve, scores) if curve is not None and len(scores) == len(found) else None

    def carry_out(self) -> TrialResult:
        """Graft, measure, train and measure, each unless an earlier call did."""
        logger.info("%s", self.title)
        write_file(self.folder / _RUN, json.dumps(self._asked(), indent=1) + "\n")
        curve, grafted = self._kept_curve(), Path(self.transfer.output)
        early = self.tasks if "start" in self.moments else ()
        if curve is None or any(kept_scores(entry, "start", self.folder / _TASKS) is None for entry in early):
            graft_once(self.transfer)
        scores = self._measured(grafted, "start")
        if curve is None:
            curve = self._trained()
            curve.save(self.folder / _CURVE)
        clear_graft(grafted)
        scores += self._measured(self._model, "end")
        if not self.keep_model:
            shutil.rmtree(self._model, ignore_errors=True)
        return TrialResult(curve, scores)

    @property
    def _model(self) -> Path:
        return self.folder / "model"

    def _asked(self) -> dict[str, Any]:
        """All that its curve depends on."""
        asked = {"transfer": transfer_identity(self.transfer), "training": training_identity(self.training)}
        found: dict[str, Any] = json.loads(json.dumps(asked))
        return found

    def _trained(self) -> Curve:
        transfer = self.transfer
        return train(transfer.output, self._model, transfer.corpus, self.training, held_out=transfer.held_out).curve

    def _measured(self, model: Path, moment: str) -> tuple[TaskScores, ...]:
        folder, device = self.folder / _TASKS, self.transfer.device
        entries = self.tasks if moment in self.moments else ()
        return tuple(measure(model, entry, moment, folder, device=device) for entry in entries)

    def _kept_curve(self) -> Curve | None:
        """The curve that an earlier call finished."""
        path = self.folder / _CURVE
        if not path.exists():
            return None
        try:
            return Curve.load(path)
        except InputError as error:
            logger.warning("%s is damaged, and its run done anew (%s)", path, error)
            path.unlink()
            return None


def trials_of(recipe: RecipeFile, size: int | None, device: str) -> Iterator[Trial]:
    """All runs of a comparison with all seeds, on so many bytes of its text, or on all of it."""
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
            name = "-".join([*([size_name(size)] if size else []), run.name, f"seed{seed}"])
            folder = recipe.output / "runs" / name
            yield Trial(
                run,
                f"{run.name}, seed {seed}" + (f", {size_name(size)}" if size else ""),
                folder,
                replace(
                    with_method(transfer, run.method),
                    seed=seed,
                    corpus=part,
                    held_out=held_out,
                    output=folder / "grafted",
                    device=device,
                ),
                replace(training, plan=run.plan, stages=(), seed=seed),
                recipe.tasks,
                comparing.keep_models,
            )


def training_identity(training: Training) -> dict[str, Any]:
    """All of a training that its curve depends on."""
    options = asdict(training)
    for name in ("save_every", "tensorboard", "compile"):
        options.pop(name)
    return options


def size_name(size: int) -> str:
    """A number of bytes for people and folders."""
    return f"{size / 2**20:g}MiB"
