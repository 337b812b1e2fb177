"""TreLM from a model to a model: the phases one after the other; stopped at whatever moment, the same call goes on."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch
from accelerate import PartialState

from relexify.errors import GraftError, InputError
from relexify.pretrained.hub import must_be_local
from relexify.pretrained.loading import load_config, load_model, load_tokenizer, resolve
from relexify.scoring import Score
from relexify.storage.files import MARKER, check_inputs, check_output, sha256_of, write_file, write_folder
from relexify.storage.work import read_notes
from relexify.systems.trelm.model.backbone import family_of
from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.folder import check_tokenizers, load_tokenizers, save_tokenizers
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.options import Direction, Trelm, check_trelm
from relexify.systems.trelm.pairs import check_pairs, open_pairs, pairs_to_learn
from relexify.systems.trelm.phases import combine_directions, train_commonality, train_direction, train_specific
from relexify.systems.trelm.scores import check_translations, measured_translations, phases_of, trelm_scores
from relexify.text import Corpus
from relexify.training.plan import HELD_OUT_EVERY, Training
from relexify.training.result import TrainingResult, is_trained, load_result
from relexify.training.trainable import check_halves, check_language_model

__all__ = ["TrelmResult", "check_run", "check_start", "run_trelm", "trelm_inputs", "write_start"]

_ASKED = "asked.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrelmResult:
    """What TreLM came to.

    Attributes:
        training: The last phase, whose output is the model.
        scores: Bits per word at the end and after every phase, and BLEU of translations where pairs to measure on
            were given.
    """

    training: TrainingResult
    scores: tuple[Score, ...]


def run_trelm(
    model: str | Path, output: str | Path, corpus: Any, options: Trelm, *, held_out: Any = None, overwrite: bool = False
) -> TrelmResult:
    """Take a masked language model over to another language.

    Beside the output lies `OUTPUT.trelm` until the work is done, with a model for every phase.

    Args:
        model: A BERT, RoBERTa or ALBERT whose vocabulary is that of both languages, or with separate vocabularies that
            of the new language: a folder or a Hub name.
        output: The folder to write.
        corpus: Text in the new language, whatever `Corpus.open` takes.
        options: Everything else.
        held_out: Text in the new language to measure on; where none is given, a part of the corpus is kept aside.
        overwrite: Replace the output, and what another run left beside it.

    Raises:
        InputError: Something about model, texts or options does not fit.
        GraftError: A TRILayer cannot be put into the model.
        EvidenceError: There is no pair of sentences to learn from.
        MissingExtra: A package is needed to align, or to measure translations.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
    """
    output = Path(output)
    work = output.with_name(f"{output.name}.trelm")
    for folder in (output, work):
        check_inputs(folder, model, corpus, held_out, *trelm_inputs(options))
    options = _readable(options)
    asked = _asked(model, corpus, held_out, options)
    if not overwrite and is_trained(output) and read_notes(output).get("trelm", {}).get("asked") == asked:
        shutil.rmtree(work, ignore_errors=True)  # it may have been stopped while it was clearing up
        return _result(load_result(output))
    check_start(model, options)
    processes = PartialState(cpu=not torch.cuda.is_available())
    if processes.is_main_process:
        check_output(output, overwrite=overwrite)
        _claim(work, asked, overwrite)
        write_start(model, work / "start", options)
    processes.wait_for_everyone()
    try:
        result = _train_all(model, work, output, corpus, held_out, options, asked, overwrite)
    except InputError:
        if processes.is_main_process and not _has_learnt(work):
            shutil.rmtree(work, ignore_errors=True)  # lest it stand in the way of the command put right
        raise
    if processes.is_main_process:
        shutil.rmtree(work, ignore_errors=True)
    return _result(result)


def _has_learnt(work: Path) -> bool:
    """Whether a run left more than the model that it began with."""
    return any(path.relative_to(work).parts[0] != "start" for path in work.rglob("*.safetensors"))


def trelm_inputs(options: Trelm) -> tuple[Any, ...]:
    """Return everything that the options name to be read, for `check_inputs`."""
    texts = (options.source_corpus, options.source_held_out, options.bitext, options.test_bitext)
    return (options.source_model, options.alignment, *texts)


def check_run(model: str | Path, options: Trelm) -> None:
    """Refuse what would stop `run_trelm` later on; arguments and exceptions as there."""
    check_start(model, _readable(options))


def _readable(options: Trelm) -> Trelm:
    """The same, once it is known that texts and numbers do; without pairs where no phase asks for them."""
    check_trelm(options)
    if options.until == "commonality":
        return replace(options, bitext=None, test_bitext=None, alignment=None)
    check_pairs(options)
    check_translations(options)
    return options


def _train_all(
    model: str | Path, work: Path, output: Path, corpus: Any, held_out: Any, options: Trelm, asked: str, overwrite: bool
) -> TrainingResult:
    """All phases up to the one that is asked for, which writes the output."""
    notes = _notes(model, asked, options)
    if options.until == "commonality":
        return _commonality(work, output, corpus, held_out, options, notes, overwrite)
    _commonality(work, work / "commonality", corpus, held_out, options)
    kept = Corpus.open(corpus).split(HELD_OUT_EVERY)[1] if held_out is None else held_out
    _transfer(work, kept, options)
    with PartialState().main_process_first():
        notes["trelm"] |= {"translation": measured_translations(work, options), "phases": phases_of(work)}
    return train_specific(
        work / "combined",
        output,
        corpus,
        options.specific,
        held_out=held_out,
        next_sentence=options.next_sentence,
        notes=notes,
        overwrite=overwrite,
    )


def _commonality(
    work: Path,
    output: Path,
    corpus: Any,
    held_out: Any,
    options: Trelm,
    notes: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> TrainingResult:
    return train_commonality(
        work / "start",
        output,
        corpus,
        options.source_corpus,
        options.commonality,
        held_out=held_out,
        source_held_out=options.source_held_out,
        notes=notes,
        overwrite=overwrite,
    )


def _transfer(work: Path, kept: Any, options: Trelm) -> None:
    """Both directions, and the model that they make together."""
    if (work / "combined" / MARKER).exists():
        return
    with PartialState().main_process_first():  # eflomal draws: one process aligns, the others find what it kept
        start = work / "start"
        pairs = pairs_to_learn(load_tokenizers(start, load_config(start)), options)
    for direction in get_args(Direction):
        logger.info("transfer: %s", direction)
        train_direction(
            work / "commonality",
            work / direction,
            pairs,
            options.transfer,
            direction=direction,
            held_out=kept,
            objective=options.objective,  # type: ignore[arg-type]
        )
    there, back = (work / direction for direction in get_args(Direction))
    combine_directions(there, back, work / "combined", overwrite=True)


def _notes(model: str | Path, asked: str, options: Trelm) -> dict[str, Any]:
    told = {
        "asked": asked,
        "languages": list(options.languages),
        "objective": options.objective,
        "trilayer": options.trilayer,
        "vocabularies": options.vocabularies,
        "until": options.until,
        "commonality": _told(options.commonality),
        "transfer": _told(options.transfer),
        "phases": [],
        "translation": [],
    }
    found = read_notes(model)
    graft: dict[str, Any] = {name: found[name] for name in ("graft", "method", "provenance") if name in found}
    return {"trained_from": str(model), **graft, "trelm": told}


def _told(training: Training) -> dict[str, Any]:
    return {name: value for name, value in asdict(replace(training, stages=())).items() if value is not None}


def _result(training: TrainingResult) -> TrelmResult:
    return TrelmResult(training, trelm_scores(training.output))


def _asked(model: str | Path, corpus: Any, held_out: Any, options: Trelm) -> str:
    """A name that changes with everything that the result depends on, by content."""
    texts = [corpus, held_out, options.source_corpus, options.source_held_out]
    bitexts = [options.bitext, options.test_bitext]
    named = dict.fromkeys(
        ("bitext", "test_bitext", "source_corpus", "source_held_out", "alignment", "source_model"), None
    )
    plain = replace(options, **named)  # type: ignore[arg-type]
    values: dict[str, Any] = {
        "models": [None if each is None else _content(each) for each in (model, options.source_model)],
        "texts": [None if text is None else Corpus.open(text).fingerprint() for text in texts],
        "bitexts": [None if text is None else open_pairs(text, options).fingerprint() for text in bitexts],
        "alignment": None if options.alignment is None else sha256_of(options.alignment),
        "options": asdict(plain),
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _content(model: str | Path) -> str:
    return sha256_of(model) if Path(model).is_dir() else str(model)


def _claim(work: Path, asked: str, overwrite: bool) -> None:
    """Make sure that the folder beside the output is this run's."""
    note = work / _ASKED
    if work.exists() and any(work.iterdir()):
        if note.exists() and json.loads(note.read_text()).get("asked") == asked:
            return
        if not (overwrite and note.exists()):
            raise InputError(
                f"{work} is what another run left, with other texts, options or another model: pass --overwrite to "
                "begin anew, or give another output"
            )
        logger.warning("%s is what another run left; it is removed", work)
        shutil.rmtree(work)
    write_file(note, json.dumps({"asked": asked}) + "\n")


