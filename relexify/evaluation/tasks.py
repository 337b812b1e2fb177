"""Tasks by name: how a model is measured on them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from relexify.errors import InputError
from relexify.evaluation.data.files import TaskData, TaskFiles, find_files, read_task
from relexify.evaluation.data.labelled_lines import GLUE_TASKS
from relexify.evaluation.data.labelled_texts import Example
from relexify.evaluation.finetuning.options import FineTuning
from relexify.evaluation.finetuning.run import fine_tune
from relexify.evaluation.metrics import Confusion, LabelRow
from relexify.evaluation.parsing.run import swap_lexicon
from relexify.evaluation.parsing.trainer import ParserTraining
from relexify.evaluation.parsing.training import load_parser, train_parser
from relexify.evaluation.parsing.trees import attachment_scores, parse
from relexify.evaluation.probing.probes import probe_pairs, probe_words
from relexify.pretrained import is_bilingual, load_config, load_model, load_tokenizer, resolve
from relexify.scoring import Score
from relexify.systems.bilingual.folder import language_folder

__all__ = [
    "EVALUATIONS",
    "Evaluation",
    "EvaluationResult",
    "TaskFiles",
    "check_evaluated_model",
    "check_evaluation",
    "evaluate_task",
    "find_files",
]

EVALUATIONS: Mapping[str, str] = {
    "nli": "natural language inference: premise, hypothesis, label; accuracy",
    "ner": "names: a word and a tag a line; entity F1",
    "pos": "parts of speech: a word and a tag a line, or CoNLL-U; accuracy",
    "parse": "dependency parsing: CoNLL-U; UAS and LAS",
    **{name: f"{name.upper()} as GLUE ships it" for name in GLUE_TASKS},
}
"""What `Evaluation.task` may be."""
_PROBED = ("nli", "pos")


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
        score_learning_rate: For parsing: the same for what stands on top of the encoder.
        examples: Learn from so many, taken at even distances from the training file; from all if not given.
        seeds: One run for each.
        device: Where probes and parsers are computed, `auto` for the GPU where there is one; training takes what there
            is.
    """

    task: str
    probe: bool = False
    language: str | None = None
    through: str | None = None
    epochs: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    score_learning_rate: float | None = None
    examples: int | None = None
    seeds: tuple[int, ...] = (0,)
    device: str = "auto"


@dataclass(frozen=True)
class EvaluationResult:
    """What was measured.

    Attributes:
        scores: Means over the seeds.
        deviation: Of each score over the seeds; None for one seed.
        table: By label, where there are labels.
        confusion: What was taken for what, summed over the seeds.
        per_seed: The scores of each seed; of a probe, which has nothing random, once.
    """

    scores: tuple[Score, ...]
    deviation: tuple[float, ...] | None = None
    table: tuple[LabelRow, ...] = ()
    confusion: Confusion | None = None
    per_seed: tuple[tuple[Score, ...], ...] = ()


def evaluate_task(model: str | Path, files: TaskFiles, options: Evaluation, *, folder: str | Path) -> EvaluationResult:
    """Measure a model on a task, by fine-tuning it or with a probe.

    Args:
        model: A folder or a name.
        files: The data.
        options: The task, and how.
        folder: For finished seeds and checkpoints; the same call goes on from what lies there.

    Raises:
        InputError: There is no such task, a file is not what it should be, or the model cannot do the task.
    """
    check_evaluation(options)
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    other = options.language is None or options.through is None or not is_bilingual(model)
    with (
        language_folder(model, options.language) as learner,
        nullcontext(options.through) if other else language_folder(model, options.through) as through,
    ):
        read = None if through is None else str(through)
        chosen, name = replace(options, device=device, through=read), resolve(learner)
        data = read_task(options.task, files, examples=options.examples)
        return _evaluated(name, data, chosen, Path(folder))


def _evaluated(model: str, data: TaskData, options: Evaluation, folder: Path) -> EvaluationResult:
    if options.task == "parse":
        return _parsed(model, data, options, folder)
    if options.probe:
        return _probed(model, data, options)
    result = fine_tune(
        model,
        data.train,
        data.test,
        FineTuning(options.task, seeds=options.seeds, **_chosen(options, "epochs", "batch", "learning_rate")),
        folder=folder,
        dev=data.dev,
        through=options.through,
    )
    per_seed = tuple(seed.scores for seed in result.per_seed)
    return EvaluationResult(result.scores, result.deviation, result.table, result.confusion, per_seed)


