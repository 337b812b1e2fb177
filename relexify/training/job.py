"""What a training is about: a model with its text, and how it is read and written."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from relexify.grafting import MIXTURE_FILE
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.scoring import HeldOut, check_fit, held_out_windows, model_kind
from relexify.storage.files import MARKER
from relexify.text import Corpus
from relexify.training.data.batches import Blocks
from relexify.training.data.packing import pack
from relexify.training.engine.stage import Text
from relexify.training.identity import model_digest, text_identity
from relexify.training.plan import Training
from relexify.training.trainable import check_trainable

__all__ = [
    "HELD_OUT_EVERY",
    "LanguageText",
    "Subject",
    "language_text",
    "measured_text",
    "notes_of",
    "one_language",
]

HELD_OUT_EVERY = 100

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subject:
    """What a training is about.

    Attributes:
        model: In float32; training changes it.
        dtype: The type that it is written in at the end.
        text: To learn from and to measure on.
        identity: All that the result depends on, but for the options.
        notes: What its folder tells of it, and will tell of the result.
        reload: Reads a model that a stage has written; given nothing, the one that training began with.
        write: Writes a model, with all that belongs to it, into a folder.
    """

    model: Any
    dtype: torch.dtype
    text: Text
    identity: dict[str, Any]
    notes: dict[str, Any]
    reload: Callable[[Path | None], Any]
    write: Callable[[Any, Path], None]


@dataclass(frozen=True)
class LanguageText:
    """The text of one language.

    Attributes:
        blocks: To learn from.
        held_out: To measure on.
        identity: What changes when the text or the tokenizer does.
    """

    blocks: Blocks
    held_out: HeldOut
    identity: dict[str, str]


def one_language(
    source: str | Path, corpus: Any, held_out: Any, training: Training, processes: PartialState
) -> Subject:
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
        text = language_text(model, tokenizer, corpus, held_out, training, training.batch)

    def write(trained: Any, folder: Path) -> None:
        trained.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        if (Path(source) / MIXTURE_FILE).is_file():
            shutil.copyfile(Path(source) / MIXTURE_FILE, folder / MIXTURE_FILE)

    return Subject(
        model,
        dtype,
        Text(text.blocks, {None: text.held_out}, model_kind(model)),
        {"model": model_digest(model), **text.identity},
        notes_of(source),
        lambda folder: load_model(folder or source),
        write,
    )


def language_text(
    model: Any, tokenizer: Any, corpus: Any, held_out: Any, training: Training, batch: int
) -> LanguageText:
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
    kind, windows = model_kind(model), measured_text(model, tokenizer, kept, training)
    packed = pack(learnt, tokenizer, excluding=kept)
    blocks = Blocks(packed, tokenizer, kind, length=training.length, masking=training.masking, seed=training.seed)
    epochs = training.steps * batch / blocks.count
    logger.info("%d tokens of text, seen %.2f times; measured on %d bytes", len(packed), epochs, windows.bytes)
    return LanguageText(blocks, windows, text_identity(tokenizer, windows, packed))


def measured_text(model: Any, tokenizer: Any, held_out: Any, training: Training) -> HeldOut:
    """So much of a text as a training is measured on; arguments as for `language_text`."""
    size = training.held_out_bytes or (400_000 if torch.cuda.is_available() else 40_000)
    lines = Corpus.open(held_out).sample_bytes(size).split("\n")
    return held_out_windows(tokenizer, lines, model_kind(model), length=training.length)


def notes_of(source: str | Path) -> dict[str, Any]:
    """What a folder says about itself, so that a trained graft still tells of its graft."""
    try:
        notes = json.loads((Path(source) / MARKER).read_text())
    except (OSError, ValueError):
        return {"trained_from": str(source)}
    return {**notes, "trained_from": str(source)} if isinstance(notes, dict) else {"trained_from": str(source)}