def check_start(model: str | Path, options: Trelm) -> None:
    """Refuse a model that some phase could not train, by its config alone.

    Args:
        model: With the vocabulary of both languages, or of the new one.
        options: What is asked for.

    Raises:
        InputError: It cannot be trained as asked, or the model that it came from is missing.
        GraftError: A TRILayer cannot be put into it.
    """
    config = load_config(model)
    family_of(config)
    if options.vocabularies == "separate":
        _check_source(model, config, options)
    with torch.device("meta"):
        hollow = TriLayerForMaskedLM(
            TriLayerConfig(backbone=config, languages=options.languages, trilayer=options.trilayer)
        )
    for training in (options.commonality, options.transfer, options.specific):
        check_language_model(hollow, training)
    for training in (options.commonality, options.transfer):
        check_halves(training, 1)


def write_start(model: str | Path, start: Path, options: Trelm) -> None:
    """Write the model that the first phase begins with, unless it is there.

    Raises:
        GraftError: A TRILayer cannot be put into it, or the two models do not share an encoder.
        VocabularyError: A tokenizer is not its model's.
    """
    if (start / MARKER).exists():
        return
    source = options.source_model if options.vocabularies == "separate" and options.source_model else None
    first, second = options.languages
    built = with_trilayer(
        _backbone(source or model),
        (first, second),
        target=None if source is None else _plain(model),
        trilayer=options.trilayer,
        embedding_size=options.embedding_size,
        seed=options.seed,
    )
    tokenizers = load_tokenizer(source or model), load_tokenizer(model)
    check_tokenizers(built, tokenizers)
    with write_folder(start, internal=True) as folder:
        built.save_pretrained(folder)
        save_tokenizers(tokenizers, folder, built.config)
        write_file(folder / MARKER, "{}\n")