def check_evaluation(options: Evaluation) -> None:
    """Refuse what no measurement can be made of.

    Raises:
        InputError: There is no such task, it is not done so, or a number is impossible.
    """
    task = options.task
    if task not in EVALUATIONS:
        raise InputError(f"there is no task {task!r}: choose one of {', '.join(EVALUATIONS)}")
    if options.probe and task not in _PROBED:
        raise InputError(f"there is no probe for {task}: choose one of {', '.join(_PROBED)}, or leave it out")
    if options.through is not None and options.probe:
        raise InputError("a probe cannot be tested through another model's embeddings: leave out one of the two")
    if options.score_learning_rate is not None and task != "parse":
        raise InputError(f"{task} has no score_learning_rate: only parse has one")
    for name in ("epochs", "batch", "examples"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InputError(f"{name} = {value} is not possible: give 1 or more")
    for name in ("learning_rate", "score_learning_rate"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"{name} = {value} is not possible: give a number above 0")
    for name in ("epochs", "learning_rate") if options.probe else ():
        if getattr(options, name) is not None:
            raise InputError(f"a probe has no {name}: leave it out, or the probe")
    if not options.seeds or len(set(options.seeds)) < len(options.seeds) or min(options.seeds) < 0:
        raise InputError(f"seeds = {list(options.seeds)} is not possible: give one or more different numbers from 0 on")


def check_evaluated_model(model: str | Path, options: Evaluation) -> None:
    """Refuse a model that cannot be fine-tuned on the task; anything can be probed, and parsed with.

    Raises:
        InputError: There is no such model, or it is a decoder or an encoder-decoder.
    """
    if options.probe or options.task == "parse":
        return
    config = load_config(model)
    names = [str(name) for name in getattr(config, "architectures", None) or []]
    decodes = getattr(config, "is_decoder", False) or any("CausalLM" in name or "LMHead" in name for name in names)
    if getattr(config, "is_encoder_decoder", False):
        found = "an encoder-decoder"
    elif decodes or config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        found = "a decoder"
    else:
        return
    raise InputError(
        f"the task {options.task} needs an encoder such as BERT, and {model} is {found}: {_instead(options)}"
    )


def _instead(options: Evaluation) -> str:
    return "probe it (probe = true)" if options.task in _PROBED else "leave the task out"


def _chosen(options: Evaluation, *names: str) -> dict[str, Any]:
    """The options that were given."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _probed(model: str, data: TaskData, options: Evaluation) -> EvaluationResult:
    learner, tokenizer = load_model(model).to(options.device), load_tokenizer(model)
    chosen = _chosen(options, "batch")
    if options.task == "nli":
        pairs = [[_pair(each) for each in side] for side in (data.train, data.test)]
        score = probe_pairs(learner, tokenizer, pairs[0], pairs[1], **chosen)
    else:
        words = [[(each.words, each.tags) for each in side] for side in (data.train, data.test)]
        score = probe_words(learner, tokenizer, words[0], words[1], **chosen)
    return EvaluationResult((score,), per_seed=((score,),))


def _pair(example: Example) -> tuple[str, str, str]:
    return example.first, example.second or "", str(example.label)


def _parsed(model: str, data: TaskData, options: Evaluation, folder: Path) -> EvaluationResult:
    """Train a parser with every seed, and parse the test treebank with each."""
    chosen = _chosen(options, "epochs", "batch", "learning_rate", "score_learning_rate")
    training = ParserTraining(seeds=options.seeds, **chosen)
    trained = train_parser(model, data.train, data.dev or (), training, folder)
    per_seed = []
    for run in trained.runs:
        parser, tokenizer = load_parser(run.folder)
        if options.through is not None:
            parser, tokenizer = swap_lexicon(parser, options.through)
        found = parse(parser.to(options.device), tokenizer, data.test)
        counted = (attachment_scores(data.test, found, punctuation=punctuation) for punctuation in (True, False))
        per_seed.append(tuple(score for scores in counted for score in scores))
    return EvaluationResult(*_summary(per_seed), per_seed=tuple(per_seed))


def _summary(per_seed: Sequence[Sequence[Score]]) -> tuple[tuple[Score, ...], tuple[float, ...] | None]:
    """The means over the seeds, and the sample standard deviations where there are several."""
    values = [[score.value for score in same] for same in zip(*per_seed, strict=True)]
    means = tuple(replace(score, value=statistics.fmean(same)) for score, same in zip(per_seed[0], values, strict=True))
    return means, tuple(map(statistics.stdev, values)) if len(per_seed) > 1 else None
