"""The steps of a run: each table of a recipe, such as `[transfer]` or `[training]`, is one step.

A system registers its step in its own package, and the runner (`relexify.recipes`) runs those that a recipe has, in
their order: each takes the model that the step before it wrote and writes a folder with the next one; the last one
writes the output. Steps are resumable: called again with the same arguments, a step continues or returns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar

from relexify.device import AUTO
from relexify.registry import Registry
from relexify.storage.notes import Notes

if TYPE_CHECKING:
    from relexify.methods.parts.vector_alignment import AlignedBy
    from relexify.scoring import Score
    from relexify.text import Corpus
    from relexify.training.results.result import TrainingResult

__all__ = [
    "INHERITED",
    "STEPS",
    "Flattened",
    "ModelChange",
    "ModelName",
    "NamesModel",
    "ResultTable",
    "RunContext",
    "Step",
    "StepComparison",
    "StepReport",
    "StepTraining",
    "TrainingSettings",
    "Variant",
    "changes_of",
    "methods_of",
    "run_seed",
    "snapshot_folder",
]

Options = TypeVar("Options")
Result = TypeVar("Result")


@dataclass(frozen=True)
class NamesModel:
    """Marks a field with the name of a model or tokenizer: `Annotated[str, NamesModel()]`."""


ModelName = Annotated[str, NamesModel()]
"""A model or tokenizer: a folder, or a name on the Hub. In a recipe, a path is relative to the file."""

INHERITED: Mapping[str, bool] = MappingProxyType({"inherited": True})
"""Metadata of a field of nested options: left out of a recipe, its value is that of the enclosing options."""


@dataclass(frozen=True)
class Flattened:
    """Marks a field with further options by name: `Annotated[Mapping[str, Any], Flattened(…)]`.

    In a recipe they are keys of the same table, next to the other fields.

    Attributes:
        classes: Returns the dataclasses whose fields are these options, by the name of what has them, such as a method.
    """

    classes: Callable[[], Mapping[str, type[Any]]]


@dataclass(frozen=True)
class RunContext:
    """The inputs that all steps of a run share.

    Attributes:
        source_model: The pretrained model that the run starts from: a folder, a Hub name or a packaged model.
        corpus: Text in the target language.
        held_out: Text to score on; if None, a part of the corpus is held out.
        tables: The options of all tables of the recipe, by name.
        device: Where to search and score: `cpu`, `cuda`, or `auto` for a GPU if there is one, which training uses.
        overwrite: Whether an older output may be replaced.
        seed: Random seed of the run, for steps whose table has none; see `run_seed`.
    """

    source_model: str
    corpus: Corpus
    held_out: Corpus | None
    tables: Mapping[str, Any]
    device: str = AUTO
    overwrite: bool = False
    seed: int = 0


class TrainingSettings(Protocol):
    """What a comparison needs to know about the training of its runs."""

    @property
    def steps(self) -> int:
        """Optimiser steps."""

    @property
    def plan(self) -> str:
        """The plan of runs that have none of their own."""

    @property
    def selects_best(self) -> bool:
        """Whether the model with the best score is kept instead of the last one."""


@dataclass(frozen=True)
class StepTraining(Generic[Options]):
    """The training of a step that trains a model.

    Attributes:
        settings: Returns the training in the options of the step.
        load: Reads the result of the training from the folder that the step wrote.
        table: The recipe table with the keys of the settings; empty if the step trains more than once.
        with_plan: Returns the options for a training with another plan; None if the step has plans of its own.
        with_snapshots: Returns the options for a training that also keeps the models after some optimiser steps, each
            in its `snapshot_folder`; None if the step cannot keep them.
    """

    settings: Callable[[Options], TrainingSettings]
    load: Callable[[Path], TrainingResult]
    table: str = ""
    with_plan: Callable[[Options, str], Options] | None = None
    with_snapshots: Callable[[Options, tuple[int, ...]], Options] | None = None


@dataclass(frozen=True)
class Variant:
    """How a run of a comparison differs from its recipe, besides its plan and the keys that it changes.

    Attributes:
        seed: Random seed.
        corpus: The part of the text to train on.
        held_out: Text to score on.
        method: The initialisation; None for that of the recipe.
        without: Names of evidence to leave out.
        aligned_by: What aligns word vectors; None for what the recipe says.
    """

    seed: int
    corpus: Corpus
    held_out: Corpus
    method: str | None = None
    without: Sequence[str] = ()
    aligned_by: AlignedBy | None = None


@dataclass(frozen=True)
class StepComparison(Generic[Options]):
    """What a comparison, which runs the steps of one recipe several times, needs to know about a step.

    Attributes:
        vary: Returns the options of a run, from those of the recipe.
        incomparable: Returns why the runs of a comparison cannot have these options; empty if they can.
        method_settings: Returns settings that the method decides if they are not given, by the key of the table; a
            comparison shows those in which its runs differ.
        evidence_quality: Reads how good the step's evidence was, as shares from 0 to 1 by name, from the folder that it
            wrote; a comparison shows them beside the scores of its runs.
    """

    vary: Callable[[Options, Variant], Options] = lambda options, variant: options
    incomparable: Callable[[Options], str] = lambda options: ""
    method_settings: Callable[[Options], Mapping[str, bool]] = lambda options: {}
    evidence_quality: Callable[[Path], Mapping[str, float]] = lambda output: {}


@dataclass(frozen=True)
class ResultTable:
    """A part of a result as a table of text.

    Attributes:
        title: What it shows.
        rows: The header, then the rows.
        is_drawn: Whether reports show the same numbers in a figure, so that they need no table.
    """

    title: str
    rows: Sequence[Sequence[str]]
    is_drawn: bool = False


@dataclass(frozen=True)
class ModelChange:
    """What a step did to a model, for its report and its model card.

    Attributes:
        title: Follows the name of the source model in a title, such as `transferred with blend`.
        text: Follows it in a sentence, which others may follow; empty if the card describes what was done before.
        scores: Scores of the parts of the step.
    """

    title: str
    text: str = ""
    scores: Sequence[Score] = ()


@dataclass(frozen=True)
class StepReport(Generic[Result]):
    """What commands, reports and model cards say about a step.

    Attributes:
        summarise: Returns a result as tables and sentences, which a command prints if the step is the last one.
        summarise_notes: Returns what the notes (`relexify.json`) of a model say about the step, as tables and
            sentences, which a command prints if other steps follow, and which reports show.
        change: Returns from the notes of a model what the step, or another command of its system, did to it; None if
            nothing.
        scores: Reads the scores that the step measured, besides those of its result, from the folder that it wrote.
    """

    summarise: Callable[[Result], Sequence[ResultTable | str]] = lambda result: ()
    summarise_notes: Callable[[Notes], Sequence[ResultTable | str]] = lambda notes: ()
    change: Callable[[Notes], ModelChange | None] = lambda notes: None
    scores: Callable[[Path], Sequence[Score]] | None = None


@dataclass(frozen=True)
class Step(Generic[Options, Result]):
    """One step of a run.

    The keys of the table are the fields of the options. Their types say how a value is read: `TextOption` (of
    `relexify.text`) is the name of a text or a list of names, `ModelName` a model, a `Path` any file,
    `Annotated[str, REGISTRY]` a name in a registry. Fields called `model`, `output`, `corpus` and `held_out` are filled
    from the top of the recipe, `device` and `overwrite` by the runner. A recipe may give some keys of nested options;
    the others keep the values of the field's default.

    A recipe can be compared if one of its steps trains, and one has a method if the runs name any.

    Attributes:
        table: The name of the recipe table.
        options: The dataclass of its options, or `dict` if the keys are free.
        order: Steps run in ascending order, see `STEPS`.
        summary: What it does, in one line, for help and documentation.
        check: Validates the options before any work, with the files and the model; raises `InputError`.
        run: Takes the options, the context, the model to start from and the folder to write; returns the result.
        load: Reads the result of an earlier run from the folder that it wrote.
        validate: Validates the options when a recipe is read, alone and against the other tables; raises `InputError`.
        inputs: Returns the files and folders that the options name, which an output must not replace.
        method: Returns the initialisation that the options name; None if the step has none.
        seed: Returns the key `seed` of the table; None if it has no such key.
        conflicts: Tables that a recipe with this one must not have, each with the reason.
        reshapes: Whether the model that it writes may have other parameters, or of other sizes, than the one it takes.
        distributed: Whether all processes of a distributed launch run it together; else one does, and the others wait.
        languages: Returns the names of the languages of the model that it writes, if there are several. The tasks of
            the recipe name one of them, so they can be evaluated only after this step.
        training: How it trains the model; None if it does not.
        comparison: How the runs of a comparison differ in it.
        report: What is said about it and its result.
    """

    table: str
    options: type[Options]
    order: int
    summary: str
    check: Callable[[Options, RunContext], None]
    run: Callable[[Options, RunContext, str, Path], Result]
    load: Callable[[Path], Result] | None = None
    validate: Callable[[Options, Mapping[str, Any]], None] = lambda options, tables: None
    inputs: Callable[[Options], Sequence[Any]] = lambda options: ()
    method: Callable[[Options], str] | None = None
    seed: Callable[[Options], int] | None = None
    conflicts: Mapping[str, str] = field(default_factory=dict)
    reshapes: bool = False
    distributed: bool = False
    languages: Callable[[Options], Sequence[str]] = lambda options: ()
    training: StepTraining[Options] | None = None
    comparison: StepComparison[Options] = field(default_factory=StepComparison)
    report: StepReport[Result] = field(default_factory=StepReport)


def snapshot_folder(output: Path, optimiser_step: int) -> Path:
    """Return the folder for the model after one step of a training, in the folder that the training writes."""
    return output / "snapshots" / f"step-{optimiser_step}"


STEPS: Registry[Step[Any, Any]] = Registry("recipe table")
"""The steps that a recipe may have, by table.

Their orders leave room for others between them:

    10  transfer     20  fresh        the model: with embeddings of the target language, or with random parameters
    30  compress                      its embedding is compressed before it is trained
    40  training     50  bilingual    60  trelm
"""


def run_seed(steps: Sequence[Step[Any, Any]], tables: Mapping[str, Any]) -> int:
    """Return the random seed of a run: the seed of its first step that has one.

    Args:
        steps: In their order.
        tables: The options of the steps, by table.
    """
    return next((step.seed(tables[step.table]) for step in steps if step.seed is not None), 0)


def methods_of(tables: Mapping[str, Any]) -> dict[str, str]:
    """Return the initialisations that the tables of a run name, by table."""
    known = {name: STEPS[name].method for name in tables if name in STEPS}
    return {name: method(tables[name]) for name, method in known.items() if method is not None}


def changes_of(notes: Notes) -> list[ModelChange]:
    """Return what was done to a model, from its notes, the last step first."""
    steps = sorted(STEPS.values(), key=lambda step: -step.order)
    return [change for step in steps if (change := step.report.change(notes)) is not None]
