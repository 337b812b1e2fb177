"""Run TreLM: build the model with a TRILayer, run the phases, and score the result of each.

Unfinished work is kept in OUTPUT.trelm:

    start               the model with its TRILayer, before any training
    commonality         the first phase
    source-to-target    the two directions of the second phase
    target-to-source
    pairs.json          numbers of sentence pairs that are trained on, and that are left out as text to score on
    combined            the upper half of one direction and the lower half of the other
    translations.json   BLEU of both directions

The last phase writes OUTPUT. Each phase is a separate training run that resumes from its checkpoints, so if the process
is interrupted, the same call resumes the whole run.
"""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import torch
from transformers import PreTrainedModel

from relexify.errors import GraftError, InputError
from relexify.grafting import load_own_tokenizer
from relexify.pretrained.loading import load_config, load_model
from relexify.scoring import Score
from relexify.storage.files import is_written, write_file
from relexify.storage.inputs import check_inputs
from relexify.storage.json import read_json
from relexify.storage.revisions import TRAINING_REVISIONS
from relexify.storage.runs.work import WorkFolder
from relexify.systems.trelm.data.pairs import check_bitext, load_pairs
from relexify.systems.trelm.model.backbone import family_of
from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.folder import check_tokenizers, load_tokenizers, save_with_tokenizers
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.model.xlm import backbone_config
from relexify.systems.trelm.options import Direction, Trelm, check_trelm, trelm_inputs
from relexify.systems.trelm.phases import combine_directions, train_commonality, train_direction, train_specific
from relexify.systems.trelm.scores import check_test_bitext, phase_scores, score_translations, trelm_scores
from relexify.text import HELD_OUT_EVERY, Corpus, TextSource, sample_revisions
from relexify.training.distributed import started_processes
from relexify.training.job import source_notes
from relexify.training.options import Training
from relexify.training.results.result import TrainingResult, load_result
from relexify.training.trainable import check_halves, check_language_model

__all__ = ["TrelmResult", "check_run", "run_trelm"]

_START = "start"
_COMMONALITY = "commonality"
_COMBINED = "combined"
_PAIRS = "pairs.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrelmResult:
    """The result of TreLM.

    Attributes:
        training: The result of the last phase, whose output is the model.
        scores: Bits per word at the end and after every phase, and BLEU of translations if there is parallel text to
            score them on.
    """

    training: TrainingResult
    scores: tuple[Score, ...]


def run_trelm(
    model: str | Path,
    output: str | Path,
    corpus: TextSource,
    options: Trelm,
    *,
    held_out: TextSource | None = None,
    overwrite: bool = False,
) -> TrelmResult:
    """Transfer a masked language model to another language.

    Args:
        model: A folder or a Hub name of a BERT, RoBERTa or ALBERT. Its vocabulary is that of both languages or, with
            separate vocabularies, that of the target language.
        output: The folder to write; until it is complete, the models of all phases are in `OUTPUT.trelm`.
        corpus: Text in the target language; anything that `Corpus.open` accepts.
        options: All other options.
        held_out: Text in the target language to score on; if None, a part of the corpus is held out.
        overwrite: Replace the output, and unfinished work of another run.

    Raises:
        InputError: Model, texts or options do not match.
        GraftError: A TRILayer cannot be added to the model.
        EvidenceError: There is no sentence pair to learn from.
        MissingExtra: A package for word alignment or for scoring translations is missing.
        TrainingError: The loss is NaN or infinite, or there is not enough memory.
    """
    # Collected before options without an effect are removed, because the output must not replace any of these files.
    inputs = (model, *trelm_inputs(options))
    texts = (corpus, held_out, options.source_corpus, options.source_held_out)
    options = _validate(options)
    identity = {
        "model": Path(model) if Path(model).is_dir() else str(model),
        "corpus": Corpus.open(corpus),
        "held_out": None if held_out is None else Corpus.open(held_out),
        "options": options,
    }
    revisions = {**TRAINING_REVISIONS, **sample_revisions(*texts)}
    work = WorkFolder(output, "trelm", identity, revisions=revisions, overwrite=overwrite)
    for folder in (work.output, work.path):
        check_inputs(folder, *inputs, texts=texts)
    if not overwrite and work.is_finished():
        work.clear()  # the earlier run may have been killed before it cleared its work folder
        return TrelmResult(load_result(work.output), trelm_scores(work.output))
    _check_start(model, options)
    processes = started_processes()
    with ExitStack() as claimed:
        if processes.is_main_process:
            work.check()
            claimed.enter_context(work.claim())
            work.step(_START, lambda folder: _write_start(model, folder, options))
        processes.wait_for_everyone()
        try:
            training = _run_phases(model, work, corpus, held_out, options)
        except InputError:
            # If nothing has been trained, remove the work folder, so that a corrected command can run.
            models = (path.relative_to(work.path) for path in work.path.rglob("*.safetensors"))
            if processes.is_main_process and all(path.parts[0] == _START for path in models):
                work.clear()
            raise
        if processes.is_main_process:
            work.clear()
    return TrelmResult(training, trelm_scores(work.output))


