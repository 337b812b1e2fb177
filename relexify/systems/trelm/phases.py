"""The three phases of TreLM (section 3.3), each a training of its own that a killed run goes on with.

Commonality: masked tokens of both languages, the layers of the backbone frozen. Transfer: from the source language to
the target language with the lower half frozen, and the other way round with the upper half frozen; the two models are
combined. Language-specific: masked tokens of the target language, and next sentences where the backbone knows them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from relexify.errors import InputError
from relexify.pretrained.loading import load_model
from relexify.storage.files import check_inputs, check_output, write_file, write_folder
from relexify.storage.fingerprint import fingerprint
from relexify.systems.trelm.batches import InLanguage, PairBatches, SegmentPairs
from relexify.systems.trelm.model.folder import check_tokenizers, load_tokenizers, save_tokenizers
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.options import Direction, Objective, check_objective
from relexify.systems.trelm.pairs import AlignedPairs
from relexify.systems.trelm.parameters import Phase, combine_halves, phase_pattern
from relexify.training.data.batches import Batches, TwoTexts
from relexify.training.job import LanguageData, TrainingData, TrainingJob, held_out_data, language_data, source_notes
from relexify.training.plan import Stage, Training
from relexify.training.result import TrainingResult
from relexify.training.run import run_training
from relexify.training.trainable import check_halves, check_trainable

__all__ = ["combine_directions", "train_commonality", "train_direction", "train_specific"]

TARGET = 1
Tokenizers = tuple[Any, Any]
"""Of the source language and of the target language; the same where the vocabulary is joint."""

logger = logging.getLogger(__name__)


def train_commonality(
    model: str | Path,
    output: str | Path,
    corpus: Any,
    source_corpus: Any,
    training: Training,
    *,
    held_out: Any = None,
    source_held_out: Any = None,
    notes: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> TrainingResult:
    """Masked tokens of both languages, half of every batch of each; embeddings and TRILayer alone are trained.

    Args:
        model: A folder with a TRILayer model.
        output: The folder to write.
        corpus: Text of the target language, whatever `Corpus.open` takes.
        source_corpus: Text of the source language.
        training: How; its stages are not asked for.
        held_out: Text of the target language to measure on; else one line in 100 is kept aside.
        source_held_out: The same of the source language.
        notes: What the folder is to tell beside its training.
        overwrite: Replace the output.

    Raises:
        InputError: Something about model, text or options does not fit.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
    """
    processes = PartialState(cpu=not torch.cuda.is_available())
    check_halves(training, processes.num_processes)

    def prepare(plan: Training, learner: TriLayerForMaskedLM, tokenizers: Tokenizers) -> _Prepared:
        half, corpora = plan.batch // 2, ((source_corpus, source_held_out), (corpus, held_out))
        texts = [
            language_data(learner, tokenizer, text, kept, plan, half)
            for tokenizer, (text, kept) in zip(tokenizers, corpora, strict=True)
        ]
        blocks = TwoTexts(*(InLanguage(text.blocks, place) for place, text in enumerate(texts)))
        measured = dict(zip(learner.config.languages, (text.held_out for text in texts), strict=True))
        return _Prepared(blocks, measured, {"texts": [text.identity for text in texts]})

    return _train("commonality", model, output, prepare, training, processes, overwrite, notes)


def train_direction(
    model: str | Path,
    output: str | Path,
    pairs: AlignedPairs,
    training: Training,
    *,
    direction: Direction,
    held_out: Any,
    objective: Objective = "cdlm",
    overwrite: bool = False,
) -> TrainingResult:
    """One of the two models of transfer training (Algorithm 1): half of every batch pairs, half masked sentences.

    Args:
        model: A folder with a TRILayer model, as commonality training leaves it.
        output: The folder to write.
        pairs: Parallel text.
        training: How; its stages are not asked for.
        direction: From the source language, with the lower half frozen, or to it, with the upper half frozen.
        held_out: Text of the target language to measure on, whatever `Corpus.open` takes.
        objective: CdLM, or TLM or BRLM in its place.
        overwrite: Replace the output.

    Raises:
        InputError: Something about model, text or options does not fit.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
    """
    check_objective(objective)
    processes = PartialState(cpu=not torch.cuda.is_available())
    check_halves(training, processes.num_processes)
    if training.compile is None:  # sentences have many lengths, and every one of them would be compiled for
        training = replace(training, compile=False)

    def prepare(plan: Training, learner: TriLayerForMaskedLM, tokenizers: Tokenizers) -> _Prepared:
        if objective == "cdlm" and not learner.config.trilayer:
            raise InputError("CdLM asks for a TRILayer, and the model has none: take the objective tlm or brlm")
        measured = held_out_data(learner, tokenizers[TARGET], held_out, plan)
        batches = PairBatches(
            pairs,
            tokenizers,
            direction=direction,
            objective=objective,
            segments=int(learner.config.backbone.type_vocab_size),
            length=plan.length,
            masking=plan.masking,
            seed=plan.seed,
        )
        weighing = {"objective": objective, "losses": "a mean each"}  # or an older run would go on with another loss
        identity = {"pairs": pairs.identity(), **weighing, "tokenizer": tokenizers[TARGET], "held_out": measured}
        return _Prepared(batches, {None: measured}, identity)

    return _train(direction, model, output, prepare, training, processes, overwrite)


def combine_directions(
    source_to_target: str | Path, target_to_source: str | Path, output: str | Path, *, overwrite: bool = False
) -> None:
    """Write the model that two directions make together (Algorithm 1, line 17).

    Raises:
        InputError: The two models are not built alike.
        OutputError: The output cannot be written.
    """
    processes = PartialState(cpu=not torch.cuda.is_available())
    if processes.is_main_process:
        check_inputs(output, source_to_target, target_to_source)
        check_output(Path(output), overwrite=overwrite)
        both = combine_halves(_loaded(source_to_target), _loaded(target_to_source))
        tokenizers = load_tokenizers(source_to_target, both.config)
        with write_folder(Path(output), overwrite=overwrite) as folder:
            both.save_pretrained(folder)
            save_tokenizers(tokenizers, folder, both.config)
            write_file(folder / "relexify.json", "{}\n")
    processes.wait_for_everyone()


def train_specific(
    model: str | Path,
    output: str | Path,
    corpus: Any,
    training: Training,
    *,
    held_out: Any = None,
    next_sentence: bool | None = None,
    notes: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> TrainingResult:
    """Masked tokens of the target language, everything trained; next sentences too where the model has a head for them.

    Args:
        model: A folder with a TRILayer model, as transfer training leaves it.
        output: The folder to write.
        corpus: Text of the target language.
        training: How; its stages are not asked for.
        held_out: Text to measure on; else one line in 100 is kept aside.
        next_sentence: Ask for next sentences; where the model can, if not said.
        notes: What the folder is to tell beside its training.
        overwrite: Replace the output.

    Raises:
        InputError: Something about model, text or options does not fit.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
    """
    processes = PartialState(cpu=not torch.cuda.is_available())
    able = _loaded(model).config.next_sentence
    follows = able if next_sentence is None else next_sentence
    if follows and not able:
        raise InputError(f"{model} has no head for next sentences: begin with a BERT that has one, or leave them out")

    def prepare(plan: Training, learner: TriLayerForMaskedLM, tokenizers: Tokenizers) -> _Prepared:
        tokenizer = tokenizers[TARGET]
        text = language_data(learner, tokenizer, corpus, held_out, plan, plan.batch)
        blocks = _segments(text, tokenizer, plan) if follows else text.blocks
        return _Prepared(InLanguage(blocks, TARGET), {None: text.held_out}, {**text.identity, "follows": follows})

    phase: Phase = "specific with next sentences" if follows else "specific"
    return _train(phase, model, output, prepare, training, processes, overwrite, notes)


@dataclass(frozen=True)
class _Prepared:
    """The text of a phase: to learn from, to measure on, and what tells it from others."""

    batches: Batches
    held_out: dict[Any, Any]
    identity: dict[str, Any]


def _train(
    phase: Phase,
    model: str | Path,
    output: str | Path,
    prepare: Callable[[Training, TriLayerForMaskedLM, Tokenizers], _Prepared],
    training: Training,
    processes: PartialState,
    overwrite: bool,
    notes: dict[str, Any] | None = None,
) -> TrainingResult:
    """One phase as one stage of a training."""
    if training.stages:
        raise InputError("a phase of TreLM is one stage: give its steps, and leave stages out")
    if torch.cuda.is_available():  # every phase compiles for two lengths anew, and only so many are kept
        torch.compiler.reset()
    pattern = phase_pattern(_loaded(model), phase)
    rising = round(training.steps * training.warmup)
    stage = Stage(phase.replace(" ", "-"), training.steps, pattern, training.learning_rate, rising, training.schedule)

    def subject(plan: Training) -> TrainingJob:
        with processes.main_process_first():
            learner = _loaded(model)
            tokenizers = load_tokenizers(model, learner.config)
        dtype, learner = learner.dtype, learner.float()
        check_trainable(learner, plan)
        check_tokenizers(learner, tokenizers)
        with processes.main_process_first():
            found = prepare(plan, learner, tokenizers)

        def write(trained: Any, folder: Path) -> None:
            trained.save_pretrained(folder)
            save_tokenizers(tokenizers, folder, learner.config)

        return TrainingJob(
            learner,
            dtype,
            TrainingData(found.batches, found.held_out, "encoder"),
            {"model": fingerprint(learner), "phase": phase, **found.identity},
            source_notes(model) | {"held_out": _sizes(found.held_out, learner.config.languages)} | (notes or {}),
            lambda folder: load_model(folder or model),
            write,
        )

    return run_training(
        subject,
        output,
        replace(training, stages=(stage,)),
        processes,
        inputs=(model,),
        overwrite=overwrite,
    )


def _loaded(model: str | Path) -> TriLayerForMaskedLM:
    found = load_model(model)
    if not isinstance(found, TriLayerForMaskedLM):
        raise InputError(f"{model} is a {type(found).__name__} and has no language embeddings: see with_trilayer")
    return found


def _sizes(held_out: dict[Any, Any], languages: Sequence[str]) -> dict[str, dict[str, int]]:
    """How much text was measured on, by language; where one is not named, it is the last."""
    return {
        languages[-1] if name is None else name: {"tokens": text.tokens, "bytes": text.bytes}
        for name, text in held_out.items()
    }


def _segments(text: LanguageData, tokenizer: Any, plan: Training) -> SegmentPairs:
    return SegmentPairs(text.blocks.packed, tokenizer, length=plan.length, masking=plan.masking, seed=plan.seed)
