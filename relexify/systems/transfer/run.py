"""Run a transfer: from a model and text in another language to a model of that language."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.device import resolve_device
from relexify.errors import InputError
from relexify.evidence.alignment import Rotation
from relexify.evidence.evidence import Evidence
from relexify.grafting import Graft, UnigramReport, check_roles, load_own_tokenizer
from relexify.methods.registry import METHODS
from relexify.pretrained.architecture import check_fit
from relexify.pretrained.files.weights import bytes_to_write
from relexify.pretrained.loading import load_model, meta_model
from relexify.pretrained.parameters.lexical import count_rows
from relexify.pretrained.runtime.runnable import check_finite, memory_shortage
from relexify.pretrained.tokenizers import check_encoding, default_system_prompt
from relexify.scoring import report_sample_size
from relexify.storage.documents import write_documents
from relexify.storage.files import check_space, write_folder
from relexify.storage.notes import read_notes
from relexify.storage.runs.work import WorkFolder
from relexify.systems.transfer.assessment.examination import examine_evidence
from relexify.systems.transfer.assessment.sampled_text import SampledText, sample_text
from relexify.systems.transfer.assessment.samples import segment_samples
from relexify.systems.transfer.assessment.scores import score_source_language, score_start
from relexify.systems.transfer.assessment.start import Start
from relexify.systems.transfer.assessment.verdict import Verdict, judge
from relexify.systems.transfer.checks import prepare_transfer
from relexify.systems.transfer.cost import estimate_transfer
from relexify.systems.transfer.initialisation import graft_initialisation, initialise, method_inputs
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.prior import add_prior, has_prior
from relexify.systems.transfer.provenance import is_finished, provenance_of
from relexify.systems.transfer.tokenizer.choice import choose_tokenizer
from relexify.systems.transfer.tokenizer.extension import assess_extension
from relexify.systems.transfer.tokenizer.target import (
    known_tokenizer,
    load_chosen_tokenizer,
    needed_roles,
    target_tokenizer,
)
from relexify.tokens import check_vocabulary_size, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["TransferResult", "assist_transfer", "load_transfer", "run_transfer"]

_CHECKED_BYTES = 100_000
"""Bytes of text that a given tokenizer is checked with."""
MANY_ZERO_ROWS = 0.01
"""Share of the source tokens that may have an embedding of zeros, as a few unused ones do, without a warning."""
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
    options = replace(options, device=resolve_device(options.device))
    output = Path(options.output)
    # A step of a recipe, which has `work`, has looked for its result there.
    if work is None and is_finished(options, evidence):
        logger.info("%s is up to date; nothing to transfer", options.output)
        write_documents(output, only_missing=True)  # an earlier call may have been killed before it did
        return load_transfer(output)

    source = _load_source(options, evidence)
    if options.score:
        report_sample_size(evidence.held_out, options.held_out_bytes, options.device)
    sampled = sample_text(options, evidence, source.model, source.tokenizer)

    known = known_tokenizer(options, source.tokenizer, evidence)
    cost = estimate_transfer(options, evidence, source.model, source.tokenizer, known, sampled)
    if cost.seconds >= _ANNOUNCED_FROM:
        logger.info("this transfer takes %s", cost.describe())
    target = target_tokenizer(options, source.tokenizer, evidence) if known is None else known
    check_roles(source.tokenizer, target, needed_roles(source.model))

    # Rows for the target tokens, on the inner parameters of the model.
    inputs = method_inputs(options, evidence, source.model, source.tokenizer, target)
    initialisation = initialise(options.method, inputs)
    grafted = graft_initialisation(options, options.method, source.model, target, initialisation)

    start = examine_evidence(options, inputs, initialisation, grafted, sampled)
    _warn_of_poor_start(options, start)

    # A model that does not fit into memory is grafted and written, but cannot be run for a prior or for scores.
    shortage = memory_shortage(grafted.model, options.device)
    prior = _add_prior(options, grafted, sampled, shortage)
    start = replace(start, has_prior=prior is not None)
    source_scores: Mapping[str, float] = {}
    if options.score and shortage is None:
        source_scores = score_source_language(options, inputs, source.model, grafted.model)
        start = replace(start, bits_per_byte=score_start(options, source.model, inputs, grafted, sampled))
    elif options.score:
        start = replace(start, not_scored=shortage)
    start = replace(start, extension=assess_extension(options, inputs, source_scores))

    summary = {
        **start.as_notes(),
        "verdict": asdict(judge(start)),
        "unigram_prior": asdict(prior) if prior else None,
        "system_prompt": _report_system_prompt(target),
        "pairs_left_out": len(inputs.scored_pairs) if METHODS[options.method].takes("bitext") else 0,
        "samples": [asdict(line) for line in segment_samples(sampled.text, source.tokenizer, target)],
    }
    is_read = shortage is None and (options.score or sampled.prior_text is not None)
    with work.finish() if work else write_folder(options.output, overwrite=options.overwrite) as folder:
        grafted.write(
            folder,
            provenance=provenance_of(options, evidence, source.model, target, source.provenance, is_read=is_read),
            summary=summary,
            inner=None if METHODS[options.method].fresh_inner else options.model,
        )
    write_documents(output)
    return TransferResult(grafted, initialisation.rotation, start, output)


def assist_transfer(options: Transfer, evidence: Evidence) -> None:
    """Share the work of counting words with the process on another host that runs the same transfer.

    The counts depend on the method and on the target tokenizer, so this takes every step until the rows are built.

    Args:
        options: As for `run_transfer`.
        evidence: As for `run_transfer`.
    """
    if is_finished(options, evidence):
        return
    options = replace(options, device=resolve_device(options.device))
    source = _load_source(options, evidence)
    target = target_tokenizer(options, source.tokenizer, evidence)
    initialise(options.method, method_inputs(options, evidence, source.model, source.tokenizer, target))


def load_transfer(output: Path) -> TransferResult:
    """Read the result of an earlier transfer; its vector alignment was not kept."""
    return TransferResult(Graft.load(output), None, Start.from_notes(read_notes(output)), output)


@dataclass(frozen=True)
class _Source:
    """The source model.

    Attributes:
        model: Its weights.
        tokenizer: Its tokenizer.
        provenance: What it was made from, if relexify made it.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    provenance: Mapping[str, Any] | None