def check_run(model: str | Path, options: Trelm) -> None:
    """Validate everything that would make `run_trelm` fail later; arguments and exceptions are the same."""
    _check_start(model, _validate(options))


def _validate(options: Trelm) -> Trelm:
    """Validate the options and their parallel text; return the options without those that no phase uses."""
    check_trelm(options)
    if options.until == "commonality":
        return replace(options, bitext=None, test_bitext=None, alignment=None)
    check_bitext(options)
    check_test_bitext(options)
    return options


def _check_start(model: str | Path, options: Trelm) -> None:
    """Validate, using only its config, that all phases can train a model.

    Args:
        model: A model with the vocabulary of both languages, or of the target language.
        options: The options of the run.

    Raises:
        InputError: The model cannot be trained as requested, or the model that it was transferred from is missing.
        GraftError: A TRILayer cannot be added to the model.
    """
    config = backbone_config(load_config(model))
    family_of(config)  # raises an error if the architecture does not support a TRILayer
    if options.vocabularies == "separate":
        if options.source_model is None:
            raise InputError(
                f"separate vocabularies need the model that {model} was transferred from: give it as `source_model`, "
                "or in [trelm] of a recipe"
            )
        source = backbone_config(load_config(options.source_model))
        family_of(source)
        if source.model_type != config.model_type or source.hidden_size != config.hidden_size:
            raise GraftError(
                f"{options.source_model} and {model} do not share an encoder ({source.model_type}, "
                f"{source.hidden_size} wide, and {config.model_type}, {config.hidden_size} wide): give the model that "
                "the other was transferred from"
            )
    with torch.device("meta"):  # sizes can be checked without allocating memory
        empty_model = TriLayerForMaskedLM(
            TriLayerConfig(backbone=config, languages=options.languages, trilayer=options.trilayer)
        )
    for training in (options.commonality, options.transfer, options.specific):
        check_language_model(empty_model, training)
    for training in (options.commonality, options.transfer):
        check_halves(training, 1)


def _write_start(model: str | Path, folder: Path, options: Trelm) -> None:
    """Write the initial model of the first phase into an empty folder.

    Raises:
        GraftError: A TRILayer cannot be added to the model, or the two models do not share an encoder.
        VocabularyError: A tokenizer does not belong to its model.
    """
    first, second = options.languages
    other = options.source_model if options.vocabularies == "separate" else None
    source = model if other is None else other
    tokenizers = load_own_tokenizer(source), load_own_tokenizer(model)
    built = with_trilayer(
        _load_backbone(source),
        (first, second),
        target=None if other is None else _load_backbone(model),
        trilayer=options.trilayer,
        embedding_size=options.embedding_size,
        seed=options.seed,
    )
    check_tokenizers(built, tokenizers)
    save_with_tokenizers(built, tokenizers, folder)


def _load_backbone(model: str | Path) -> PreTrainedModel:
    """Load a transformers model that a TRILayer can be added to.

    Raises:
        InputError: The model already has a TRILayer.
    """
    loaded = load_model(model, next_sentence=True)
    if isinstance(loaded, TriLayerForMaskedLM):
        raise InputError(f"{model} already has a TRILayer: give the model that it was built from")
    return loaded


