"""The main job: from a model and text in another language to a model of that language."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.evidence.alignment import Rotation
from relexify.evidence.evidence import Evidence
from relexify.grafting import Graft, UnigramReport, check_roles, row_origins
from relexify.methods.inputs import Inputs
from relexify.methods.registry import METHODS, Initialisation
from relexify.pretrained.architecture import check_fit
from relexify.pretrained.files.weights import bytes_to_write
from relexify.pretrained.lexical import count_rows
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.runnable import check_finite, memory_shortage
from relexify.pretrained.tokenizers import check_encoding, default_system_prompt
from relexify.scoring import sample_size
from relexify.storage.documents import write_documents
from relexify.storage.files import check_space, write_folder
from relexify.storage.notes import read_notes
from relexify.storage.work import WorkFolder
from relexify.systems.transfer.assessment.bitext import assess_bitext
from relexify.systems.transfer.assessment.dictionary import assess_dictionary
from relexify.systems.transfer.assessment.samples import segment_samples
from relexify.systems.transfer.assessment.scores import score_source_language, score_start
from relexify.systems.transfer.assessment.start import Start, cover_text
from relexify.systems.transfer.assessment.verdict import Verdict, judge
from relexify.systems.transfer.checks import prepare_transfer
from relexify.systems.transfer.cost import estimate_transfer
from relexify.systems.transfer.extension import assess_extension
from relexify.systems.transfer.initialisation import graft_initialisation, initialise, method_inputs
from relexify.systems.transfer.options import Transfer, given_evidence
from relexify.systems.transfer.prior import PriorText, add_prior, has_prior, prediction_key, prior_text
from relexify.systems.transfer.provenance import is_finished, provenance_of
from relexify.systems.transfer.tokenizer import needed_roles, target_tokenizer
from relexify.systems.transfer.tokenizer_choice import choose_tokenizer
from relexify.tokens import check_vocabulary_size

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["TransferResult", "assist_transfer", "load_transfer", "run_transfer"]

_CHECKED_BYTES = 100_000
"""Bytes of text that a given tokenizer is checked with."""
_ANNOUNCED_FROM = 60
"""Seconds that a transfer must take for its time to be announced."""

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
    output = Path(options.output)
    if work is None and is_finished(options, evidence):
        logger.info("%s is up to date; nothing to transfer", options.output)
        write_documents(output, only_missing=True)  # an earlier call may have been killed before it did
        return load_transfer(output)

    earlier = read_notes(options.model).get("provenance")
    model, source = _load_source(options, evidence)
    # Only scores need text that nothing was trained on, and a small corpus may have none to hold out.
    text = evidence.held_out if options.score else evidence.corpus
    sample = text.sample_bytes(sample_size(options.score_bytes, options.device))
    counted_text = prior_text(options, model, evidence)
    original = None
    if options.score and memory_shortage(model, options.device) is None:
        original = prediction_key(model, source, sample, options.device)  # once, since it hashes the whole model
    cost = estimate_transfer(options, evidence, model, source, original=original, counted_text=counted_text)
    if cost.seconds >= _ANNOUNCED_FROM:
        logger.info("this transfer takes %s", cost.describe())
    target = target_tokenizer(options, source, evidence)
    check_roles(source, target, needed_roles(model))

    # Rows for the target tokens, on the inner parameters of the model.
    inputs = method_inputs(options, evidence, model, source, target)
    initialisation = initialise(options.method, inputs)
    grafted = graft_initialisation(options, options.method, model, target, initialisation)
    shortage = memory_shortage(grafted.model, options.device)  # if there is one, the model cannot be run

    # Test the evidence, on a sample of text.
    start = _examine_evidence(options, inputs, initialisation, grafted, sample)
    if options.score:
        start = replace(start, not_scored=shortage)
    # Tokens that were only added make no text longer; what they save is measured at the end.
    early = judge(replace(start, text=None) if options.keep_source else start)
    if early.start == "poor" and not METHODS[options.method].is_baseline:
        _warn_of_poor_start(early)

    # The unigram prior, and scores before training.
    is_scored = options.score and shortage is None
    if shortage is not None:
        counted_text = None
    prior = _add_prior(options, grafted, counted_text, shortage)
    source_scores = score_source_language(options, inputs, model, grafted.model) if is_scored else {}
    start = replace(start, extension=assess_extension(options, inputs, source_scores))
    if is_scored:
        scores = score_start(options, model, inputs, grafted, sample, counted_text, original=original)
        start = replace(start, bits_per_byte=scores)

    summary = {
        **start.as_notes(),
        "verdict": asdict(judge(start)),
        "unigram_prior": asdict(prior) if prior else None,
        "system_prompt": _report_system_prompt(target),
        "pairs_left_out": len(inputs.scored_pairs) if METHODS[options.method].takes("bitext") else 0,
        "samples": [asdict(sample) for sample in segment_samples(text, source, target)],
    }
    is_read = is_scored or counted_text is not None
    with work.finish() if work else write_folder(options.output, overwrite=options.overwrite) as folder:
        grafted.write(
            folder,
            provenance=provenance_of(options, evidence, model, target, earlier, is_read=is_read),
            summary=summary,
            inner=None if METHODS[options.method].fresh_inner else options.model,
        )
    write_documents(output)
    return TransferResult(grafted, initialisation.rotation, start, output)


def assist_transfer(options: Transfer, evidence: Evidence) -> None:
    """Help the process on another host that runs a transfer: count a share of the text, into the cache of both.

    What is counted depends on the method and on the target tokenizer, so all steps up to the rows are taken.

    Args:
        options: As for `run_transfer`.
        evidence: As for `run_transfer`.
    """
    if is_finished(options, evidence):
        return
    model, source = _load_source(options, evidence)
    target = target_tokenizer(options, source, evidence)
    initialise(options.method, method_inputs(options, evidence, model, source, target))


def load_transfer(output: Path) -> TransferResult:
    """Read the result of an earlier transfer; its vector alignment was not kept."""
    return TransferResult(Graft.load(output), None, Start.from_notes(read_notes(output)), output)


def _load_source(options: Transfer, evidence: Evidence) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load the source model and its tokenizer, and reject before the long work what would fail after it.

    Raises:
        InputError: There is no such model or tokenizer, or the model has NaN, or the vocabulary is too small.
        VocabularyError: A tokenizer does not belong to the model.
        OutputError: The disk is too small for the result.
    """
    # Tokenizers first, because a large model takes minutes to read.
    source, choice = load_tokenizer(options.model), choose_tokenizer(options)
    given = None if choice.name is None else load_tokenizer(choice.name)
    if choice.origin == "like source":
        check_vocabulary_size(source, options.vocab_size)
    # A head for next sentences is kept for TreLM, which trains it.
    model = load_model(options.model, next_sentence=True)
    check_fit(model, source)
    if given is not None and choice.name is not None:
        check_roles(source, given, needed_roles(model))
        check_encoding(given, choice.name, model.config, evidence.corpus.sample_bytes(_CHECKED_BYTES))
    rows = count_rows(model)
    if not options.keep_source:
        rows = min(rows, options.vocab_size)
    check_space(options.output, bytes_to_write(model, options.model, rows=rows))
    if (options.score or has_prior(options)) and memory_shortage(model, options.device) is None:
        check_finite(model)  # otherwise inner parameters are linked without being read
    return model, source


