"""The main job: from a model and text in another language to a model of that language."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from relexify.evidence.alignment import Rotation
from relexify.evidence.evidence import Evidence
from relexify.grafting import (
    Graft,
    UnigramReport,
    add_unigram_prior,
    check_roles,
    graft,
    is_tied,
    row_origins,
    sample_paragraphs,
)
from relexify.methods.baselines import random, shuffle
from relexify.methods.inputs import Inputs
from relexify.methods.registry import METHODS, Initialisation, Input
from relexify.mixture import MIXTURE_FILE, Mixture, PrecomputedRows
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.fresh import fresh_twin
from relexify.pretrained.lexical import lexical_axes, weight_rows
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.runnable import check_finite, memory_shortage
from relexify.pretrained.tokenizers import default_system_prompt, save_tokenizer, train_tokenizer
from relexify.pretrained.weight_files import sha256_of_weights
from relexify.progress import report_under
from relexify.scoring import bits_per_byte, sample_size
from relexify.storage.cache import cached
from relexify.storage.documents import write_documents
from relexify.storage.files import Provenance, load_arrays, save_arrays, write_file, write_folder
from relexify.storage.fingerprint import BY_CONTENT, fingerprint
from relexify.storage.work import WorkFolder, read_notes
from relexify.systems.transfer.checks import method_options, prepare_transfer
from relexify.systems.transfer.dictionary import check_dictionary
from relexify.systems.transfer.extension import check_extension, extend_vocabulary
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.samples import segment_samples
from relexify.systems.transfer.start import ORIGINAL, Start, cover_text
from relexify.systems.transfer.verdict import Verdict, judge
from relexify.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = [
    "TransferResult",
    "add_prior",
    "graft_initialisation",
    "has_prior",
    "initialise",
    "load_transfer",
    "method_inputs",
    "needed_roles",
    "prior_text",
    "run_transfer",
    "score_original",
    "target_tokenizer",
]

_SLOW: tuple[Input, ...] = ("vectors", "donor", "model")
"""Inputs of methods whose initialisations are cached."""
_ROTATION_FILE = "rotation.safetensors"
_PRECOMPUTED_FILE = "precomputed.safetensors"
_SCORE_FILE = "score.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TransferResult:
    """The result of a transfer.

    Attributes:
        graft: The model, its tokenizer and its mixture.
        rotation: The vector alignment of the languages, if there is one.
        start: What is known about the model before its training.
        output: The folder.
    """

    graft: Graft
    rotation: Rotation | None
    start: Start
    output: Path

    @property
    def scores(self) -> Mapping[str, float]:
        """Bits per byte before training, by initialisation."""
        return self.start.bits_per_byte

    @property
    def verdict(self) -> Verdict:
        """Whether this is a good start for training."""
        return judge(self.start)


def run_transfer(
    options: Transfer, *, evidence: Evidence | None = None, work: WorkFolder | None = None
) -> TransferResult:
    """Run a transfer: tokenizer, vectors, vector alignment, mixture, graft, score, save.

    Slow steps are cached, so that an interrupted run resumes if it is started again.

    Args:
        options: What to do.
        evidence: The result of `prepare_transfer`, if it was called before.
        work: If given, the output is recorded as the result of this run.

    Raises:
        InputError: An option or an input is not possible.
        OutputError: The output cannot be written.
    """
    evidence = evidence or prepare_transfer(options)
    # A head for next sentences is kept for TreLM, which trains it.
    model, source = load_model(options.model, next_sentence=True), load_tokenizer(options.model)
    lexical_axes(model)  # a model that cannot take a vocabulary must not cost the work before the graft
    if (options.score or has_prior(options)) and memory_shortage(model, options.device) is None:
        check_finite(model)  # otherwise inner parameters are linked without being read
    target = target_tokenizer(options, source, evidence)
    check_roles(source, target, needed_roles(model))

    inputs = method_inputs(options, evidence, model, source, target)
    built = initialise(options.method, inputs)
    result = graft_initialisation(options, options.method, model, target, built)
    shortage = memory_shortage(result.model, options.device)
    # Only scores need text that nothing was trained on, and a small corpus may have none to hold out.
    shown = evidence.held_out if options.score else evidence.corpus
    sample = shown.sample_bytes(sample_size(options.score_bytes, options.device))
    start = _examine_evidence(options, inputs, built, result, sample)
    if options.score:
        start = replace(start, not_scored=shortage)
    tested = start.dictionary is not None or start.alignment is not None
    if tested and (early := judge(start)).start == "poor":
        logger.warning("this will be a poor start. %s", early.reason)  # said again at the end, minutes of scoring later

    if shortage is not None and has_prior(options):
        logger.warning("no unigram prior is added, because predictions cannot be computed: %s", shortage)
    counted = prior_text(options, model, evidence) if shortage is None else None
    prior = add_prior(options, result, counted)
    scored = options.score and shortage is None
    extension = check_extension(options, inputs, model, result.model, scored=scored)
    if scored:
        start = replace(start, bits_per_byte=_scores(options, model, inputs, result, sample, counted))
    start = replace(start, extension=extension)
    summary = {
        **start.as_notes(),
        "verdict": asdict(judge(start)),
        "unigram_prior": asdict(prior) if prior else None,
        "system_prompt": _report_system_prompt(target),
        "samples": segment_samples(shown, source, target),
    }
    with work.finish() if work else write_folder(options.output, overwrite=options.overwrite) as folder:
        result.write(
            folder,
            provenance=_provenance(options, evidence, model, target),
            summary=summary,
            inner=None if METHODS[options.method].fresh_inner else options.model,
        )
    write_documents(Path(options.output))
    return TransferResult(result, built.rotation, start, Path(options.output))


def _examine_evidence(options: Transfer, inputs: Inputs, built: Initialisation, result: Graft, sample: str) -> Start:
    """Return what is known about a grafted model before it is scored: its rows, the text, and tests of the evidence."""
    origins = row_origins(built.mixture, built.precomputed)
    text, occurrences = cover_text(sample, inputs.source, inputs.target, origins)
    # A method that aligns vectors with the dictionary has tested it on held-out words.
    tests_dictionary = built.rotation is None and METHODS[options.method].takes("target vectors")
    return Start(
        method=options.method,
        origins=result.report.origins,
        fallback=built.mixture.fallback.value,
        alignment=built.rotation.summary() if built.rotation else None,
        bits_per_byte={},
        text=text,
        dictionary=check_dictionary(inputs, occurrences) if tests_dictionary else None,
    )


def _report_system_prompt(target: PreTrainedTokenizerFast) -> str | None:
    """Return the system prompt that the chat template adds, with a warning, since it is not in the target language."""
    prompt = default_system_prompt(target)
    if prompt is not None:
        logger.warning(
            "the chat template begins chats with %r, in the language of the source model: pass a system message in the "
            "target language, or edit chat_template.jinja",
            prompt,
        )
    return prompt


def load_transfer(output: Path) -> TransferResult:
    """Read the result of an earlier transfer; its vector alignment was not kept."""
    return TransferResult(Graft.load(output), None, Start.from_notes(read_notes(output)), output)


def target_tokenizer(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> PreTrainedTokenizerFast:
    """Load the tokenizer that the options name, or that of a donor, or train or extend one on the text (cached)."""
    if options.keep_source:
        return extend_vocabulary(options, source, evidence).tokenizer
    method = METHODS[options.method]
    if options.tokenizer:
        return load_tokenizer(options.tokenizer)
    if options.donor is not None and method.takes("donor"):
        return load_tokenizer(options.donor)
    if method.train_tokenizer is not None:
        return method.train_tokenizer(source, evidence, vocab_size=options.vocab_size, options=method_options(options))
    corpus = evidence.corpus
    return cached(
        "tokenizer",
        {"corpus": corpus, "like": source, "vocab_size": options.vocab_size},
        make=lambda: train_tokenizer(corpus, like=source, vocab_size=options.vocab_size),
        save=save_tokenizer,
        load=load_tokenizer,
    )


def needed_roles(model: PreTrainedModel) -> tuple[str, ...]:
    """Return the special tokens that a tokenizer must have for a model."""
    kind = architecture_of(model)
    return {"encoder": ("mask", "pad"), "encoder-decoder": ("pad", "eos")}.get(kind, ())


def method_inputs(
    options: Transfer,
    evidence: Evidence,
    model: PreTrainedModel,
    source: PreTrainedTokenizerFast,
    target: PreTrainedTokenizerFast,
) -> Inputs:
    """Return what the method of a transfer builds its mixture from."""

    def read_output() -> np.ndarray | None:
        head = model.get_output_embeddings()
        if head is None or is_tied(model):
            return None
        return weight_rows(head)

    def read_donor() -> tuple[PreTrainedTokenizerFast, np.ndarray]:
        name = str(options.donor)
        return load_tokenizer(name), weight_rows(load_model(name).get_input_embeddings())

    return Inputs(
        source=source,
        target=target,
        evidence=evidence,
        read_embedding=lambda: weight_rows(model.get_input_embeddings()),
        read_output=read_output,
        read_donor=None if options.donor is None else read_donor,
        read_model=lambda: model,
        neighbours=options.neighbours,
        temperature=options.temperature,
        aligned_by=options.aligned_by,
        adversarial=options.adversarial,
        vectors=options.vectors,
        overrides=options.overrides,
        options=method_options(options),
        keep_source=options.keep_source,
        seed=options.seed,
        device=options.device,
    )


def initialise(method: str, inputs: Inputs) -> Initialisation:
    """Build the initialisation of a method; one that takes word vectors or another model is cached: it is slow."""
    chosen = METHODS[method]
    if not any(chosen.takes(kind) for kind in _SLOW):
        return chosen.initialise(inputs)
    # A mixture without the model's own embedding serves every size and every fine-tune of a model family.
    reads_rows = chosen.takes("embedding") or (chosen.takes("vectors") and inputs.reads_own_embedding)
    key: dict[str, object] = {
        "method": method,
        "revision": chosen.revision,
        "inputs": inputs,
        "embedding": inputs.embedding if reads_rows else None,
    }
    if chosen.takes("embedding"):
        key["output"] = inputs.output_embedding
    if chosen.takes("donor"):
        key["donor"] = inputs.donor_vectors.matrix
    if chosen.takes("model") and inputs.read_model is not None:
        key["model"] = inputs.read_model()
    return cached(
        "mixture",
        key,
        make=lambda: chosen.initialise(inputs),
        save=_save_initialisation,
        load=_load_initialisation,
    )


def graft_initialisation(
    options: Transfer,
    method: str,
    model: PreTrainedModel,
    target: PreTrainedTokenizerFast,
    built: Initialisation,
) -> Graft:
    """Graft what a method built; the result shares the inner parameters of the model, or has untrained ones."""
    return graft(
        fresh_twin(model, seed=options.seed) if METHODS[method].fresh_inner else model,
        target,
        built.mixture,
        precomputed=built.precomputed,
        seed=options.seed,
        pad_to_multiple_of=options.pad_to_multiple_of,
        copy_inner=False,
    )


def has_prior(options: Transfer) -> bool:
    """Whether the options, or else the method, say that a grafted model gets the unigram distribution of the text."""
    if options.unigram_prior is not None:
        return options.unigram_prior
    return METHODS[options.method].unigram_prior


class PriorText(NamedTuple):
    """Paragraphs of the target language, and, if a vocabulary is extended, of the source language."""

    target: list[str]
    source: list[str] | None


def prior_text(options: Transfer, model: PreTrainedModel, evidence: Evidence) -> PriorText | None:
    """Return the text whose unigram distribution grafted models get; None if they get none."""
    if not has_prior(options):
        return None
    if architecture_of(model) == "headless":
        logger.warning("%s has no language-modelling head, so it gets no unigram prior", type(model).__name__)
        return None
    own = evidence.source_corpus if options.keep_source else None
    return PriorText(
        target=sample_paragraphs(evidence.corpus, seed=options.seed),
        source=None if own is None else sample_paragraphs(own, seed=options.seed),
    )


def add_prior(options: Transfer, result: Graft, text: PriorText | None) -> UnigramReport | None:
    """Give a grafted model the unigram distribution of a text, in place; do nothing if there is no text."""
    if text is None:
        return None
    kept = len(result.mixture.source_tokens) if options.keep_source else 0
    return add_unigram_prior(
        result.model.to(options.device),
        result.tokenizer,
        text.target,
        kept=kept,
        source=text.source,
        seed=options.seed,
    )


def _save_initialisation(built: Initialisation, folder: Path) -> None:
    built.mixture.save(folder / MIXTURE_FILE)
    if built.rotation is not None:
        built.rotation.save(folder / _ROTATION_FILE)
    if built.precomputed is not None:
        arrays = {"ids": built.precomputed.ids, "vectors": built.precomputed.vectors}
        if built.precomputed.output is not None:
            arrays["output"] = built.precomputed.output
        save_arrays(folder / _PRECOMPUTED_FILE, arrays, {"kind": "precomputed rows"})


def _load_initialisation(folder: Path) -> Initialisation:
    rotation, ready = folder / _ROTATION_FILE, folder / _PRECOMPUTED_FILE
    rows = None
    if ready.exists():
        arrays, _ = load_arrays(ready, "precomputed rows")
        output = np.array(arrays["output"]) if "output" in arrays else None
        rows = PrecomputedRows(np.array(arrays["ids"]), np.array(arrays["vectors"]), output)
    return Initialisation(
        Mixture.load(folder / MIXTURE_FILE),
        precomputed=rows,
        rotation=Rotation.load(rotation) if rotation.exists() else None,
    )


def _scores(
    options: Transfer,
    model: PreTrainedModel,
    inputs: Inputs,
    result: Graft,
    text: str,
    counted: PriorText | None,
) -> dict[str, float]:
    """Return bits per byte before training: of the source model, of two baselines without evidence, and of the result.

    The baselines get the unigram prior too, so that they differ from this initialisation in its evidence alone.
    """
    if architecture_of(model) == "headless":
        logger.warning("%s has no language-modelling head, so bits per byte cannot be measured", type(model).__name__)
        return {}
    source, target = inputs.source, inputs.target
    scores = {ORIGINAL: score_original(model, source, text, device=options.device)}
    # No method is in the key: the baselines of one tokenizer and seed serve every method.
    key = {
        "original": _scored(model, source, text),
        "tokenizer": target,
        "seed": options.seed,
        "keep_source": options.keep_source,
        "prior": counted,
    }
    for mixture in (random(source, target), shuffle(source, target, seed=options.seed)):
        scores[mixture.method] = _cached_score(
            mixture.method, key, partial(_score_baseline, options, model, inputs, mixture, text, counted)
        )
    with report_under(options.method):
        scores[options.method] = bits_per_byte(result.model.to(options.device), target, text).value
    return scores


def _score_baseline(
    options: Transfer,
    model: PreTrainedModel,
    inputs: Inputs,
    mixture: Mixture,
    text: str,
    counted: PriorText | None,
) -> float:
    """Return bits per byte of the model with rows that no evidence was used for."""
    baseline = graft(model, inputs.target, inputs.keep_rows(mixture), seed=options.seed, copy_inner=False)
    add_prior(options, baseline, counted)
    with report_under(f"{mixture.method} rows"):
        return bits_per_byte(baseline.model.to(options.device), inputs.target, text).value


def score_original(model: PreTrainedModel, source: PreTrainedTokenizerFast, text: str, *, device: str) -> float:
    """Return bits per byte of the source model with its own tokenizer; they are cached.

    Args:
        model: The source model.
        source: Its tokenizer.
        text: Held-out text in the target language, one paragraph per line.
        device: Where to score.
    """

    def score() -> float:
        with report_under("original model"):
            return bits_per_byte(model.to(device), source, text).value

    return _cached_score(ORIGINAL, _scored(model, source, text), score)


def _scored(model: PreTrainedModel, source: PreTrainedTokenizerFast, text: str) -> dict[str, object]:
    """Return everything that the score of the source model depends on."""
    config = {**model.config.to_dict(), "_name_or_path": None}  # the same model may lie in several folders
    return {"model": fingerprint(model), "config": config, "tokenizer": source, "text": text}


def _cached_score(name: str, key: object, make: Callable[[], float]) -> float:
    """Return a score from the cache, or measure it: on a CPU, baselines take most of the time of a transfer."""
    return cached(
        f"{name}-score",
        key,
        make=make,
        save=lambda score, folder: write_file(folder / _SCORE_FILE, json.dumps(score)),
        load=lambda folder: float(json.loads((folder / _SCORE_FILE).read_text())),
    )


def _provenance(
    options: Transfer, evidence: Evidence, model: PreTrainedModel, target: PreTrainedTokenizerFast
) -> Provenance:
    """Return the hashes of all inputs, the options, and the provenance of a model that relexify made."""
    parts = {
        "corpus": evidence.corpus,
        "held_out": evidence.held_out,
        "source_corpus": evidence.source_corpus,
        "source_held_out": evidence.source_held_out,
        "dictionary": evidence.lexicon,
        "bitext": evidence.bitext,
        "alignment": evidence.links,
        "source_vectors": evidence.source_vectors,
        "target_vectors": evidence.target_vectors,
        "rotation": evidence.rotation,
        "tokenizer": target,
    }
    if (own := method_options(options)) is not None:
        parts |= {entry.name: getattr(own, entry.name) for entry in fields(own) if entry.metadata == BY_CONTENT}
    # That of the file, which others can compare, if there is one.
    inputs = {"model": sha256_of_weights(options.model) or fingerprint(model)}
    if options.donor is not None:
        inputs["donor"] = sha256_of_weights(options.donor) or fingerprint(load_model(options.donor))
    inputs |= {name: fingerprint(part) for name, part in parts.items() if part is not None}
    # Without the output, which is the folder that this is written into, or an intermediate one.
    command = {entry.name: _plain(getattr(options, entry.name)) for entry in fields(options) if entry.name != "output"}
    source = read_notes(options.model).get("provenance")
    return Provenance(version=__version__, command=command, inputs=inputs, seed=options.seed, source=source)


def _plain(value: Any) -> Any:
    """Return an option as plain data for json; texts and dictionaries in memory by their name."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    name = getattr(value, "name", None)
    if isinstance(name, str) and not isinstance(value, Path):
        return name
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
