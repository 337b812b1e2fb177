"""A training job: a model, its data, and how to load and save it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.grafting import check_own_tokenizer
from relexify.mixture import MIXTURE_FILE
from relexify.pretrained.architecture import check_fit
from relexify.pretrained.loading import add_next_sentence_head, load_model, load_tokenizer
from relexify.pretrained.runtime.quiet import save_model
from relexify.pretrained.runtime.runnable import check_finite
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.fingerprint import fingerprint
from relexify.storage.notes import inherited_notes
from relexify.storage.runs.work import is_intermediate
from relexify.text import TextSource
from relexify.tokens import vocabulary_of
from relexify.training.data.texts import TrainingData, share_packing, training_data
from relexify.training.distributed import started_processes
from relexify.training.options import Training
from relexify.training.precision import cast_for_training
from relexify.training.trainable import check_trainable

__all__ = ["TrainingJob", "language_model_job", "load_valid", "source_notes"]


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
        model, tokenizer = load_valid(source)
    dtype = model.dtype
    check_trainable(model, training)
    model = cast_for_training(model, training)
    extension = notes.get("extension") if training.keep_rows else None
    if training.keep_rows and not extension:
        raise InputError(
            f"{source} has no added tokens, so `keep_rows` would leave no row to train: give a model whose vocabulary "
            "was extended, or leave it out"
        )
    share_packing(tokenizer, corpus, held_out)
    if training.source_corpus is not None:
        share_packing(tokenizer, training.source_corpus, training.source_held_out)
    with processes.main_process_first():
        data, identity = training_data(model, tokenizer, corpus, held_out, training)

    def save(trained: PreTrainedModel, folder: Path) -> None:
        add_next_sentence_head(trained, source)  # it is not trained here, but must not be lost
        save_model(trained, folder)
        save_tokenizer(tokenizer, folder)
        if (Path(source) / MIXTURE_FILE).is_file():
            shutil.copyfile(Path(source) / MIXTURE_FILE, folder / MIXTURE_FILE)

    return TrainingJob(
        model=model,
        dtype=dtype,
        data=data,
        identity={"model": fingerprint([model, tokenizer]), **identity},
        notes=notes,
        load=lambda folder: load_model(folder or source),
        save=save,
        kept_rows=len(vocabulary_of(tokenizer)) - int(extension["added"]) if extension else 0,
        command=_record_command(corpus, held_out, training),
    )


def load_valid(source: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load a model to train and its tokenizer, and validate that they belong together and that no weight is NaN.

    Args:
        source: As `model` of `train`.

    Raises:
        InputError: The model cannot be loaded, or a weight is NaN or infinite.
        VocabularyError: The tokenizer does not belong to the model.
    """
    model, tokenizer = load_model(source), load_tokenizer(source)
    check_fit(model, tokenizer)
    check_own_tokenizer(source, tokenizer)
    if started_processes().is_main_process:  # with FSDP, only this one may have the weights
        check_finite(model)
    return model, tokenizer


def source_notes(source: str | Path) -> dict[str, Any]:
    """Return the notes that a trained model inherits from the model that its training started from.

    The name of that model is among them, unless it is an intermediate result, which is removed at the end.

    Raises:
        InputError: As `read_notes`.
    """
    notes = inherited_notes(source)
    # With --add-head, a copy in the cache is trained, which has no other notes. Its name means nothing to users.
    is_copy = "head_added_to" in notes and set(notes) <= {"head_added_to", "files"}
    named = notes["head_added_to"] if is_copy else str(source)
    return notes if is_intermediate(source) else {**notes, "trained_from": named}


def _record_command(corpus: TextSource, held_out: TextSource | None, training: Training) -> dict[str, Any] | None:
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