def _load_source(options: Transfer, evidence: Evidence) -> _Source:
    """Load the source model, and validate everything that would otherwise fail after hours of work.

    Raises:
        InputError: There is no such model or tokenizer, or the model has NaN, or the vocabulary is too small.
        VocabularyError: A tokenizer does not belong to the model.
        OutputError: The disk is too small for the result.
    """
    provenance = read_notes(options.model).get("provenance")
    # Tokenizers first, because a large model takes minutes to read.
    source, choice = load_own_tokenizer(options.model), choose_tokenizer(options)
    given = load_chosen_tokenizer(choice)
    if choice.origin == "like source":
        check_vocabulary_size(source, options.vocab_size)
    if given is not None and choice.name is not None:
        shape = meta_model(options.model)
        check_roles(source, given, needed_roles(shape))
        check_encoding(given, choice.name, shape.config, evidence.corpus.sample_bytes(_CHECKED_BYTES))
    # A head for next sentences is kept for TreLM, which trains it.
    model = load_model(options.model, next_sentence=True)
    check_fit(model, source)
    _check_embedding(model, source, str(options.model))
    rows = count_rows(model)
    if not options.keep_source:
        rows = min(rows, options.vocab_size)
    check_space(options.output, bytes_to_write(model, options.model, rows=rows))
    if (options.score or has_prior(options)) and memory_shortage(model, options.device) is None:
        check_finite(model)  # otherwise inner parameters are linked without being read
    return _Source(model, source, provenance)


def _check_embedding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, name: str) -> None:
    """Validate that the embedding is not zero, and warn if many rows are: rows mixed from them are too small.

    Raises:
        InputError: All rows are zero.
    """
    vocabulary = vocabulary_of(tokenizer)
    ids = [id for id, form in enumerate(vocabulary.forms) if vocabulary.tokens[id] and not form.is_special]
    rows = model.get_input_embeddings().weight.detach()
    zero = int((~rows.any(dim=1))[ids].sum())
    if zero == len(ids):
        raise InputError(f"the embedding of {name} is zero for every token: its weights are not complete; get it again")
    if zero > MANY_ZERO_ROWS * len(ids):
        logger.warning(
            "%s of the %s tokens of %s have an embedding of zeros, so tokens that are built from them get a small one, "
            "or zeros: check that its weights are complete",
            f"{zero:,}",
            f"{len(ids):,}",
            name,
        )


def _warn_of_poor_start(options: Transfer, start: Start) -> None:
    """Warn of a poor start before the minutes of scoring, with the finding that decides it."""
    # Added tokens cannot make the text longer, so its length is no reason.
    verdict = judge(replace(start, text=None) if options.keep_source else start)
    if verdict.start != "poor" or METHODS[options.method].is_baseline:
        return
    headline, advice = "this will be a poor start", "to repair this first"
    if not verdict.is_needed:
        headline, advice = "a transfer is probably not needed", "if so"
    logger.warning("%s. %s Interrupt the command %s.", headline, verdict.finding, advice)


def _add_prior(options: Transfer, grafted: Graft, sampled: SampledText, shortage: str | None) -> UnigramReport | None:
    """Add the unigram prior, and log what it changes, or why there is none.

    Args:
        options: The transfer.
        grafted: Its result, which is changed.
        sampled: Its text, which has the text of the prior.
        shortage: Why the result cannot be run, as `memory_shortage` says it; None if it can.
    """
    if shortage is not None:
        if has_prior(options):
            logger.warning("no unigram prior is added, because predictions cannot be computed: %s", shortage)
        return None
    prior = add_prior(options, grafted, sampled.prior_text)
    if prior is not None:
        logger.info(
            "the unigram prior, how often the text has each token, changes %s; the model needs %.2f bits per token of "
            "text now, and needed %.2f before",
            prior.changed if prior.changed == "nothing" else f"the {prior.changed}",
            prior.bits_after,
            prior.bits_before,
        )
    return prior


def _report_system_prompt(tokenizer: PreTrainedTokenizerFast) -> str | None:
    """Warn of a system prompt that the chat template adds by default, and return it; None if there is none."""
    prompt = default_system_prompt(tokenizer)
    if prompt is not None:
        logger.warning(
            "the chat template begins chats with %r, in the language of the source model: pass a system message in the "
            "target language, or edit chat_template.jinja",
            prompt,
        )
    return prompt
