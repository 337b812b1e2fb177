"""What a training is about: a model with its text, and how it is read and written."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from relexify.grafting import MIXTURE_FILE
from relexify.pretrained.architecture import Architecture, architecture_of, check_fit
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.scoring import HeldOut, held_out_windows
from relexify.storage.fingerprint import fingerprint
from relexify.storage.work import inherited_notes
from relexify.text import Corpus
from relexify.training.data.batches import Batches, Blocks
from relexify.training.data.packing import pack
from relexify.training.plan import HELD_OUT_EVERY, Training
from relexify.training.trainable import check_trainable

__all__ = [
    "LanguageData",
    "TrainingData",
    "TrainingJob",
    "held_out_data",
    "language_data",
    "one_language",
    "source_notes",
]


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingData:
    """Text to train on and to score on.

    Attributes:
        batches: Sequences to train on.
        held_out: Text to score on, by language; the key is None for a model with one language.
        kind: Of the model.
    """

    batches: Batches
    held_out: Mapping[str | None, HeldOut]
    kind: Architecture


@dataclass(frozen=True)
class TrainingJob:
    """What a training is about.

    Attributes:
        model: In float32; training changes it.
        dtype: The type that it is written in at the end.
        data: Text to train on and to score on.
        identity: All that the result depends on, but for the options.
        notes: What its folder tells of it, and will tell of the result.
        reload: Reads a model that a stage has written; given nothing, the one that training began with.
        write: Writes a model, with all that belongs to it, into a folder.
    """

    model: Any
    dtype: torch.dtype
    data: TrainingData
    identity: dict[str, Any]
    notes: dict[str, Any]
    reload: Callable[[Path | None], Any]
    write: Callable[[Any, Path], None]


@dataclass(frozen=True)
class LanguageData:
    """The text of one language.

    Attributes:
        blocks: To learn from.
        held_out: To measure on.
        identity: What changes when the text or the tokenizer does.
    """

    blocks: Blocks
    held_out: HeldOut
    identity: dict[str, Any]


def one_language(
    source: str | Path, corpus: Any, held_out: Any, training: Training, processes: PartialState
) -> TrainingJob:
    """An ordinary model and its text.

    Raises:
        InputError: Something about model or text does not fit.
        VocabularyError: The tokenizer is not the model's.
    """
    with processes.main_process_first():
        model, tokenizer = load_model(source), load_tokenizer(source)
    dtype = model.dtype
    model = model.float()
    check_trainable(model, training)
    check_fit(model, tokenizer)
    with processes.main_process_first():
        text = language_data(model, tokenizer, corpus, held_out, training, training.batch)

    def write(trained: Any, folder: Path) -> None:
        trained.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        if (Path(source) / MIXTURE_FILE).is_file():
            shutil.copyfile(Path(source) / MIXTURE_FILE, folder / MIXTURE_FILE)

    return TrainingJob(
        model,
        dtype,
        TrainingData(text.blocks, {None: text.held_out}, architecture_of(model)),
        {"model": fingerprint(model), **text.identity},
        source_notes(source),
        lambda folder: load_model(folder or source),
        write,
    )


def language_data(
    model: Any, tokenizer: Any, corpus: Any, held_out: Any, training: Training, batch: int
) -> LanguageData:
    """Text to learn from and text to measure on, which never meet.

    Args:
        model: That reads it.
        tokenizer: The model's.
        corpus: Text to learn from, whatever `Corpus.open` takes.
        held_out: Text to measure on; where none is given, one line in 100 of the corpus is kept aside.
        training: How much is measured, how long sequences are, …
        batch: Sequences of this text a step.
    """
    whole = Corpus.open(corpus)
    learnt, kept = whole.split(HELD_OUT_EVERY) if held_out is None else (whole, Corpus.open(held_out))
    kind, windows = architecture_of(model), held_out_data(model, tokenizer, kept, training)
    packed = pack(learnt, tokenizer, excluding=kept)
    blocks = Blocks(packed, tokenizer, kind, length=training.length, masking=training.masking, seed=training.seed)
    epochs = training.steps * batch / blocks.count
    logger.info("%d tokens of text, seen %.2f times; measured on %d bytes", len(packed), epochs, windows.bytes)
    return LanguageData(blocks, windows, {"tokenizer": tokenizer, "held_out": windows, "text": packed.name})


def held_out_data(model: Any, tokenizer: Any, held_out: Any, training: Training) -> HeldOut:
    """So much of a text as a training is measured on; arguments as for `language_data`."""
    size = training.held_out_bytes or (400_000 if torch.cuda.is_available() else 40_000)
    lines = Corpus.open(held_out).sample_bytes(size).split("\n")
    return held_out_windows(tokenizer, lines, architecture_of(model), length=training.length)


def source_notes(source: str | Path) -> dict[str, Any]:
    """Return the notes of the folder that a training starts from, for its result, and where it started."""
    return {**inherited_notes(source), "trained_from": str(source)}
