"""Give a grafted model the unigram distribution of its language.

A grafted head has rows for the target tokens, but does not reflect their frequencies: its mean prediction q over the
positions of a text is far from the distribution p of the tokens in that text. Adding log p(v) - log q(v) to the logit
of every token v brings q close to p, without any other change to the predictions.

If the head has an output bias, the correction is added to the bias. Otherwise it is added to the rows w_v of the output
embedding along a direction b on which all final hidden states h have nearly the same projection, h · b ≈ 1:

    w_v ← w_v + (log p(v) - log q(v) - c) b          c = Σ_v p(v) (log p(v) - log q(v))

If the model scales the output of its head (Granite, Cohere), b is divided by that factor, unless this makes predictions
worse.

Such a direction exists because final hidden states have a large common component. In a tied model, the rows w_v are
also the input embedding, so the change must be small: ridge regression gives a short b, and subtracting the constant c,
which does not affect the softmax, makes the mean change of an input vector zero.

If a vocabulary was extended, the rows of the source tokens are kept. Only the added tokens get a correction, and c
follows from their total probability. They should become more probable only in text of the target language, so b must
also satisfy h · b ≈ 0 for the hidden states of text in the source language. If the hidden states of both languages are
too similar for that, nothing is changed. An output bias cannot distinguish languages, so it is not changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.grafting.graft import is_tied
from relexify.grafting.unigram_text import READ, WindowBatch, sample_tokens, window_batches
from relexify.pretrained.architecture import Architecture, architecture_of, check_fit, logit_factor
from relexify.pretrained.parameters.lexical import count_rows, lexical_axes
from relexify.pretrained.runtime.runnable import evaluating
from relexify.progress import Advance, track
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.tokens import separator_of, vocabulary_of

__all__ = ["UnigramPrior", "UnigramReport", "add_unigram_prior", "count_read_tokens", "find_unigram_prior"]

Changed = Literal["output bias", "output embedding", "tied embedding", "nothing"]
"""The part of a model that a prior changes."""

_KIND = "unigram prior"

_PASSES = 2
"""Two, because one correction is not exact: the mean softmax is not linear in the logits, and tied rows change h."""
_RIDGE = 1.0
"""Ridge penalty in units of the mean eigenvalue of the hidden states' second moments.

Ordinary least squares gives a direction that is ten times longer. Penalties from 0.01 to 10 give the same score on
held-out text.
"""

_TOLERATED = 0.01
"""Accepted relative increase of the loss on text in the source language. With SmolLM2-135M-Instruct, dequantised from
4 bits, and 5,000 tokens of Swahili, the loss grew from 1.234 to 1.235 bits per byte."""


@dataclass(frozen=True)
class UnigramReport:
    """The effect of a unigram prior.

    Attributes:
        changed: The parameters that were changed; `nothing` if a change would not have improved predictions.
        tokens: Number of tokens that were counted.
        positions: Number of predicted tokens that the following values were measured on.
        divergence_before: Kullback-Leibler divergence of the mean prediction from the unigram distribution, in bits.
        divergence_after: This divergence after the change.
        bits_before: Mean negative log likelihood of a token, in bits.
        bits_after: This mean after the change.
        source_bits_before: This mean on text in the source language, before the change; None without such text.
        source_bits_after: This mean on text in the source language, after the change; None without such text.
    """

    changed: Changed
    tokens: int
    positions: int
    divergence_before: float
    divergence_after: float
    bits_before: float
    bits_after: float
    source_bits_before: float | None = None
    source_bits_after: float | None = None


@dataclass(frozen=True, eq=False)
class UnigramPrior:
    """Corrections to the output of a model, one for each pass; none if they would not improve predictions.

    Attributes:
        report: The effect of the prior.
        corrections: The amount added to the logit of every token, float64 [passes × tokens].
        directions: The directions b along which the rows of the output embedding are changed, float64 [passes × d];
            None if an output bias is changed.
    """

    report: UnigramReport
    corrections: torch.Tensor
    directions: torch.Tensor | None

    def apply(self, model: PreTrainedModel) -> None:
        """Change a model in place; it must be the model for which the prior was found."""
        with torch.no_grad():
            for number, correction in enumerate(self.corrections):
                _change(model, correction, None if self.directions is None else self.directions[number])

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file."""
        arrays = {"corrections": self.corrections.numpy()}
        if self.directions is not None:
            arrays["directions"] = self.directions.numpy()
        return save_arrays(path, arrays, {"kind": _KIND, "report": asdict(self.report)})

    @classmethod
    def load(cls, path: str | Path) -> UnigramPrior:
        """Read a file that `save` wrote.

        Raises:
            InputError: The file is missing or damaged, or is another kind of file.
        """
        arrays, metadata = load_arrays(path, _KIND)
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return cls(UnigramReport(**metadata["report"]), tensors["corrections"], tensors.get("directions"))


