"""The tables `[[tasks]]` of a recipe: the tasks that its models are evaluated on.

    [[tasks]]
    task = "ner"
    train = "$DATA/train.tsv"
    test = "$DATA/test.tsv"
    epochs = 3
    seeds = [0, 1]

`test` may be a table of several files, all of which a fine-tuned model is tested on, and `train` a list of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from relexify.errors import InputError
from relexify.evaluation.data.files import TaskFiles
from relexify.evaluation.options import Evaluation
from relexify.evaluation.registry import TASKS
from relexify.recipes.file.schema import FolderName, NamesFiles
from relexify.storage.fingerprint import BY_CONTENT, NO_EFFECT
from relexify.text import NamesText

__all__ = ["TaskEntry"]


@dataclass(frozen=True, kw_only=True)
class TaskEntry(Evaluation):
    """One task of a recipe.

    Attributes:
        train: Training data: a file, or several that are read one after the other.
        test: Test data: a file, or several by name.
        dev: Data to choose the best epoch by, as `train`.
        name: Its name in tables; default: the name of the task.
        start: The name of a task above, whose fine-tuned encoder is fine-tuned further.

    Raises:
        InputError: An option is impossible for the task, or the task needs development data.
    """

    train: Annotated[str | tuple[str, ...], NamesText()] = field(metadata=BY_CONTENT)
    test: Annotated[str | Mapping[str, str], NamesFiles()] = field(metadata=BY_CONTENT)
    dev: Annotated[str | tuple[str, ...], NamesText()] | None = field(default=None, metadata=BY_CONTENT)
    name: FolderName | None = field(default=None, metadata=NO_EFFECT)
    start: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start is not None and (self.language is not None or self.through is not None):
            raise InputError("start is for models of one language: leave it out, or language and through")
        if TASKS[self.task].needs_dev and self.dev is None:
            raise InputError(f"the task {self.task} lacks dev, data to choose the best epoch by: add it")

    @property
    def title(self) -> str:
        """Its name in tables and files."""
        parts = [self.task, "probe" if self.probe else None, self.through]
        return self.name or "-".join(part for part in parts if part)

    @property
    def files(self) -> TaskFiles:
        """Its data."""
        return TaskFiles(self.train, self.test, self.dev)