def _check_source(model: str | Path, config: Any, options: Trelm) -> None:
    if options.source_model is None:
        raise InputError(
            f"separate vocabularies ask for the model that {model} was transferred from: give it with --source-model, "
            "or in [trelm] of a recipe"
        )
    source = load_config(options.source_model)
    family_of(source)
    if source.model_type != config.model_type or source.hidden_size != config.hidden_size:
        raise GraftError(
            f"{options.source_model} and {model} do not share an encoder ({source.model_type}, {source.hidden_size} "
            f"wide, and {config.model_type}, {config.hidden_size} wide): give the model that the other was transferred "
            "from"
        )


def _backbone(model: str | Path) -> Any:
    """The model, with a head for next sentences where its weights have one, whatever its config calls it."""
    from transformers import BertForPreTraining

    if getattr(load_config(model), "model_type", None) == "bert":
        place = resolve(model)
        with torch.random.fork_rng(devices=[]):
            found, loaded = BertForPreTraining.from_pretrained(
                place, dtype="auto", output_loading_info=True, local_files_only=must_be_local(place)
            )
        if not loaded["missing_keys"]:
            return found.eval()
    return _plain(model)


def _plain(model: str | Path) -> Any:
    found = load_model(model)
    if isinstance(found, TriLayerForMaskedLM):
        raise InputError(f"{model} has a TRILayer already: give the model that it came from")
    return found