def add_unigram_prior(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    corpus: Iterable[str],
    *,
    kept: int = 0,
    source: Iterable[str] | None = None,
    seed: int = 0,
) -> UnigramReport:
    """Give a model the unigram distribution of a text, in place; arguments and errors as for `find_unigram_prior`."""
    prior = find_unigram_prior(model, tokenizer, corpus, kept=kept, source=source, seed=seed)
    prior.apply(model)
    return prior.report


def find_unigram_prior(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    corpus: Iterable[str],
    *,
    kept: int = 0,
    source: Iterable[str] | None = None,
    seed: int = 0,
) -> UnigramPrior:
    """Find the corrections that give a model the unigram distribution of a text; the model is restored at the end.

    All tokens that do not occur, including unused rows, together get about the same probability as all tokens that
    occur once. Special tokens that do not occur keep their rows, unless the head has a bias.

    Args:
        model: A language model, such as `graft` returns.
        tokenizer: Its tokenizer.
        corpus: Text in its language, one paragraph at a time; a sample of it is used.
        kept: The rows of this many tokens at the beginning of the vocabulary are not changed.
        source: Text in the language of the kept tokens; all other tokens should not become more probable in it.
        seed: Random seed of the sample.

    Raises:
        InputError: There is no text, or the model has no language-modelling head.
        VocabularyError: The tokenizer does not match the model, or has no token to put between paragraphs.
    """
    kind = architecture_of(model)
    if kind == "headless":
        raise InputError(
            f"{type(model).__name__} has no language-modelling head, so it predicts no tokens: load it with one"
        )
    check_fit(model, tokenizer)
    stream = sample_tokens(tokenizer, corpus, seed=seed)
    batches = window_batches(model, tokenizer, stream)
    source_batches: list[WindowBatch] = []
    if source is not None:
        source_stream = sample_tokens(tokenizer, source, seed=seed, language="source")
        source_batches = window_batches(model, tokenizer, source_stream)
    counts = np.bincount(stream, minlength=len(model.get_output_embeddings().weight))
    if kind == "encoder":
        counts[separator_of(tokenizer)] = 0  # never masked
    log_p = torch.from_numpy(np.log(_smoothed(counts)))
    has_bias = source is None and _output_bias(model) is not None
    unseen = torch.empty(0, dtype=torch.long)
    if not has_bias:  # special tokens that the text lacks may occur in other text, such as those of a chat template
        vocabulary = vocabulary_of(tokenizer)
        special = [id for id, form in enumerate(vocabulary.forms) if form.is_special and vocabulary.tokens[id]]
        unseen = torch.tensor([id for id in special if id < len(counts) and not counts[id]]).long()

    # If the model scales its logits down, dividing b by the factor may change tied rows too much: then try without it.
    factors = (1.0,) if has_bias else (logit_factor(model.config), 1.0)
    for factor in dict.fromkeys(factors):
        attempt = _try_passes(model, batches, source_batches, log_p, kept, unseen, factor, has_bias=has_bias)
        if attempt.helps:
            break

    changed: Changed = "output embedding"
    if not attempt.helps:
        changed = "nothing"
    elif has_bias:
        changed = "output bias"
    elif is_tied(model):
        changed = "tied embedding"
    positions = sum(len(batch.labels) for batch in batches)
    passes = _PASSES if attempt.helps else 0
    return UnigramPrior(
        attempt.report(changed, tokens=len(stream), positions=positions),
        torch.stack(attempt.corrections)[:passes],
        torch.stack(attempt.directions)[:passes] if attempt.directions else None,
    )


def count_read_tokens(kind: Architecture) -> int:
    """Return how many tokens a model reads to find its prior: it reads the sample before each pass and at the end."""
    return READ[kind] * (_PASSES + 1)


