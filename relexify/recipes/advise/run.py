"""Advise on a transfer: measure the evidence, train every applicable method for some steps, and rank them.

Without steps nothing is trained, and the methods are ranked by held-out dictionary words, a matter of minutes on a CPU.
Scores before training do not predict the order of methods after it (`systems/transfer/assessment/verdict.py`), but
those after a few steps largely do. All methods get the unigram prior, so that they differ in their rows alone. Methods
that cannot be built from the evidence are left out before anything is trained. The trainings are trials of a
comparison, in the output folder: an interrupted one resumes, and finished ones are read again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.device import resolve_device
from relexify.errors import EvidenceError
from relexify.grafting import check_roles, load_own_tokenizer, row_origins
from relexify.methods.fvt import fvt
from relexify.methods.registry import METHODS
from relexify.pretrained.loading import load_model
from relexify.progress import count_of, report_under
from relexify.recipes.advise.evidence import (
    FEWEST_HELD_OUT_WORDS,
    EvidenceWorth,
    held_out_words,
    measure_evidence,
    split_dictionary,
)
from relexify.recipes.advise.options import BASELINE, DEFAULT, Advise, planned_runs
from relexify.recipes.compare.prepare import texts_of_trials
from relexify.recipes.compare.run import report_folder, run_comparison
from relexify.recipes.file.comparison import CompareOptions, Run
from relexify.recipes.file.recipe import Recipe
from relexify.scoring import report_sample_size, sample_size
from relexify.systems.transfer.assessment.scores import score_original
from relexify.systems.transfer.assessment.start import TextCoverage, cover_text
from relexify.systems.transfer.checks import check_replaced, check_transfer
from relexify.systems.transfer.initialisation import initialise, method_inputs
from relexify.systems.transfer.options import method_options, with_method, without_evidence
from relexify.systems.transfer.tokenizer.extension import extend_vocabulary
from relexify.systems.transfer.tokenizer.target import needed_roles, target_tokenizer
from relexify.text import Corpus
from relexify.tokens import encoder_of
from relexify.training.options import Training
from relexify.training.results.curve import Curve

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["Advice", "RankedRun", "run_advise"]

logger = logging.getLogger(__name__)

_TOKENS_OF_A_WORD = 4
"""The most tokens that a word of a dictionary has: with a capital or not, after a space or not."""


TIED_HELD_OUT_SHARE = 0.05
"""Difference of held-out words that does not predict the order after training: in Swahili, `trans-tokens` was ahead
of `blend` by 0.02, and in Uyghur, `wechsel` by 0.01, and `blend` was the best in both after 250 steps."""


@dataclass(frozen=True)
class RankedRun:
    """One run and what was measured of it.

    Attributes:
        name: The method, or the default without a kind of evidence.
        before: Bits per byte before training, with the unigram prior; None if nothing was trained.
        after: Bits per byte after it; None if nothing was trained.
        held_out_words: How often a held-out dictionary word is closer to its own translation than to another word's;
            None if this was not measured.
    """

    name: str
    before: float | None
    after: float | None
    held_out_words: float | None


@dataclass(frozen=True)
class _Measured:
    """What was measured without training; see `Advice`.

    Attributes:
        original: Bits per byte of the source model.
        text: The held-out text under both tokenizers.
        extended_tokens: Number of its tokens with an extended vocabulary, if there is one.
        evidence: What the evidence says about the text.
        left_out: Why runs were left out, by their name.
        held_out_words: How often each method places held-out words next to their translations.
    """

    original: float
    text: TextCoverage
    extended_tokens: int | None
    evidence: EvidenceWorth
    left_out: Mapping[str, str]
    held_out_words: Mapping[str, float]


@dataclass(frozen=True)
class Advice:
    """What was measured, and what follows from it.

    Attributes:
        options: The options that it is based on.
        runs: The methods and variants, the best first: after training, or else by held-out words.
        original: Bits per byte of the source model with its own tokenizer.
        text: The held-out text under both tokenizers.
        extended_tokens: Number of its tokens if the model's own tokenizer is extended instead of replaced; None
            without text in the model's language.
        corpus_bytes: Size of the whole text; the trainings may use a part of it.
        evidence: What the evidence is worth.
        left_out: Runs that cannot be built from the evidence, and why.
        report: The folder with tables and curves of the trainings; None if nothing was trained.
    """

    options: Advise
    runs: tuple[RankedRun, ...]
    original: float
    text: TextCoverage
    extended_tokens: int | None
    corpus_bytes: int
    evidence: EvidenceWorth
    left_out: Mapping[str, str]
    report: Path | None = None

    @property
    def scores(self) -> dict[str, float]:
        """Bits per byte after training, by run; empty if nothing was trained."""
        return {run.name: run.after for run in self.runs if run.after is not None}

    @property
    def best(self) -> str:
        """The best method, or the default if nothing was trained and the best one is level with it.

        A baseline is the best only if nothing else was tried.
        """
        names = [run.name for run in self.runs if run.name in METHODS]
        first = next((name for name in names if not METHODS[name].is_baseline), names[0])
        return DEFAULT if DEFAULT in self.level_with(first) else first

    def level_with(self, name: str) -> list[str]:
        """Return the methods that place held-out words as well as another one does; none after a training.

        Differences below `TIED_HELD_OUT_SHARE` do not predict the order after a training.
        """
        words = {run.name: run.held_out_words for run in self.runs if run.after is None and run.name in METHODS}
        best = words.get(name)
        if best is None:
            return []
        others = ((other, share) for other, share in words.items() if other != name and share is not None)
        return [other for other, share in others if best - share < TIED_HELD_OUT_SHARE]


def run_advise(options: Advise) -> Advice:
    """Measure everything, and rank the methods.

    Raises:
        InputError: An option or an input is not possible, or the output folder belongs to another advice.
        EvidenceError: A method that was named cannot be built from the evidence, or nothing is to be trained and too
            few words are held out.
        OutputError: The output cannot be written, or is or contains an input.
    """
    planned = planned_runs(options)
    check_replaced(options.transfer)
    logger.info("%s", _describe_plan(options, planned))
    transfer = replace(options.transfer, unigram_prior=True, device=resolve_device(options.transfer.device))
    text = Corpus.open(transfer.corpus)
    size = text.size() or text.text_bytes
    subsample = None if size <= options.text_bytes else options.text_bytes
    corpus, held_out = texts_of_trials(transfer.corpus, transfer.held_out, subsample)
    # The evidence first: it takes a minute, and its messages say what is wrong before anything is trained.
    used = replace(options, transfer=replace(transfer, corpus=corpus, held_out=held_out))
    measured = _measure(used, planned)
    words, report = measured.held_out_words, None
    if options.steps:
        runs = [run for run in planned if run.name not in measured.left_out]
        curves = _train_all(replace(options, transfer=transfer), runs, subsample)
        ranked = [
            RankedRun(name, curves[name].first.bits_per_byte, curves[name].last.bits_per_byte, words.get(name))
            for name in sorted(curves, key=lambda name: curves[name].last.bits_per_byte)
        ]
        report = report_folder(Path(transfer.output), subsample)
    elif words:
        ranked = [RankedRun(name, None, None, words[name]) for name in sorted(words, key=lambda name: -words[name])]
    else:
        raise _too_few_words()
    return Advice(
        options=options,
        runs=tuple(ranked),
        original=measured.original,
        text=measured.text,
        extended_tokens=measured.extended_tokens,
        corpus_bytes=size,
        evidence=measured.evidence,
        left_out=measured.left_out,
        report=report,
    )


def _train_all(options: Advise, runs: Sequence[Run], subsample: int | None) -> dict[str, Curve]:
    """Train all runs on about `subsample` bytes of the text, or all of it, and return their curves by name."""
    transfer = options.transfer
    training = Training(
        steps=options.steps,
        batch=options.batch,
        length=options.length,
        evaluate_every=options.steps,
        # The same text as for the original model, even if the training uses another device.
        held_out_bytes=sample_size(transfer.held_out_bytes, transfer.device),
        seed=transfer.seed,
    )
    subsamples = () if subsample is None else (subsample,)
    recipe = Recipe(
        title=f"Advice on {transfer.model}",
        output=Path(transfer.output),
        model=transfer.model,
        corpus=transfer.corpus,
        held_out=transfer.held_out,
        tables={"transfer": transfer, "training": training},
        compare=CompareOptions(runs=tuple(runs), seeds=(transfer.seed,), subsamples=subsamples),
    )
    (comparison,) = run_comparison(recipe, device=transfer.device, overwrite=transfer.overwrite)
    return {name: curve for name, (curve,) in comparison.curves.items()}


def _describe_plan(options: Advise, runs: Sequence[Run]) -> str:
    """Return a sentence that names the methods to try, and the ones that are only added for comparison."""
    work = f"{count_of(len(runs), 'method')}, "
    work += f"each trained for {count_of(options.steps, 'step')}" if options.steps else "not trained"
    added = [run.name for run in runs if run.without or (run.name == BASELINE and BASELINE not in options.methods)]
    tried = ", ".join(run.name for run in runs if run.name not in added)
    return f"{work}: {tried}" + (f"; to compare with, {', '.join(added)}" if added else "")


def _measure(options: Advise, runs: Sequence[Run]) -> _Measured:
    """Build the rows of all runs, and measure everything that takes no training.

    Args:
        options: The advice, with the part of the text that it uses.
        runs: What to build.

    Raises:
        EvidenceError: As `run_advise`.
    """
    transfer = options.transfer
    evidence = check_transfer(transfer, report_unused=False)
    if not options.steps and evidence.lexicon is not None:
        _, held = split_dictionary(evidence.lexicon)
        if len(held) * _TOKENS_OF_A_WORD < FEWEST_HELD_OUT_WORDS:
            raise _too_few_words()
    source, model = load_own_tokenizer(transfer.model), load_model(transfer.model)
    target = target_tokenizer(transfer, source, evidence)
    check_roles(source, target, needed_roles(model))
    left_out = _build_all(options, runs, model, source)
    inputs = method_inputs(transfer, evidence, model, source, target)
    report_sample_size(evidence.held_out, transfer.held_out_bytes, transfer.device)
    sample = evidence.held_out.sample_bytes(sample_size(transfer.held_out_bytes, transfer.device))
    text, counts = cover_text(sample, source, target, row_origins(fvt(source, target)))
    extended = None
    if evidence.source_corpus is not None:
        encoder = encoder_of(extend_vocabulary(transfer, source, evidence).tokenizer)
        extended = sum(len(ids) for ids in encoder.encode(sample.split("\n")))
    original = score_original(model, source, sample, device=transfer.device)
    names = [run.name for run in runs if run.name in METHODS and run.name not in left_out]
    # A donor has a vocabulary of its own, in which other words are tokens.
    methods = [name for name in names if not METHODS[name].takes("donor")]
    built = {name: replace(inputs, options=method_options(replace(transfer, method=name))) for name in methods}
    return _Measured(
        original=original,
        text=text,
        extended_tokens=extended,
        evidence=measure_evidence(inputs, counts),
        left_out=left_out,
        held_out_words=held_out_words(built),
    )


def _too_few_words() -> EvidenceError:
    return EvidenceError(
        f"fewer than {FEWEST_HELD_OUT_WORDS} words of the dictionary can be held out, too few to rank methods without "
        "training: give a larger dictionary, or a number of steps"
    )


def _build_all(
    options: Advise, runs: Sequence[Run], model: PreTrainedModel, source: PreTrainedTokenizerFast
) -> dict[str, str]:
    """Initialise the embeddings of every run, and return the runs for which the evidence does not suffice, and why.

    What is slow to build is cached, and the trials read it.

    Raises:
        EvidenceError: One of them was named.
    """
    found = {}
    for run in runs:
        logger.info("building %s", run.name)  # so that warnings about missing evidence are understood
        transfer = with_method(without_evidence(options.transfer, run.without), run.method or DEFAULT)
        try:
            evidence = check_transfer(transfer, report_unused=False)
            target = target_tokenizer(transfer, source, evidence)
            with report_under(run.name):
                initialise(transfer.method, method_inputs(transfer, evidence, model, source, target))
        except EvidenceError as error:
            if run.name in options.methods:
                raise
            found[run.name] = str(error)
    return found
