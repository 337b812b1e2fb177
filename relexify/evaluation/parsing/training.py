"""Train a parser on a treebank, once for each seed.

A finished seed is a folder with the parser and its tokenizer; an unfinished one leaves checkpoints beside it, and the
same call resumes from both.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.evaluation.data.treebank import ParsedSentence
from relexify.evaluation.options import ParserTraining, check_seeds
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.inputs import GoldTree, TokenizedSentence, padded_batch, tokenize_sentences
from relexify.evaluation.parsing.trees import attachment_scores, best_tree, parse
from relexify.evaluation.training import by_content, claimed, epoch_arguments, seeded_run, train_epochs
from relexify.pretrained.architecture import check_fit, usable_length
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.quiet import quiet_transformers, save_model
from relexify.storage.files import write_folder
from relexify.storage.fingerprint import describe, fingerprint

__all__ = ["SeedRun", "load_parser", "make_optimiser", "train_parser"]

RECORD_FILE = "parser_training.json"
UAS, LAS = "eval_uas", "eval_las"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SeedRun:
    """A trained parser.

    Attributes:
        seed: Its seed.
        folder: Where the parser and its tokenizer are.
        epoch: The epoch whose parameters were kept.
        uas: Unlabelled attachment score on the development treebank, punctuation included.
        las: Labelled attachment score likewise.
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
) -> tuple[SeedRun, ...]:
    """Train a parser on top of a model, once for each seed; seeds that are finished in `folder` are kept.

    Args:
        model: A folder or name, as for `load_model`.
        training: The training treebank.
        dev: The development treebank, to choose the epoch by its labelled attachment score.
        options: How.
        folder: For the results, one folder `seed-N` for each seed, and for checkpoints.
        seeds: One run for each.

    Raises:
        InputError: A treebank has no words, or `folder` belongs to another training.
        TrainingError: The training diverged, or the GPU is out of memory.
        OutputError: The result cannot be written.
        MissingExtra: The package `ufal.chu-liu-edmonds` is not installed.
    """
    folder = Path(folder)
    check_seeds(seeds)
    training = [sentence for sentence in training if len(sentence)]
    for name, treebank in (("training", training), ("development", dev)):
        if not any(len(sentence) for sentence in treebank):
            raise InputError(f"the {name} treebank has no words: give sentences with trees")
    best_tree(np.zeros((1, 2)))  # raises MissingExtra now, not after the first epoch
    identity = {
        "model": by_content(model),
        **describe(options),
        "training data": fingerprint(training),
        "development data": fingerprint(dev),
    }
    with claimed(folder, identity):
        return tuple(
            _read_run(folder, seed) or _train_seed(model, training, dev, options, seed, folder) for seed in seeds
        )


def load_parser(folder: str | Path) -> tuple[BiaffineParser, PreTrainedTokenizerFast]:
    """Load a parser and its tokenizer that `train_parser` wrote.

    Raises:
        InputError: There is none, or it is damaged.
    """
    if not (Path(folder) / "config.json").is_file():
        raise InputError(f"{folder} holds no parser: give a folder seed-N that train_parser wrote")
    try:
        with quiet_transformers():
            parser, loaded = BiaffineParser.from_pretrained(folder, output_loading_info=True, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(f"the parser in {folder} cannot be loaded ({error}): train it again") from error
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(f"the parser in {folder} lacks {len(missing)} parameters ({missing[0]}, …): train it again")
    return parser.eval(), load_tokenizer(folder)


def make_optimiser(parser: BiaffineParser, options: ParserTraining) -> torch.optim.Optimizer:
    """Return AdamW with the learning rates of encoder and scorers; matrices decay, vectors do not."""
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
    training: Sequence[ParsedSentence],
    dev: Sequence[ParsedSentence],
    options: ParserTraining,
    seed: int,
    folder: Path,
) -> SeedRun:
    """Train one parser, or resume, and write it."""
    tokenizer = load_tokenizer(model)
    relations = sorted({relation for sentence in training for relation in sentence.relations})
    steps = -(-len(training) // options.batch) * options.epochs
    checkpoints = folder / f"seed-{seed}.checkpoints"
    advice = f"use a smaller batch than {options.batch} sentences"
    with seeded_run(f"training a parser (seed {seed})", seed, steps, memory_advice=advice) as advance:
        parser = BiaffineParser.on_top_of(
            load_model(model),
            relations,
            arc_size=options.arc_size,
            label_size=options.label_size,
            dropout=options.dropout,
            pooling=options.pooling,
        )
        check_fit(parser, tokenizer)

        def score() -> dict[str, float]:
            uas, las = attachment_scores(dev, parse(parser, tokenizer, dev))
            return {UAS: uas.value, LAS: las.value}

        state = train_epochs(
            parser,
            _encode(parser, tokenizer, training),
            lambda rows: padded_batch([sentence for sentence, _ in rows], [gold for _, gold in rows]),
            epoch_arguments(
                options,
                checkpoints,
                seed=seed,
                steps=steps,
                best_by=LAS,
                restores_callbacks=options.patience is not None,
            ),
            score=score,
            optimiser=make_optimiser(parser, options),
            patience=options.patience,
            advance=advance,
        )
    # The first of the best epochs is the one whose parameters were loaded.
    best = max((entry for entry in state.log_history if LAS in entry), key=lambda entry: entry[LAS])
    run = SeedRun(seed, folder / f"seed-{seed}", best["epoch"], best[UAS], best[LAS])
    with write_folder(run.folder) as beside:
        save_model(parser, beside)
        tokenizer.save_pretrained(beside)
        record = {"seed": seed, "epoch": run.epoch, "uas": run.uas, "las": run.las}
        (beside / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(checkpoints, ignore_errors=True)
    logger.info("seed %d: LAS %.4f after epoch %g", seed, run.las, run.epoch)
    return run


def _encode(
    parser: BiaffineParser, tokenizer: PreTrainedTokenizerFast, sentences: Sequence[ParsedSentence]
) -> list[tuple[TokenizedSentence, GoldTree]]:
    """Tokenize sentences, with heads and numbers of relations as labels."""
    numbers = {relation: number for number, relation in enumerate(parser.config.relations)}
    tokenized = tokenize_sentences(tokenizer, sentences, usable_length(parser.encoder))
    return [
        (pieces, (sentence.heads, tuple(numbers[relation] for relation in sentence.relations)))
        for pieces, sentence in zip(tokenized, sentences, strict=True)
    ]


def _read_run(folder: Path, seed: int) -> SeedRun | None:
    """Return a finished seed; None if it is not finished."""
    path = folder / f"seed-{seed}"
    if not path.exists():
        return None
    try:
        record = json.loads((path / RECORD_FILE).read_text())
        return SeedRun(record["seed"], path, record["epoch"], record["uas"], record["las"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no finished parser ({error}): remove it, or give another folder") from error