@dataclass(frozen=True)
class _Predictions:
    """Predictions and final hidden states h, averaged over positions.

    Attributes:
        mean: The mean predicted distribution [tokens].
        hidden: The mean of h [d].
        moments: The mean of h hᵀ [d × d].
        divergence: Kullback-Leibler divergence of the mean prediction from the unigram distribution, in nats.
        nats: Mean negative log likelihood of the labels.
    """

    mean: torch.Tensor
    hidden: torch.Tensor
    moments: torch.Tensor
    divergence: float
    nats: float


@dataclass(frozen=True)
class _Attempt:
    """The changes of all passes, and the predictions before and after them.

    Attributes:
        corrections: The correction that each pass added to the logits [tokens].
        directions: The direction b [d] of each pass; empty if an output bias was changed.
        target: Predictions in the target text before every pass and after the last one.
        source: Predictions in the source text at the same times; empty if there is no source text.
    """

    corrections: list[torch.Tensor]
    directions: list[torch.Tensor]
    target: list[_Predictions]
    source: list[_Predictions]

    @property
    def helps(self) -> bool:
        """Whether predictions improved in the target text, and did not become much worse in the source text.

        Corrections do not help an untrained model: its hidden states have no common direction and do not distinguish
        languages.
        """
        harms = bool(self.source) and self.source[-1].nats > (1 + _TOLERATED) * self.source[0].nats
        return self.target[-1].nats < self.target[0].nats and not harms

    def report(self, changed: Changed, *, tokens: int, positions: int) -> UnigramReport:
        """Return the predictions before and after, in bits; if the attempt does not help, nothing is changed."""
        last = -1 if self.helps else 0
        return UnigramReport(
            changed=changed,
            tokens=tokens,
            positions=positions,
            divergence_before=self.target[0].divergence / math.log(2),
            divergence_after=self.target[last].divergence / math.log(2),
            bits_before=self.target[0].nats / math.log(2),
            bits_after=self.target[last].nats / math.log(2),
            source_bits_before=self.source[0].nats / math.log(2) if self.source else None,
            source_bits_after=self.source[last].nats / math.log(2) if self.source else None,
        )


def _smoothed(counts: np.ndarray) -> np.ndarray:
    """Return probabilities [tokens], none of them zero.

    As in Good-Turing estimation, all tokens that do not occur are together as probable as all tokens that occur once.
    However, a token that does not occur never counts as more than half an occurrence.
    """
    unseen = counts == 0
    once = max(int((counts == 1).sum()), 1)
    smoothed = np.where(unseen, min(0.5, once / max(int(unseen.sum()), 1)), counts)
    probabilities: np.ndarray = smoothed / smoothed.sum()
    return probabilities


def _correction(predictions: _Predictions, log_p: torch.Tensor, kept: int, unseen: torch.Tensor) -> torch.Tensor:
    """Return the correction of the logit of every token [tokens]; `unseen` are ids that get none."""
    correction = log_p - predictions.mean.log()
    if kept:
        # The logits of the kept tokens do not change, so c cannot be chosen freely. With c = log p(kept) - log q(kept),
        # where p and q are summed over the kept tokens, every other token gets its probability in the text.
        correction -= log_p[:kept].logsumexp(dim=0) - predictions.mean[:kept].sum().log()
    else:
        correction -= predictions.divergence  # the divergence is the mean under p: c in the module docstring
    correction[:kept] = 0
    correction[unseen] = 0
    return correction


