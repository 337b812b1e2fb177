"""The three phases of training (section 3.3), each a separate training run that resumes from its checkpoints.

Commonality: masked tokens of both languages, with the layers of the backbone frozen. Transfer: CdLM and masked tokens,
from source to target with the lower half frozen, and from target to source with the upper half frozen; the two models
are combined. Language-specific: masked tokens of the target language, and next sentences if the model has the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from relexify.errors import InputError
from relexify.pretrained.loading import load_model, meta_model
from relexify.pretrained.runtime.runnable import check_finite
from relexify.storage.files import MARKER, check_output, write_file, write_folder
from relexify.storage.fingerprint import fingerprint
from relexify.systems.trelm.data.batches import TARGET_INDEX, InLanguage, PairBatches
from relexify.systems.trelm.data.next_sentences import SegmentPairs
from relexify.systems.trelm.data.pairs import AlignedPairs
from relexify.systems.trelm.model.folder import Tokenizers, check_tokenizers, load_tokenizers, save_with_tokenizers
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.options import Direction, Objective, Weighting, check_objective
from relexify.systems.trelm.parameters import Phase, combine_halves, phase_pattern
from relexify.text import TextSource
from relexify.tokens import encoder_of
from relexify.training.data.batches import Batches, TwoTexts
from relexify.training.data.texts import TrainingData, held_out_data, language_data
from relexify.training.distributed import started_processes
from relexify.training.job import TrainingJob, source_notes
from relexify.training.options import Stage, Training
from relexify.training.results.result import TrainingResult
from relexify.training.run import run_training
from relexify.training.trainable import check_halves, check_trainable

__all__ = ["combine_directions", "train_commonality", "train_direction", "train_specific"]

_PhaseText = tuple[TrainingData, dict[str, Any]]
"""The text of a phase, and everything else that the result depends on besides the model and the options. Held-out text
with the key None is in the last language."""
_OpenText = Callable[[TriLayerForMaskedLM, Tokenizers, Training], _PhaseText]


def train_commonality(
    model: str | Path,
    output: str | Path,
    corpus: TextSource,
    source_corpus: TextSource,
    training: Training,
    *,
    held_out: TextSource | None = None,
    source_held_out: TextSource | None = None,
    notes: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> TrainingResult:
    """Train the embeddings and the TRILayer on masked tokens of both languages, half of every batch of each.

    Args:
        model: A folder with a TRILayer model.
        output: The folder to write.
        corpus: Text in the target language; anything that `Corpus.open` accepts.
        source_corpus: Text in the source language.
        training: Training options; without stages.
        held_out: Text in the target language to score on; if None, one line in 100 is held out.
        source_held_out: Text in the source language to score on; as `held_out`.
        notes: Additional notes for `relexify.json`.
        overwrite: Replace the output.

    Raises:
        InputError: Model, text and options do not match.
        TrainingError: The loss is NaN or infinite, or there is not enough memory.
    """
    check_halves(training, started_processes().num_processes)
    corpora = (source_corpus, source_held_out, "source_held_out"), (corpus, held_out, "held_out")

    def open_text(loaded: TriLayerForMaskedLM, tokenizers: Tokenizers, training: Training) -> _PhaseText:
        texts = [
            language_data(loaded, tokenizer, text, kept, training, held_out_option=option)
            for tokenizer, (text, kept, option) in zip(tokenizers, corpora, strict=True)
        ]
        blocks = TwoTexts(*(InLanguage(text.blocks, language) for language, text in enumerate(texts)))
        measured = dict(zip(loaded.config.languages, (text.held_out for text in texts), strict=True))
        return TrainingData(blocks, measured, "encoder"), {"texts": [text.identity for text in texts]}

    return _train_phase("commonality", model, output, open_text, training, overwrite=overwrite, notes=notes)


def train_direction(
    model: str | Path,
    output: str | Path,
    pairs: AlignedPairs,
    training: Training,
    *,
    direction: Direction,
    held_out: TextSource,
    objective: Objective = "cdlm",
    weighting: Weighting = "objectives",
) -> TrainingResult:
    """Train one of the two models of transfer training (Algorithm 1).

    Half of each batch are sentence pairs, and half are masked sentences.

    Args:
        model: A folder with a TRILayer model, as commonality training writes it.
        output: The folder to write.
        pairs: Parallel text.
        training: Training options; without stages.
        direction: From the source language, with the lower half frozen, or to it, with the upper half frozen.
        held_out: Text in the target language to score on; anything that `Corpus.open` accepts.
        objective: The objective for sentence pairs.
        weighting: Whether objectives or tokens have equal weight in the loss.

    Raises:
        InputError: Model, text and options do not match.
        TrainingError: The loss is NaN or infinite, or there is not enough memory.
    """
    check_objective(objective)
    check_halves(training, started_processes().num_processes)
    if training.compile is None:  # the model would be compiled for each of the many sentence lengths
        training = replace(training, compile=False)

    def open_text(loaded: TriLayerForMaskedLM, tokenizers: Tokenizers, training: Training) -> _PhaseText:
        if objective == "cdlm" and not loaded.config.trilayer:
            raise InputError("CdLM needs a TRILayer, and the model has none: choose the objective tlm or brlm")
        measured = held_out_data(loaded, tokenizers[TARGET_INDEX], held_out, training)
        batches = PairBatches(
            pairs,
            tokenizers,
            direction=direction,
            objective=objective,
            weighting=weighting,
            segments=int(loaded.config.backbone.type_vocab_size),
            length=training.length,
            masking=training.masking,
            seed=training.seed,
        )
        identity = {
            "pairs": pairs.fingerprint(),
            "objective": objective,
            "weighting": weighting,
            "tokenizer": encoder_of(tokenizers[TARGET_INDEX]).identity,
            "held_out": measured,
        }
        return TrainingData(batches, {None: measured}, "encoder"), identity

    return _train_phase(direction, model, output, open_text, training)


def combine_directions(
    source_to_target: str | Path, target_to_source: str | Path, output: str | Path, *, overwrite: bool = False
) -> None:
    """Write the combination of the two directions (Algorithm 1, line 17).

    Raises:
        InputError: The two models have different parameters.
        OutputError: The output cannot be written.
    """
    processes = started_processes()
    if processes.is_main_process:
        check_output(output, source_to_target, target_to_source, overwrite=overwrite)
        both = combine_halves(_load(source_to_target), _load(target_to_source))
        tokenizers = load_tokenizers(source_to_target, both.config)
        with write_folder(Path(output), overwrite=overwrite) as folder:
            save_with_tokenizers(both, tokenizers, folder)
            write_file(folder / MARKER, "{}\n")
    processes.wait_for_everyone()


def train_specific(
    model: str | Path,
    output: str | Path,
    corpus: TextSource,
    training: Training,
    *,
    held_out: TextSource | None = None,
    next_sentence: bool | None = None,
    notes: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> TrainingResult:
    """Train everything on masked tokens of the target language, and on next sentences if the model has the head.

    Args:
        model: A folder with a TRILayer model, as transfer training writes it.
        output: The folder to write.
        corpus: Text in the target language.
        training: Training options; without stages.
        held_out: Text to score on; if None, one line in 100 is held out.
        next_sentence: Whether to predict next sentences; if None, only if the model has the head.
        notes: Additional notes for `relexify.json`.
        overwrite: Replace the output.

    Raises:
        InputError: Model, text and options do not match.
        TrainingError: The loss is NaN or infinite, or there is not enough memory.
    """
    has_head = _load(model, meta_model).config.next_sentence
    predicts_next = has_head if next_sentence is None else next_sentence
    if predicts_next and not has_head:
        raise InputError(f"{model} has no head for next sentences: begin with a BERT that has one, or leave them out")

    def open_text(loaded: TriLayerForMaskedLM, tokenizers: Tokenizers, training: Training) -> _PhaseText:
        tokenizer = tokenizers[TARGET_INDEX]
        text = language_data(loaded, tokenizer, corpus, held_out, training)
        blocks: Batches = text.blocks
        if predicts_next:
            blocks = SegmentPairs(
                text.blocks.packed, tokenizer, length=training.length, masking=training.masking, seed=training.seed
            )
        data = TrainingData(InLanguage(blocks, TARGET_INDEX), {None: text.held_out}, "encoder")
        return data, {**text.identity, "follows": predicts_next}

    phase: Phase = "specific with next sentences" if predicts_next else "specific"
    return _train_phase(phase, model, output, open_text, training, overwrite=overwrite, notes=notes)


def _train_phase(
    phase: Phase,
    model: str | Path,
    output: str | Path,
    open_text: _OpenText,
    training: Training,
    *,
    overwrite: bool = False,
    notes: dict[str, Any] | None = None,
) -> TrainingResult:
    """Run a phase as a training run with one stage, which trains the parameters of the phase."""
    if training.stages:
        raise InputError("a phase of TreLM is one stage: give its steps, and leave stages out")
    if torch.cuda.is_available():  # each phase compiles the model for two lengths, and torch keeps only a few versions
        torch.compiler.reset()
    stage = Stage(
        name=phase.replace(" ", "-"),
        steps=training.steps,
        trains=phase_pattern(_load(model, meta_model), phase),
        learning_rate=training.learning_rate,
        warmup_steps=round(training.steps * (training.warmup or 0.0)),
        schedule=training.schedule,
    )
    return run_training(
        lambda training: _phase_job(phase, model, open_text, training, notes or {}),
        output,
        replace(training, stages=(stage,)),
        inputs=(model,),
        overwrite=overwrite,
    )


def _phase_job(
    phase: Phase, model: str | Path, open_text: _OpenText, training: Training, notes: dict[str, Any]
) -> TrainingJob:
    """Load the model of a phase and its text; the first process fills the caches that the others read."""
    processes = started_processes()
    with processes.main_process_first():
        loaded = _load(model)
        tokenizers = load_tokenizers(model, loaded.config)
    dtype, loaded = loaded.dtype, loaded.float()
    check_trainable(loaded, training)
    check_tokenizers(loaded, tokenizers)
    if processes.is_main_process:  # with FSDP, only this one may have the weights
        check_finite(loaded)
    with processes.main_process_first():
        data, identity = open_text(loaded, tokenizers, training)
    sizes = {  # amount of held-out text, by language
        language or loaded.config.languages[-1]: {"tokens": text.tokens, "bytes": text.bytes}
        for language, text in data.held_out.items()
    }
    return TrainingJob(
        model=loaded,
        dtype=dtype,
        data=data,
        identity={"model": fingerprint([loaded, tokenizers]), "phase": phase, **identity},
        notes=source_notes(model) | {"held_out": sizes} | notes,
        load=lambda folder: load_model(folder or model),
        save=lambda trained, folder: save_with_tokenizers(trained, tokenizers, folder),
    )


def _load(model: str | Path, load: Callable[[str | Path], PreTrainedModel] = load_model) -> TriLayerForMaskedLM:
    """Load a model with language embeddings; with `meta_model`, only the names and shapes of its parameters.

    Raises:
        InputError: The model is not a TRILayer model.
    """
    loaded = load(model)
    if not isinstance(loaded, TriLayerForMaskedLM):
        raise InputError(f"{model} is a {type(loaded).__name__} and has no language embeddings: see with_trilayer")
    return loaded
