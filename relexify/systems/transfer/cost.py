"""How long a transfer takes on this machine, before it is run.

On a CPU, running the model takes most of the time: the result and two baselines get a unigram prior, and they and the
original model are scored. The operations of these forward passes are counted, and the speed of matrix products is
measured. Everything else is estimated from the size of the text, with rates that were measured on one core of a
Neoverse-N1. What is in the cache takes no time, as far as that can be known before the work starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from relexify.evidence.bitext.aligned_tokens import is_aligned, most_lines
from relexify.grafting import count_read_tokens
from relexify.methods.parts.vectors import has_token_vectors, has_trained_vectors
from relexify.methods.registry import METHODS
from relexify.pretrained.architecture import architecture_of, usable_length
from relexify.pretrained.files.weights import bytes_to_write
from relexify.pretrained.loading import load_model, meta_model
from relexify.pretrained.parameters.lexical import count_rows
from relexify.pretrained.runtime.runnable import memory_shortage
from relexify.progress import format_duration
from relexify.scoring import MASK_STRIDE, WINDOW, sample_size
from relexify.systems.transfer.assessment.sampled_text import SampledText, sample_text
from relexify.systems.transfer.assessment.scores import known_scores
from relexify.systems.transfer.assessment.start import BASELINES, ORIGINAL
from relexify.systems.transfer.options import Transfer, given_translations
from relexify.systems.transfer.prior import has_prior
from relexify.systems.transfer.tokenizer.choice import choose_tokenizer
from relexify.systems.transfer.tokenizer.target import known_tokenizer
from relexify.text import Corpus, is_unspaced
from relexify.text.sources import TextFile
from relexify.tokens import encoder_of
from relexify.training.cost.peak import matrix_peak

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from relexify.evidence.evidence import Evidence

__all__ = ["TransferCost", "estimate_before_loading", "estimate_transfer"]

TOKENIZER_SECONDS, VECTOR_SECONDS = 1.0, 2.2
"""Per megabyte of text, to train a tokenizer (1.2 for 5 MB of Swahili, 0.8 for 20 MB) or word vectors (2.6 for 5 MB,
1.7 for 10 MB)."""
ALIGNMENT_SECONDS = 25.0
"""Per million characters of parallel text, both languages together."""
ROW_SECONDS = 0.0003
"""Per token, to build and to graft rows, and to test the evidence."""
WRITING_SECONDS, REPORT_SECONDS = 5e-9, 18.0
"""Per byte that is written, with checksums; and in any case, to read the evidence and write the report."""
USED_PEAK = 0.65
"""Share of the speed of a large matrix product that a forward pass reaches on a CPU: SmolLM2-135M-Instruct, with 0.27
billion operations per token, took 11.4 ms per token on a core that multiplies two matrices of 1,024 × 1,024 with 35
GFLOP/s."""
FEW_OPERATIONS = 1e10
"""Operations that take less than a second on any machine, so that its speed need not be measured."""
SPACED_LENGTH, UNSPACED_LENGTH = 4.0, 1.9
"""Characters per token of a tokenizer that is still to be trained, with and without spaces between words."""
COMPRESSION = 4
"""Bytes of text per byte of a compressed file: 4.0 for Swahili and 3.6 for Chinese with xz."""
MOST_HASHED = 1_000_000_000
"""Bytes of text, and of the model, up to which a dry run looks for results in the cache: it has to read all of them."""
_BYTES_PER_PARAMETER = 4
SEARCHES = ("adversarial", "unsupervised")
"""Vector alignments that are searched for without a dictionary, which takes minutes to hours."""
SHOWN = 0.1
"""Smallest share of the time that a part must take to be mentioned."""


@dataclass(frozen=True)
class TransferCost:
    """The time of a transfer.

    Attributes:
        parts: Seconds, by what they are spent on.
        unscored: Seconds of all parts if nothing is scored.
        is_complete: Whether these are all parts; otherwise, the method computes more, for an unknown time.
    """

    parts: Mapping[str, float]
    unscored: float
    is_complete: bool = True

    @property
    def seconds(self) -> float:
        """The time of all parts."""
        return sum(self.parts.values())

    def describe(self) -> str:
        """Say how long it takes, what takes most of it, and what would make it shorter, as the end of a sentence."""
        longest = sorted(self.parts.items(), key=lambda part: -part[1])
        shown = [f"{name} {_duration(part)}" for name, part in longest if part >= SHOWN * self.seconds]
        more = "" if self.is_complete else ", and more for what the method itself computes"
        text = f"about {_duration(self.seconds)} on this machine ({', '.join(shown)}){more}"
        if self.unscored < (1 - SHOWN) * self.seconds:
            text += f"; without scores (`score=false`) {_duration(self.unscored)}"
        return text


def estimate_before_loading(options: Transfer, evidence: Evidence, source: PreTrainedTokenizerFast) -> TransferCost:
    """Estimate how long a transfer takes, without its weights unless they are small and scores may be in the cache.

    Args:
        options: The transfer.
        evidence: The result of `prepare_transfer`.
        source: The tokenizer of the source model.

    Raises:
        InputError: The model cannot be loaded.
    """
    model, is_hashed, target = meta_model(options.model), _is_hashed(evidence.corpus), None
    if is_hashed or choose_tokenizer(options).name is not None:
        target = known_tokenizer(options, source, evidence)
    is_small = _BYTES_PER_PARAMETER * model.num_parameters() < MOST_HASHED
    if not (options.score and is_small and is_hashed and target is not None):
        return estimate_transfer(options, evidence, model, source, target)
    model = load_model(options.model, next_sentence=True)  # as a transfer does, so that its scores have the same keys
    sampled = sample_text(options, evidence, model, source)
    return estimate_transfer(options, evidence, model, source, target, sampled)


def estimate_transfer(
    options: Transfer,
    evidence: Evidence,
    model: PreTrainedModel,
    source: PreTrainedTokenizerFast,
    target: PreTrainedTokenizerFast | None,
    sampled: SampledText | None = None,
) -> TransferCost:
    """Estimate how long a transfer takes.

    Args:
        options: The transfer.
        evidence: The result of `prepare_transfer`.
        model: The source model, which may be on the meta device.
        source: Its tokenizer.
        target: The target tokenizer; None if it has to be trained.
        sampled: The text to score; if None, it is not known which scores are in the cache.
    """
    may_be_cached = model.device.type != "meta" or _is_hashed(evidence.corpus)
    prepared = _preparation_seconds(options, evidence, target, may_be_cached=may_be_cached)
    rows = _target_rows(options, model, target)
    prepared["rows of the embedding"] = rows * ROW_SECONDS
    written = bytes_to_write(model, options.model, rows=rows)
    prepared["writing model and report"] = written * WRITING_SECONDS + REPORT_SECONDS
    if architecture_of(model) == "headless" or memory_shortage(model, options.device) is not None:
        return TransferCost(prepared, sum(prepared.values()), is_complete=_is_complete(options))

    prior, scored, baselines = _forward_passes(options, evidence, model, (source, target), sampled)
    speed = math.inf
    if scored + prior > FEW_OPERATIONS:
        # The parameters of a model on the meta device do not have the number format of its files.
        dtype = model.config.dtype if model.device.type == "meta" and model.config.dtype else model.dtype
        speed = USED_PEAK * matrix_peak(dtype, options.device)
    priors = "token frequencies for the result" + (" and for baselines" if baselines else "")
    parts = {**prepared, priors: prior * (1 + baselines) / speed, "scores": scored / speed}
    unscored = sum(prepared.values()) + prior / speed
    return TransferCost(parts, unscored, is_complete=_is_complete(options))


def _is_complete(options: Transfer) -> bool:
    """Whether the method has no computation of its own that takes long: a search, or steps of a model."""
    method = METHODS[options.method]
    return not (method.takes("model") or method.takes("donor") or options.aligned_by in SEARCHES)


def _forward_passes(
    options: Transfer,
    evidence: Evidence,
    model: PreTrainedModel,
    tokenizers: tuple[PreTrainedTokenizerFast, PreTrainedTokenizerFast | None],
    sampled: SampledText | None,
) -> tuple[float, float, int]:
    """Return the operations of one unigram prior, those of all scores, and how many baselines need both.

    The second tokenizer is None if it has to be trained.
    """
    # Two operations for each parameter but those of the input embedding, whose rows are only looked up.
    kind, target = architecture_of(model), tokenizers[1]
    lexical = {id(each.weight) for each in (model.get_input_embeddings(), model.get_output_embeddings())}
    inner = sum(each.numel() for each in model.parameters() if id(each) not in lexical)
    width = model.get_output_embeddings().weight.shape[1]
    sizes = count_rows(model), _target_rows(options, model, target)
    before, after = (2 * (inner + rows * width) for rows in sizes)  # operations per token
    prior = 0.0
    if has_prior(options):
        prior = count_read_tokens(kind) * after * (2 if options.keep_source else 1)
    if not options.score:
        return prior, 0.0, 0
    known = [] if sampled is None else known_scores(options, target, sampled)
    baselines = sum(name not in known for name in BASELINES if name != ORIGINAL)
    sample = evidence.held_out.sample_bytes(sample_size(options.held_out_bytes, options.device))
    length = min(WINDOW, usable_length(model) or WINDOW)
    copies = MASK_STRIDE if kind == "encoder" else 1  # of each window, with other tokens masked
    own, new = (copies * _count_tokens(sample, tokenizer, length) for tokenizer in tokenizers)
    scored = own * before * (ORIGINAL not in known) + new * after * (1 + baselines)
    # The original model scores text of the source language too, and the result scores it twice.
    if options.keep_source:
        scored += own * (before + 2 * after)
    return prior, scored, baselines


def _preparation_seconds(
    options: Transfer, evidence: Evidence, target: PreTrainedTokenizerFast | None, *, may_be_cached: bool
) -> dict[str, float]:
    """Return the seconds of each step before any rows are built.

    The target tokenizer is None if it has to be trained.
    """
    method, beside = METHODS[options.method], given_translations(options)
    training = replace(options.vectors, seed=options.seed)
    text, source_text, bitext = evidence.corpus, evidence.source_corpus, evidence.bitext
    parts: dict[str, float] = {}
    if target is None:
        parts["tokenizer"] = _size_in_megabytes(text) * TOKENIZER_SECONDS
    texts: list[Corpus] = []  # to train vectors on
    aligns, guesses = method.takes("vectors", beside=beside), method.takes("target vectors", beside=beside)
    if (aligns or guesses) and evidence.target_vectors is None:
        texts.append(text)
    if aligns and evidence.source_vectors is None and source_text is not None:
        texts.append(source_text)
    texts = [each for each in texts if not (may_be_cached and has_trained_vectors(each, training))]
    if aligns and guesses and not (target is not None and has_token_vectors(text, target, training)):
        texts.append(text)  # cut into tokens, because the alignment of words is rarely reliable
    if texts:
        parts["word vectors"] = sum(map(_size_in_megabytes, texts)) * VECTOR_SECONDS
    if bitext is not None and method.takes("bitext") and evidence.links is None and not is_aligned(bitext):
        used = min(1.0, (most_lines(None, evidence.aligning) or bitext.lines) / bitext.lines)
        parts["word alignment"] = used * bitext.characters / 1e6 * ALIGNMENT_SECONDS
    return parts


def _is_hashed(text: Corpus) -> bool:
    """Whether a dry run reads all of a text to look for its results in the cache."""
    sizes = [_size_in_megabytes(each) for each in (text, *text.excluded)]
    return min(sizes) > 0 and sum(sizes) * 1e6 < MOST_HASHED


def _size_in_megabytes(text: Corpus) -> float:
    """Return the size of a text, estimated if it is compressed, and 0 if it is not known."""
    size = text.size()
    if size is None:
        files = (source.path for source in text.sources if isinstance(source, TextFile))
        size = COMPRESSION * sum(path.stat().st_size for path in files)
    return size / 1e6


def _target_rows(options: Transfer, model: PreTrainedModel, target: PreTrainedTokenizerFast | None) -> int:
    """Return how many rows the target embedding has, estimated if its tokenizer is not trained yet."""
    if target is not None:
        return len(target)
    return count_rows(model) + options.added_tokens if options.keep_source else options.vocab_size


def _count_tokens(text: str, tokenizer: PreTrainedTokenizerFast | None, window: int) -> int:
    """Return how many tokens the windows of a text have, estimated if the tokenizer is not trained yet (None)."""
    lines = text.split("\n")
    if tokenizer is None:
        length = UNSPACED_LENGTH if sum(map(is_unspaced, text)) > len(text) / 2 else SPACED_LENGTH
        tokens = math.ceil(len(text) / length)
    else:
        tokens = sum(len(row) + 1 for row in encoder_of(tokenizer).encode(lines))  # with a separator after each line
    return tokens if tokens < window else -(-tokens // window) * window


def _duration(seconds: float) -> str:
    return format_duration(_round_seconds(seconds))


def _round_seconds(seconds: float) -> float:
    """Round a time to seconds below a minute, and to ten seconds above it."""
    return round(seconds, -1) if seconds >= 60 else max(1, round(seconds))