def _try_passes(
    model: PreTrainedModel,
    batches: Sequence[WindowBatch],
    source_batches: Sequence[WindowBatch],
    log_p: torch.Tensor,
    kept: int,
    unseen: torch.Tensor,
    factor: float,
    *,
    has_bias: bool,
) -> _Attempt:
    """Correct the logits pass by pass, and restore the model.

    Args:
        model: The model.
        batches: Windows of the target text.
        source_batches: Windows of the source text, if there is one.
        log_p: The log probability of each token in the target text [tokens].
        kept: The rows of this many tokens at the beginning of the vocabulary are not changed.
        unseen: Ids of other tokens whose rows are not changed.
        factor: The factor by which the model multiplies the output of its head.
        has_bias: Whether the output bias is changed, rather than the rows of the output embedding.
    """
    attempt = _Attempt([], [], [], [])
    bias = _output_bias(model) if has_bias else None
    changed = model.get_output_embeddings().weight if bias is None else bias
    original = changed.detach().clone()
    windows = (_PASSES + 1) * (len(batches) + len(source_batches))
    with track("adding token frequencies (unigram prior)", windows) as advance, evaluating(model), torch.no_grad():
        try:
            for number in range(_PASSES + 1):
                target = _predict(model, batches, log_p, advance)
                source = _predict(model, source_batches, log_p, advance) if source_batches else None
                attempt.target.append(target)
                if source is not None:
                    attempt.source.append(source)
                if number == _PASSES:
                    break
                direction = None if has_bias else _direction(target, source) / factor
                if direction is not None:
                    attempt.directions.append(direction)
                attempt.corrections.append(_correction(target, log_p, kept, unseen))
                _change(model, attempt.corrections[-1], direction)
        finally:
            changed.copy_(original)
    return attempt


def _change(model: PreTrainedModel, correction: torch.Tensor, direction: torch.Tensor | None) -> None:
    """Add a correction of the logits [tokens] to the output bias, or to the output embedding along a direction [d]."""
    if direction is not None:
        rows = model.get_output_embeddings().weight
        rows += torch.outer(correction, direction).to(rows)
    elif (bias := _output_bias(model)) is not None:
        bias += correction.reshape(bias.shape).to(bias)


def _direction(target: _Predictions, source: _Predictions | None) -> torch.Tensor:
    """Return b [d] such that h · b is about 1 (on average, exactly 1) in the target text, and about 0 in the source.

    If all hidden states are zero, no such direction exists, and b is zero.
    """
    if not target.hidden.any():
        return torch.zeros_like(target.hidden)
    # Ridge regression: b minimises E[(h · b - 1)²] + E_source[(h · b)²] + penalty |b|², so that
    # (E[h hᵀ] + E_source[h hᵀ] + penalty I) b = E[h].
    moments = target.moments if source is None else target.moments + source.moments
    penalty = _RIDGE * target.moments.diagonal().mean() * torch.eye(len(moments), dtype=torch.float64)
    direction: torch.Tensor = torch.linalg.solve(moments + penalty, target.hidden)
    return direction / (target.hidden @ direction)


def _output_bias(model: PreTrainedModel) -> torch.Tensor | None:
    """Return the output bias of a model: the lexical tensor with one number per token; None if it has none."""
    rows = count_rows(model)
    values = model.state_dict()
    return next((values[name] for name in lexical_axes(model) if values[name].numel() == rows), None)


def _predict(
    model: PreTrainedModel, batches: Sequence[WindowBatch], log_p: torch.Tensor, advance: Advance
) -> _Predictions:
    """Average predictions and final hidden states over all windows; `log_p` [tokens] gives the divergence."""
    head = model.get_output_embeddings()
    rows, width = head.weight.shape
    nats, mean = 0.0, torch.zeros(rows, dtype=torch.float64)
    hidden, moments = torch.zeros(width, dtype=torch.float64), torch.zeros(width, width, dtype=torch.float64)
    states: list[torch.Tensor] = []
    hook = head.register_forward_pre_hook(lambda module, inputs: states.append(inputs[0]))
    try:
        for batch in batches:
            inputs = {name: ids.to(model.device) for name, ids in batch.inputs.items()}
            logits = model(**inputs).logits[batch.predicts.to(model.device)].float()  # [n × tokens]
            nats += float(cross_entropy(logits, batch.labels.to(model.device), reduction="sum"))
            mean += logits.softmax(dim=-1).sum(dim=0).to("cpu", torch.float64)
            state = states.pop().to("cpu", torch.float64)[batch.predicts]  # h [n × d]
            hidden += state.sum(dim=0)
            moments += state.T @ state
            advance(1)
    finally:
        hook.remove()
    count = sum(len(batch.labels) for batch in batches)
    # Some probabilities underflow to 0; their logarithm must be finite.
    mean = (mean / count).clamp(min=torch.finfo(torch.float32).tiny)
    divergence = float((log_p.exp() * (log_p - mean.log())).sum())
    return _Predictions(mean, hidden / count, moments / count, divergence, nats / count)
