"""Train a parser on a treebank, once for every seed.

Every seed has a folder of its own, written when it is finished, so that a killed run goes on with the seeds that are
missing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import EarlyStoppingCallback

from relexify.errors import InputError, TrainingError
from relexify.evaluation.data.treebank import ParsedSentence
from relexify.evaluation.epoch_trainer import Steps
from relexify.evaluation.options import ParserTraining, check_seeds
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.trainer import (
    LAS,
    UAS,
    ParserTrainer,
    arguments_of,
    collate,
    examples_of,
    optimizer_of,
)
from relexify.evaluation.parsing.trees import best_tree
from relexify.pretrained.architecture import check_fit
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.progress import track
from relexify.storage.files import check_output, sha256_of, temporary_prefix, write_folder
from relexify.training.engine.randomness import isolated_randomness

__all__ = ["SeedRun", "load_parser", "train_parser"]

RECORD_FILE = "parser_training.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SeedRun:
    """One finished training.

    Attributes:
        seed: What it began with.
        folder: Where its parser and tokenizer are.
        epoch: Which epoch's parameters these are.
        uas: On the held-out treebank, punctuation included.
        las: Likewise.
    """

    seed: int
    folder: Path
    epoch: float
    uas: float
    las: float


def train_parser(
    model: str | Path,
    training: Sequence[ParsedSentence],
    dev: Sequence[ParsedSentence],
    options: ParserTraining,
    folder: str | Path,
    *,
    seeds: tuple[int, ...] = (0,),
    overwrite: bool = False,
) -> tuple[SeedRun, ...]:
    """Train a parser on top of a model, once for every seed; seeds that are finished in `folder` are kept.

    Args:
        model: A folder or name, as for `load_model`.
        training: To learn from.
        dev: To choose the epoch, and the seed, by their labelled attachment score.
        options: How.
        seeds: One training for each.
        folder: For the results, one folder `seed-N` for each seed.
        overwrite: Whether finished seeds of another training may be replaced.

    Raises:
        InputError: There are no sentences, or `folder` holds another training.
        TrainingError: The scores are no longer numbers, or the memory does not suffice.
        OutputError: The result cannot be written.
        MissingExtra: The package `ufal.chu-liu-edmonds` is needed.
    """
    check_seeds(seeds)
    training = [sentence for sentence in training if len(sentence)]
    if not training or not any(len(sentence) for sentence in dev):
        what = "held-out" if training else "training"
        raise InputError(f"the {what} treebank has no words: give sentences with trees")
    best_tree(np.zeros((1, 2)))  # asks for its package now, not after the first epoch
    tokenizer = load_tokenizer(model)
    job = _job(model, training, dev, options)
    runs = []
    for seed in seeds:
        place = Path(folder) / f"seed-{seed}"
        run = _finished(place, job, overwrite)
        if run is None:
            run = _train_seed(model, tokenizer, (training, dev), options, seed, place, job)
        runs.append(run)
    return tuple(runs)


def load_parser(folder: str | Path) -> tuple[BiaffineParser, Any]:
    """A parser and its tokenizer, as `train_parser` wrote them.

    Raises:
        InputError: There is none, or it is damaged.
    """
    if not (Path(folder) / "config.json").is_file():
        raise InputError(f"{folder} holds no parser: give a folder seed-N that train_parser wrote")
    try:
        parser, loaded = BiaffineParser.from_pretrained(folder, output_loading_info=True, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(f"the parser in {folder} cannot be loaded ({error}): train it again") from error
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(f"the parser in {folder} lacks {len(missing)} parameters ({missing[0]}, …): train it again")
    return parser.eval(), load_tokenizer(folder)


def _train_seed(
    model: str | Path,
    tokenizer: Any,
    treebanks: tuple[Sequence[ParsedSentence], Sequence[ParsedSentence]],
    options: ParserTraining,
    seed: int,
    place: Path,
    job: Mapping[str, Any],
) -> SeedRun:
    training, dev = treebanks
    relations = sorted({relation for sentence in training for relation in sentence.relations})
    steps = -(-len(training) // options.batch) * options.epochs
    check_output(place, overwrite=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    # Named so that `write_folder` sweeps it away, should this run be killed.
    checkpoints = tempfile.mkdtemp(prefix=temporary_prefix(place), dir=place.parent)
    try:
        with isolated_randomness(), track(f"training a parser (seed {seed})", steps) as advance:
            torch.manual_seed(seed)
            parser = BiaffineParser.on_top_of(
                load_model(model),
                relations,
                arc_size=options.arc_size,
                label_size=options.label_size,
                dropout=options.dropout,
                pooling=options.pooling,
            )
            check_fit(parser, tokenizer)
            patience = [] if options.patience is None else [EarlyStoppingCallback(options.patience)]
            trainer = ParserTrainer(
                dev,
                tokenizer,
                model=parser,
                args=arguments_of(options, seed, checkpoints, steps),
                train_dataset=examples_of(parser, tokenizer, training),
                data_collator=collate,
                optimizers=(optimizer_of(parser, options), None),
                callbacks=[*patience, Steps(advance)],
            )
            try:
                trainer.train()
            except torch.OutOfMemoryError as error:
                raise TrainingError(
                    f"the GPU's memory does not suffice for {options.batch} sentences at once: take a smaller batch"
                ) from error
        run = _run(trainer, seed, place)
        with write_folder(place, overwrite=True) as beside:
            parser.save_pretrained(beside)
            tokenizer.save_pretrained(beside)
            record = {"job": job, "seed": seed, "epoch": run.epoch, "uas": run.uas, "las": run.las}
            (beside / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n")
    finally:
        shutil.rmtree(checkpoints, ignore_errors=True)
    logger.info("seed %d: LAS %.4f after epoch %g", seed, run.las, run.epoch)
    return run


def _run(trainer: Any, seed: int, place: Path) -> SeedRun:
    """The first of the best epochs, which is the one that was loaded."""
    measured = [entry for entry in trainer.state.log_history if LAS in entry]
    best = max(measured, key=lambda entry: entry[LAS])
    return SeedRun(seed, place, best["epoch"], best[UAS], best[LAS])


def _job(
    model: str | Path, training: Sequence[ParsedSentence], dev: Sequence[ParsedSentence], options: ParserTraining
) -> dict[str, Any]:
    """All that a seed's result depends on."""
    settings = asdict(options)
    digests = [hashlib.sha256(repr(list(treebank)).encode()).hexdigest() for treebank in (training, dev)]
    known = sha256_of(model) if Path(model).is_dir() else str(model)
    return {"model": known, "training": digests[0], "dev": digests[1], "options": settings}


def _finished(place: Path, job: Mapping[str, Any], overwrite: bool) -> SeedRun | None:
    """What is there already, where it belongs to this job."""
    if not place.exists() or not any(place.iterdir()):
        return None
    try:
        record = json.loads((place / RECORD_FILE).read_text())
        different = sorted(name for name in job if record["job"].get(name) != json.loads(json.dumps(job[name])))
        run = SeedRun(record["seed"], place, record["epoch"], record["uas"], record["las"])
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        if overwrite:
            return None
        raise InputError(f"{place} holds no finished parser ({error}): remove it, or give another folder") from error
    if not different:
        return run
    if overwrite:
        return None
    raise InputError(
        f"{place} holds a parser of another training (its {' and '.join(different)} differ): "
        "give another folder, or allow it to be replaced (overwrite)"
    )
