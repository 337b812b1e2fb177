"""Train and test a parser, once for each seed.

A `Formalism` defines what the parser predicts: trees or semantic roles. A finished seed is a folder with the parser and
its tokenizer; an unfinished seed leaves checkpoints next to it. The same call resumes from both.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import torch
from safetensors import SafetensorError
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.evaluation.data.files import TaskData
from relexify.evaluation.options import Evaluation, ParserTraining, check_seeds
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.inputs import Sentence, TokenizedSentence, tokenize_sentences
from relexify.evaluation.registry import TASKS
from relexify.evaluation.results import SeedResult, TaskResult
from relexify.evaluation.training import DEV_SCORE, by_content, epoch_arguments, seeded_run, train_epochs
from relexify.grafting.swap import load_lexicon, swap_lexicon
from relexify.pretrained.architecture import check_fit, usable_length
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.runtime.quiet import quiet_transformers, save_model
from relexify.scoring import Score
from relexify.storage.files import write_folder
from relexify.storage.fingerprint import describe, fingerprint
from relexify.storage.json import parse_json
from relexify.storage.revisions import TASK_REVISIONS
from relexify.storage.runs.claims import claimed

__all__ = ["Formalism", "SeedRun", "evaluate_parser", "load_parser", "make_optimiser", "train_parser"]

RECORD_FILE = "parser_training.json"

AnySentence = TypeVar("AnySentence", bound=Sentence)
Gold = TypeVar("Gold")
Prediction = TypeVar("Prediction")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Formalism(Generic[AnySentence, Gold, Prediction]):
    """The kind of structure that a parser predicts: trees, or predicates and their arguments.

    Attributes:
        parser: The class of the model.
        labels: Returns the labels in a sentence.
        gold: Returns the annotation of a sentence, with its labels as numbers.
        batch: Returns the model's arguments for tokenized sentences and their annotations.
        predict: Returns the predictions for sentences.
        dev_score: Compares annotations with predictions; the best epoch is chosen by this score.
        dev_metric: Name of this score.
    """

    parser: type[BiaffineParser]
    labels: Callable[[AnySentence], Iterable[str]]
    gold: Callable[[AnySentence, Mapping[str, int]], Gold]
    batch: Callable[[Sequence[TokenizedSentence], Sequence[Gold]], dict[str, torch.Tensor]]
    predict: Callable[[BiaffineParser, PreTrainedTokenizerFast, Sequence[AnySentence]], list[Prediction]]
    dev_score: Callable[[Sequence[AnySentence], Sequence[Prediction]], float]
    dev_metric: str


@dataclass(frozen=True)
class SeedRun:
    """A trained parser.

    Attributes:
        seed: The random seed.
        folder: The folder with the parser and its tokenizer.
        epoch: The epoch whose parameters were kept.
        score: The `Formalism.dev_score` of this epoch.
    """

    seed: int
    folder: Path
    epoch: float
    score: float


def evaluate_parser(
    model: str,
    data: TaskData,
    options: Evaluation,
    folder: Path,
    formalism: Formalism[AnySentence, Gold, Prediction],
) -> TaskResult:
    """Train a parser with every seed, and test it, with the lexicon of another language if one is given.

    Args:
        model: A folder or name, as for `load_model`.
        data: Training, development and test sentences.
        options: The task, its training, its seeds and the lexicon.
        folder: The folder for parsers and checkpoints.
        formalism: The structure that the parser predicts.
    """
    metric = TASKS[options.task].metric
    training: ParserTraining = options.training  # type: ignore[assignment]  # tasks with a formalism have these options
    lexicon = None if options.through is None else load_lexicon(options.through)
    dev = data.dev or ()
    results = []
    for run in train_parser(model, data.train, dev, training, folder, formalism=formalism, seeds=options.seeds):
        parser, tokenizer = load_parser(run.folder, formalism.parser)
        if lexicon is not None:
            parser, tokenizer = swap_lexicon(parser, lexicon), lexicon.tokenizer
        parser = parser.to(options.device)
        found = {
            name: SeedResult(run.seed, metric(test, formalism.predict(parser, tokenizer, test), task=options.task))
            for name, test in data.tests.items()
        }
        words = sum(map(len, dev))
        dev_score = Score(options.task, formalism.dev_metric, run.score, True, words, "words")
        results.append(replace(SeedResult.over_tests(run.seed, found), dev=dev_score))
    return TaskResult(tuple(results))


def train_parser(
    model: str | Path,
    training: Sequence[AnySentence],
    dev: Sequence[AnySentence],
    options: ParserTraining,
    folder: str | Path,
    *,
    formalism: Formalism[AnySentence, Gold, Prediction],
    seeds: tuple[int, ...] = (0,),
) -> tuple[SeedRun, ...]:
    """Train a parser on top of a model, once for each seed; seeds that are finished in `folder` are not trained again.

    Args:
        model: A folder or name, as for `load_model`.
        training: The training treebank.
        dev: The development treebank, to choose the best epoch.
        options: Options of the training.
        folder: The folder for results (a folder `seed-N` for each seed) and checkpoints.
        formalism: The structure that the parser predicts.
        seeds: The random seeds, with one run for each.

    Raises:
        InputError: The training or development data has no words, or `folder` belongs to another training.
        TrainingError: The training diverged, or the GPU is out of memory.
        OutputError: The result cannot be written.
    """
    folder = Path(folder)
    check_seeds(seeds)
    training = [sentence for sentence in training if len(sentence)]
    for name, treebank in (("training", training), ("development", dev)):
        if not any(len(sentence) for sentence in treebank):
            raise InputError(f"the {name} data has no words: give annotated sentences")
    identity = {
        "model": by_content(model),
        **describe(options),
        "training data": fingerprint(training),
        "development data": fingerprint(dev),
    }
    with claimed(folder, identity, TASK_REVISIONS):
        return tuple(
            _read_run(folder, seed) or _train_seed(model, training, dev, options, seed, folder, formalism)
            for seed in seeds
        )


def load_parser(
    folder: str | Path, parser_class: type[BiaffineParser] = BiaffineParser
) -> tuple[BiaffineParser, PreTrainedTokenizerFast]:
    """Load a parser and its tokenizer.

    Args:
        folder: A folder `seed-N` that `train_parser` wrote.
        parser_class: The class of the parser, see `Formalism.parser`.

    Raises:
        InputError: The folder contains no parser, or the parser is damaged.
    """
    if not (Path(folder) / "config.json").is_file():
        raise InputError(f"{folder} holds no parser: give a folder seed-N that train_parser wrote")
    try:
        with quiet_transformers():
            parser, loaded = parser_class.from_pretrained(folder, output_loading_info=True, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(f"the parser in {folder} cannot be loaded ({error}): train it again") from error
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(f"the parser in {folder} lacks {len(missing)} parameters ({missing[0]}, …): train it again")
    return parser.eval(), load_tokenizer(folder)


def make_optimiser(parser: BiaffineParser, options: ParserTraining) -> torch.optim.Optimizer:
    """Return AdamW with separate learning rates for encoder and scorers, and weight decay only for matrices."""
    groups: dict[tuple[bool, bool], list[torch.Tensor]] = {}
    for name, parameter in parser.named_parameters():
        groups.setdefault((name.startswith("encoder."), parameter.ndim > 1), []).append(parameter)
    rates = {True: options.learning_rate, False: options.score_learning_rate or options.learning_rate}
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": rates[in_encoder], "weight_decay": options.weight_decay if is_matrix else 0.0}
            for (in_encoder, is_matrix), parameters in groups.items()
        ],
        betas=(options.beta1, options.beta2),
        eps=options.epsilon,
    )


def _train_seed(
    model: str | Path,
    training: Sequence[AnySentence],
    dev: Sequence[AnySentence],
    options: ParserTraining,
    seed: int,
    folder: Path,
    formalism: Formalism[AnySentence, Gold, Prediction],
) -> SeedRun:
    """Train one parser, or resume, and write it."""
    tokenizer = load_tokenizer(model)
    labels = sorted({label for sentence in training for label in formalism.labels(sentence)})
    steps = math.ceil(len(training) / options.batch) * options.epochs
    checkpoints = folder / f"seed-{seed}.checkpoints"
    advice = f"use a smaller batch than {options.batch} sentences"
    with seeded_run(f"training a parser (seed {seed})", seed, steps, memory_advice=advice) as advance:
        parser = formalism.parser.on_top_of(
            load_model(model),
            labels,
            arc_size=options.arc_size,
            label_size=options.label_size,
            dropout=options.dropout,
            pooling=options.pooling,
        )
        check_fit(parser, tokenizer)
        numbers = {label: number for number, label in enumerate(labels)}
        tokenized = tokenize_sentences(tokenizer, training, usable_length(parser.encoder))
        state = train_epochs(
            parser,
            [(pieces, formalism.gold(each, numbers)) for pieces, each in zip(tokenized, training, strict=True)],
            lambda rows: formalism.batch([pieces for pieces, _ in rows], [gold for _, gold in rows]),
            epoch_arguments(
                options,
                checkpoints,
                seed=seed,
                steps=steps,
                is_scored=True,
                restores_callbacks=options.patience is not None,
            ),
            score=lambda: formalism.dev_score(dev, formalism.predict(parser, tokenizer, dev)),
            optimiser=make_optimiser(parser, options),
            patience=options.patience,
            advance=advance,
        )
    # If several epochs are equally good, the Trainer has loaded the parameters of the first.
    best = max((entry for entry in state.log_history if DEV_SCORE in entry), key=lambda entry: entry[DEV_SCORE])
    run = SeedRun(seed, folder / f"seed-{seed}", best["epoch"], best[DEV_SCORE])
    with write_folder(run.folder) as beside:
        save_model(parser, beside)
        tokenizer.save_pretrained(beside)
        record = {"seed": seed, "epoch": run.epoch, "score": run.score}
        (beside / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(checkpoints, ignore_errors=True)
    logger.info("seed %d: %s %.4f after epoch %g", seed, formalism.dev_metric, run.score, run.epoch)
    return run


def _read_run(folder: Path, seed: int) -> SeedRun | None:
    """Return a finished seed; None if it is not finished."""
    path = folder / f"seed-{seed}"
    if not path.exists():
        return None
    try:
        record = parse_json((path / RECORD_FILE).read_text(encoding="utf-8"))
        return SeedRun(record["seed"], path, record["epoch"], record["score"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no finished parser ({error}): remove it, or give another folder") from error
