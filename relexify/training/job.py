"""A training job: a model, its data, and how to load and save it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from relexify.errors import InputError
from relexify.mixture import MIXTURE_FILE
from relexify.pretrained.architecture import Architecture, architecture_of, check_fit
from relexify.pretrained.loading import add_next_sentence_head, load_model, load_tokenizer
from relexify.pretrained.quiet import save_model
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.scoring import HeldOut, held_out_windows, sample_size
from relexify.storage.fingerprint import fingerprint
from relexify.storage.notes import inherited_notes
from relexify.storage.work import is_intermediate
from relexify.text import HELD_OUT_EVERY, Corpus, TextSource
from relexify.tokens import encoder_of, vocabulary_of
from relexify.training.curve import SOURCE, TARGET
from relexify.training.data.batches import Batches, Blocks, MixedTexts
from relexify.training.data.packing import pack, pack_share
from relexify.training.engine.arguments import DISTRIBUTED_TIMEOUT
from relexify.training.options import Training
from relexify.training.precision import cast_for_training
from relexify.training.trainable import check_trainable

__all__ = [
    "LanguageData",
    "TrainingData",
    "TrainingJob",
    "held_out_data",
    "language_data",
    "language_model_job",
    "share_packing",
    "source_notes",
    "started_processes",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingData:
    """Text to train on and to score on.

    Attributes:
        batches: Sequences to train on.
        held_out: Text to score on, by language; the key is None for a model with one language.
        kind: Kind of the model.
        count: Number of different sequences; None if it is not known.
        takes_language: Whether the model must be given the language of a held-out text.
    """

    batches: Batches
    held_out: Mapping[str | None, HeldOut]
    kind: Architecture
    count: int | None = None
    takes_language: bool = True


@dataclass(frozen=True)
class TrainingJob:
    """Everything that `run_training` needs to train a model, besides the options.

    Attributes:
        model: The model, as `cast_for_training` returns it; training changes it.
        dtype: The type that its parameters are saved in at the end.
        data: Text to train on and to score on.
        identity: Everything that the result depends on besides the options, for `fingerprint`.
        notes: Notes for the folder of the result.
        load: Loads the model that a stage saved into a folder; for None, the model that training starts from.
        save: Saves a model, with its tokenizer and whatever else belongs to it, into a folder.
        kept_rows: Number of first rows that stay bit-identical in every parameter with one row per token.
        command: The names of the texts and the options that were given, to repeat the training with others; None if
            it is not known.
    """

    model: PreTrainedModel
    dtype: torch.dtype
    data: TrainingData
    identity: Mapping[str, Any]
    notes: Mapping[str, Any]
    load: Callable[[Path | None], PreTrainedModel]
    save: Callable[[PreTrainedModel, Path], None]
    kept_rows: int = 0
    command: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class LanguageData:
    """The text of one language.

    Attributes:
        blocks: Sequences to train on.
        held_out: Text to score on.
        identity: Changes with text, held-out text and tokenizer.
    """

    blocks: Blocks
    held_out: HeldOut
    identity: Mapping[str, Any]


def language_model_job(
    source: str | Path,
    corpus: TextSource,
    held_out: TextSource | None,
    training: Training,
) -> TrainingJob:
    """Load a model and its text.

    Args:
        source: As `model` of `train`.
        corpus: As for `train`.
        held_out: As for `train`.
        training: The options.

    Raises:
        InputError: The model cannot be trained as requested, or a text cannot be read or is too short.
        VocabularyError: The tokenizer does not belong to the model.
    """
    notes, processes = source_notes(source), started_processes()
    with processes.main_process_first():
        model, tokenizer = load_model(source), load_tokenizer(source)
    dtype = model.dtype
    check_trainable(model, training)
    model = cast_for_training(model, training)
    check_fit(model, tokenizer)
    extension = notes.get("extension") if training.keep_rows else None
    if training.keep_rows and not extension:
        raise InputError(
            f"{source} has no added tokens, so keep_rows would leave no row to train: give a model whose vocabulary "
            "was extended, or leave it out"
        )
    share_packing(tokenizer, corpus, held_out)
    if training.source_corpus is not None:
        share_packing(tokenizer, training.source_corpus, training.source_held_out)
    with processes.main_process_first():
        data, identity = _open_data(model, tokenizer, corpus, held_out, training)

    def save(trained: PreTrainedModel, folder: Path) -> None:
        add_next_sentence_head(trained, source)  # untrained here, but TreLM's last phase trains it further
        save_model(trained, folder)
        save_tokenizer(tokenizer, folder)
        if (Path(source) / MIXTURE_FILE).is_file():
            shutil.copyfile(Path(source) / MIXTURE_FILE, folder / MIXTURE_FILE)

    return TrainingJob(
        model=model,
        dtype=dtype,
        data=data,
        identity={"model": fingerprint(model), **identity},
        notes=notes,
        load=lambda folder: load_model(folder or source),
        save=save,
        kept_rows=len(vocabulary_of(tokenizer)) - int(extension["added"]) if extension else 0,
        command=_command(corpus, held_out, training),
    )


def language_data(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    corpus: TextSource,
    held_out: TextSource | None,
    training: Training,
    *,
    language: str | None = None,
) -> LanguageData:
    """Open text to train on and text to score on; the two never overlap.

    Args:
        model: The model that reads it.
        tokenizer: The tokenizer of the model.
        corpus: Text to train on, whatever `Corpus.open` takes.
        held_out: Text to score on; if None, one line in 100 of the corpus is held out.
        training: The options.
        language: Its name in the log, if there are several.
    """
    train_text, kept = _both_sides(corpus, held_out)
    windows = held_out_data(model, tokenizer, kept, training)
    packed = pack(train_text, tokenizer, excluding=kept)
    length, masking, seed = training.length, training.masking, training.seed
    blocks = Blocks(packed, tokenizer, architecture_of(model), length=length, masking=masking, seed=seed)
    sizes = [f"{size:,}" for size in (len(packed), blocks.count, windows.bytes)]
    text = f"text ({language})" if language else "text"
    logger.info("%s tokens of %s, %s sequences; scored on %s bytes", sizes[0], text, *sizes[1:])
    identity = {"tokenizer": encoder_of(tokenizer).identity, "held_out": windows, "text": packed.name}
    return LanguageData(blocks, windows, identity)


def share_packing(tokenizer: PreTrainedTokenizerBase, corpus: TextSource, held_out: TextSource | None) -> None:
    """Let the processes that were started together tokenize the text of `language_data`, each a share of it.

    They all call it, and then `language_data`, the first of them before the others. Arguments as for `language_data`.
    """
    processes = started_processes()
    if processes.num_processes == 1:
        return
    train_text, kept = _both_sides(corpus, held_out)
    rank, ranks = processes.process_index, processes.num_processes
    pack_share(train_text, tokenizer, excluding=kept, rank=rank, ranks=ranks)
    processes.wait_for_everyone()


def held_out_data(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, held_out: TextSource, training: Training
) -> HeldOut:
    """Return as much of a held-out text as the options say; arguments as for `language_data`."""
    size = sample_size(training.held_out_bytes, "cuda" if torch.cuda.is_available() else "cpu")
    lines = Corpus.open(held_out).sample_bytes(size).split("\n")
    return held_out_windows(tokenizer, lines, architecture_of(model), length=training.length)


def source_notes(source: str | Path) -> dict[str, Any]:
    """Return the notes that a trained model inherits from the model that its training started from.

    The name of that model is among them, unless it is an intermediate result, which is removed at the end.

    Raises:
        InputError: As `read_notes`.
    """
    notes = inherited_notes(source)
    # A copy in the cache of a model that was given a head for this training; others have notes of what was done then.
    is_copy = "head_added_to" in notes and set(notes) <= {"head_added_to", "files"}
    named = notes["head_added_to"] if is_copy else str(source)
    return notes if is_intermediate(source) else {**notes, "trained_from": named}


def started_processes() -> PartialState:
    """Return the processes that torchrun or accelerate started together; without them, this one alone."""
    # Processes wait for the first one while it prepares text, which may take longer than the ten minutes of NCCL.
    return PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=DISTRIBUTED_TIMEOUT))


def _open_data(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    corpus: TextSource,
    held_out: TextSource | None,
    training: Training,
) -> tuple[TrainingData, dict[str, Any]]:
    """Open the text of one language, or of two if the options name text of the source language.

    Returns:
        The data, and what the result of the training depends on because of it; arguments as for `language_data`.
    """
    kind = architecture_of(model)
    if training.source_corpus is None:
        text = language_data(model, tokenizer, corpus, held_out, training)
        return TrainingData(text.blocks, {None: text.held_out}, kind, text.blocks.count), dict(text.identity)
    target = language_data(model, tokenizer, corpus, held_out, training, language=TARGET)
    source = language_data(
        model, tokenizer, training.source_corpus, training.source_held_out, training, language=SOURCE
    )
    share = training.source_share
    data = TrainingData(
        MixedTexts(source.blocks, target.blocks, share),
        {SOURCE: source.held_out, TARGET: target.held_out},
        kind,
        # Sequences of both texts until each one of the target text has been seen once.
        round(target.blocks.count / (1 - share)),
        takes_language=False,
    )
    return data, {**target.identity, "source": source.identity}


def _both_sides(corpus: TextSource, held_out: TextSource | None) -> tuple[Corpus, Corpus]:
    """Return text to train on and text to score on; arguments as for `language_data`."""
    whole = Corpus.open(corpus)
    return whole.split(HELD_OUT_EVERY) if held_out is None else (whole, Corpus.open(held_out))


def _command(corpus: TextSource, held_out: TextSource | None, training: Training) -> dict[str, Any] | None:
    """Return texts and options as they were given, without defaults and stages; None if a text has no name."""
    texts = {
        "corpus": corpus,
        "held_out": held_out,
        "source_corpus": training.source_corpus,
        "source_held_out": training.source_held_out,
    }
    command: dict[str, Any] = {"options": {}}
    for name, text in texts.items():
        parts = [text] if isinstance(text, str | Path) else text
        if parts is None:
            continue
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str | Path) for part in parts):
            return None
        command[name] = [str(part) for part in parts]
    for entry in fields(training):
        value = getattr(training, entry.name)
        if entry.name not in (*texts, "stages") and value != entry.default:
            command["options"][entry.name] = value
    return command