def _run_phases(
    model: str | Path, work: WorkFolder, corpus: TextSource, held_out: TextSource | None, options: Trelm
) -> TrainingResult:
    """Run all phases up to the requested one, which writes the output."""
    notes = _make_notes(model, options) | work.finished_notes
    is_last = options.until == "commonality"
    source_corpus = cast("TextSource", options.source_corpus)  # `check_trelm` has validated that it is given
    common = train_commonality(
        work.path / _START,
        work.output if is_last else work.path / _COMMONALITY,
        corpus,
        source_corpus,
        options.commonality,
        held_out=held_out,
        source_held_out=options.source_held_out,
        notes=notes if is_last else None,
        overwrite=work.overwrite and is_last,
    )
    if is_last:
        return common
    _train_directions(work.path, corpus, source_corpus, held_out, options)
    with started_processes().main_process_first():
        names = (_COMMONALITY, *get_args(Direction))
        scores = [score for name in names for score in phase_scores(work.path / name, name)]
        notes["trelm"]["pairs"] = read_json(work.path / _PAIRS)
        notes["trelm"]["phases"] = [asdict(score) for score in scores]
        notes["trelm"]["translation"] = [asdict(score) for score in score_translations(work.path, options)]
    return train_specific(
        work.path / _COMBINED,
        work.output,
        corpus,
        options.specific,
        held_out=held_out,
        next_sentence=options.next_sentence,
        notes=notes,
        overwrite=work.overwrite,
    )


def _train_directions(
    work: Path, corpus: TextSource, source_corpus: TextSource, held_out: TextSource | None, options: Trelm
) -> None:
    """Train both directions, and combine them (Algorithm 1)."""
    if is_written(work / _COMBINED):
        return
    with started_processes().main_process_first():  # eflomal is random: one process aligns, the others use its result
        source_scored_on = _held_out_text(source_corpus, options.source_held_out)
        scored_on = _held_out_text(corpus, held_out)
        tokenizers = load_tokenizers(work / _START, load_config(work / _START))
        pairs = load_pairs(tokenizers, options, held_out=(source_scored_on, scored_on))
        write_file(work / _PAIRS, json.dumps({"trained": len(pairs), "left_out": pairs.left_out}) + "\n")
    for direction in get_args(Direction):
        logger.info("transfer training: %s", direction)
        train_direction(
            work / _COMMONALITY,
            work / direction,
            pairs,
            options.transfer,
            direction=direction,
            held_out=scored_on,
            objective=options.objective,
            weighting=options.weighting,
        )
    forward, backward = (work / direction for direction in get_args(Direction))
    combine_directions(forward, backward, work / _COMBINED, overwrite=True)


def _held_out_text(corpus: TextSource, held_out: TextSource | None) -> Corpus:
    """Return the text that a language is scored on: the given text, or the held-out part of its corpus."""
    if held_out is not None:
        return Corpus.open(held_out)
    return Corpus.open(corpus).split(HELD_OUT_EVERY)[1]


def _make_notes(model: str | Path, options: Trelm) -> dict[str, Any]:
    """Return the notes for `relexify.json` about the run, and about the transfer that the model results from."""
    model_notes = source_notes(model)
    names = ("trained_from", "graft", "method", "provenance")
    inherited: dict[str, Any] = {name: model_notes[name] for name in names if name in model_notes}
    run_notes = {
        "languages": list(options.languages),
        "objective": options.objective,
        "weighting": options.weighting,
        "trilayer": options.trilayer,
        "vocabularies": options.vocabularies,
        "until": options.until,
        "commonality": _given_fields(options.commonality),
        "transfer": _given_fields(options.transfer),
        "phases": [],
        "translation": [],
    }
    return {**inherited, "trelm": run_notes}


def _given_fields(training: Training) -> dict[str, Any]:
    """Return the options of a phase that are not None; a phase has no stages."""
    return {name: value for name, value in asdict(replace(training, stages=())).items() if value is not None}
