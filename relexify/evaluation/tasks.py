"""Tasks by name: which files they read, and how a model is measured on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.evaluation.columns import TaggedSentence, read_columns
from relexify.evaluation.finetuning import FineTuning, fine_tune
from relexify.evaluation.metrics import Confusion, LabelRow
from relexify.evaluation.pairs import GLUE_TASKS, Example, read_examples, read_glue
from relexify.evaluation.parsing import ParserTraining, attachment_scores, parse, swap_lexicon, train_parser
from relexify.evaluation.probes import probe_pairs, probe_words
from relexify.evaluation.treebank import read_treebank
from relexify.grafting import is_bilingual, load_model, load_tokenizer
from relexify.models.bilingual_folder import exported
from relexify.progress import Progress, silent
from relexify.scoring import Score

__all__ = ["EVALUATIONS", "Evaluation", "EvaluationResult", "TaskFiles", "evaluate_task", "find_files"]

EVALUATIONS: Mapping[str, str] = {
    "nli": "natural language inference: premise, hypothesis, label; accuracy",
    "ner": "names: a word and a tag a line; entity F1",
    "pos": "parts of speech: a word and a tag a line, or CoNLL-U; accuracy",
    "parse": "dependency parsing: CoNLL-U; UAS and LAS",
    **{name: f"{name.upper()} as GLUE ships it" for name in GLUE_TASKS},
}
"""What `Evaluation.task` may be."""
_PROBED = ("nli", "pos")
_PARTS = {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}


@dataclass(frozen=True)
class TaskFiles:
    """Where the data of a task lies.

    Attributes:
        train: To learn from.
        test: To measure on.
        dev: To choose the best epoch by.
    """

    train: str | Path
    test: str | Path
    dev: str | Path | None = None


@dataclass(frozen=True)
class Evaluation:
    """How a model is measured on a task.

    Attributes:
        task: One of `EVALUATIONS`.
        probe: Train a linear probe on frozen hidden states rather than the model (nli, pos).
        language: Of a bilingual model, the language that is learnt from.
        through: A model of another language, or the name of the other language of a bilingual model, whose tokenizer
            and embeddings take over for the test: zero-shot transfer.
        epochs: As in `FineTuning` and `ParserTraining`, whose own numbers are taken if not given; so for the next two.
        batch: Examples a step.
        learning_rate: The peak.
        seeds: One run for each.
        device: Where probes are computed; training takes what there is.
    """

    task: str
    probe: bool = False
    language: str | None = None
    through: str | None = None
    epochs: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    seeds: tuple[int, ...] = (0,)
    device: str = "cpu"


@dataclass(frozen=True)
class EvaluationResult:
    """What was measured.

    Attributes:
        scores: Means over the seeds.
        deviation: Of each score over the seeds; None for one seed.
        table: By label, where there are labels.
        confusion: What was taken for what, summed over the seeds.
    """

    scores: tuple[Score, ...]
    deviation: tuple[float, ...] | None = None
    table: tuple[LabelRow, ...] = ()
    confusion: Confusion | None = None


def find_files(data: str | Path) -> TaskFiles:
    """The training, development and test files of a folder, told by their names.

    Raises:
        InputError: There is no folder, or it lacks a file to learn from or to measure on.
    """
    folder = Path(data)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give one with train, dev and test files, or name the files")
    found = {part: _named(folder, names) for part, names in _PARTS.items()}
    if found["train"] is None or not (found["test"] or found["dev"]):
        missing = "train" if found["train"] is None else "dev or test"
        raise InputError(f"{folder} has no file whose name says {missing}: name the files yourself")
    return TaskFiles(found["train"], found["test"] or found["dev"] or "", found["dev"] if found["test"] else None)


def evaluate_task(
    model: str | Path, files: TaskFiles, options: Evaluation, *, folder: str | Path, progress: Progress = silent
) -> EvaluationResult:
    """Measure a model on a task, by fine-tuning it or with a probe.

    Args:
        model: A folder or a name.
        files: The data.
        options: The task, and how.
        folder: For finished seeds and checkpoints; the same call goes on from what lies there.
        progress: Told about everything that takes long.

    Raises:
        InputError: There is no such task, a file is not what it should be, or the model cannot do the task.
    """
    if options.task not in EVALUATIONS:
        raise InputError(f"there is no task {options.task!r}: choose one of {', '.join(EVALUATIONS)}")
    if options.probe and options.task not in _PROBED:
        raise InputError(f"there is no probe for {options.task}: choose one of {', '.join(_PROBED)}, or leave it out")
    if options.through is not None and options.probe:
        raise InputError("a probe cannot be tested through another model's embeddings: leave out one of the two")
    other = options.language is None or options.through is None or not is_bilingual(model)
    with (
        exported(model, options.language) as learner,
        nullcontext(options.through) if other else exported(model, options.through) as through,
    ):
        read = None if through is None else str(through)
        return _evaluated(learner, files, replace(options, through=read), folder, progress)


def _evaluated(
    model: str | Path, files: TaskFiles, options: Evaluation, folder: str | Path, progress: Progress
) -> EvaluationResult:
    if options.task == "parse":
        return _parsed(model, files, options, Path(folder), progress)
    if options.probe:
        return _probed(model, files, options, progress)
    dev = None if files.dev is None else _read(options.task, files.dev)
    chosen = {
        name: getattr(options, name)
        for name in ("epochs", "batch", "learning_rate")
        if getattr(options, name) is not None
    }
    result = fine_tune(
        model,
        _read(options.task, files.train),
        _read(options.task, files.test),
        FineTuning(options.task, seeds=options.seeds, **chosen),
        folder=folder,
        dev=dev,
        through=options.through,
        progress=progress,
    )
    return EvaluationResult(result.scores, result.deviation, result.table, result.confusion)


def _read(task: str, path: str | Path) -> Any:
    if task in ("ner", "pos"):
        return _tagged(path)
    return read_glue(path, task) if task in GLUE_TASKS else read_examples(path)


def _tagged(path: str | Path) -> list[TaggedSentence]:
    if ".conllu" in Path(path).suffixes:
        return [TaggedSentence(tuple(each.words), tuple(each.upos)) for each in read_treebank(path)]
    return read_columns(path)


def _probed(model: str | Path, files: TaskFiles, options: Evaluation, progress: Progress) -> EvaluationResult:
    learner, tokenizer = load_model(model).to(options.device), load_tokenizer(model)
    if options.task == "nli":
        sides = [[_pair(each) for each in read_examples(path)] for path in (files.train, files.test)]
        return EvaluationResult((probe_pairs(learner, tokenizer, sides[0], sides[1], progress=progress),))
    words = [[(each.words, each.tags) for each in _tagged(path)] for path in (files.train, files.test)]
    return EvaluationResult((probe_words(learner, tokenizer, words[0], words[1], progress=progress),))


def _pair(example: Example) -> tuple[str, str, str]:
    return example.first, example.second or "", str(example.label)


def _parsed(
    model: str | Path, files: TaskFiles, options: Evaluation, folder: Path, progress: Progress
) -> EvaluationResult:
    if files.dev is None:
        raise InputError("parsing needs a development treebank to choose the best epoch by: give one (--dev)")
    chosen = {
        name: getattr(options, name)
        for name in ("epochs", "batch", "learning_rate")
        if getattr(options, name) is not None
    }
    training = ParserTraining(seeds=options.seeds, **chosen)
    trained = train_parser(
        model, read_treebank(files.train), read_treebank(files.dev), training, folder, progress=progress
    )
    parser, tokenizer = trained.parser, trained.tokenizer
    if options.through is not None:
        parser, tokenizer = swap_lexicon(parser, options.through)
    gold = read_treebank(files.test)
    found = parse(parser.to(options.device), tokenizer, gold, progress=progress)
    scores = [
        score for punctuation in (True, False) for score in attachment_scores(gold, found, punctuation=punctuation)
    ]
    return EvaluationResult(tuple(scores))


def _named(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The file whose name has one of the words in it, where there is just one."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    found = [path for path in files if set(re.split(r"[^a-z]+", path.name.lower())) & set(names)]
    if len(found) > 1:
        raise InputError(f"{folder} has several files for {names[0]} ({found[0].name}, {found[1].name}): name one")
    return found[0] if found else None