def _report_system_prompt(tokenizer: PreTrainedTokenizerFast) -> str | None:
    """Return the system prompt that the chat template begins with, with a warning; None if there is none."""
    prompt = default_system_prompt(tokenizer)
    if prompt is not None:
        logger.warning(
            "the chat template begins chats with %r, in the language of the source model: pass a system message in the "
            "target language, or edit chat_template.jinja",
            prompt,
        )
    return prompt


def _add_prior(
    options: Transfer, grafted: Graft, counted_text: PriorText | None, shortage: str | None
) -> UnigramReport | None:
    """Add the unigram prior, and log what it changes, or why there is none."""
    if shortage is not None and has_prior(options):
        logger.warning("no unigram prior is added, because predictions cannot be computed: %s", shortage)
    prior = add_prior(options, grafted, counted_text)
    if prior is not None:
        logger.info(
            "the unigram prior, how often the text has each token, changes %s; the model needs %.2f bits per token of "
            "text now, and needed %.2f before",
            prior.changed if prior.changed == "nothing" else f"the {prior.changed}",
            prior.bits_after,
            prior.bits_before,
        )
    return prior


def _warn_of_poor_start(verdict: Verdict) -> None:
    """Say in one sentence why a start will be poor; all is said at the end, minutes of scoring later."""
    found = verdict.reason.partition(". ")[0].removesuffix(".")
    headline, advice = "this will be a poor start", "to repair this first"
    if not verdict.is_needed:
        headline, advice = "a transfer is probably not needed", "if so"
    logger.warning("%s. %s. Interrupt the command %s.", headline, found, advice)


def _examine_evidence(
    options: Transfer, inputs: Inputs, initialisation: Initialisation, grafted: Graft, sample: str
) -> Start:
    """Return what is known about a grafted model before it is scored: its rows, the text, and tests of the evidence."""
    origins = row_origins(initialisation.mixture, initialisation.precomputed)
    text, occurrences = cover_text(sample, inputs.source, inputs.target, origins)
    # A method that aligns vectors with the dictionary has tested it on held-out words.
    tests_dictionary = initialisation.rotation is None and METHODS[options.method].takes("target vectors")
    bitext = None
    if METHODS[options.method].takes("bitext"):
        bitext = assess_bitext(inputs, occurrences, sample, mixed=origins == "mixed")
    return Start(
        method=options.method,
        origins=grafted.report.origins,
        fallback=initialisation.mixture.fallback.value,
        alignment=initialisation.rotation.summary() if initialisation.rotation else None,
        bits_per_byte={},
        text=text,
        dictionary=assess_dictionary(inputs, occurrences) if tests_dictionary else None,
        corpus_bytes=inputs.evidence.corpus.size(),
        given=given_evidence(options),
        bitext=bitext,
        trained_vocabulary=choose_tokenizer(options).is_trained,
    )
