"""Give a grafted model the unigram distribution of its language.

A grafted head has rows for the target tokens, but no idea how frequent they are: its mean prediction q over the
positions of a text is far from the distribution p of the tokens of that text. Adding log p(v) - log q(v) to the logit
of every token v brings q close to p, and changes nothing else that the model predicts.

If the head has an output bias, the correction is added to it. If not, it is added to the rows w_v of the output
embedding along a direction b in which all final hidden states h agree, h · b ≈ 1:

    w_v ← w_v + (log p(v) - log q(v) - c) b          c = Σ_v p(v) (log p(v) - log q(v))

If the model multiplies what its head returns (Granite, Cohere), b is divided by that factor, unless this makes
predictions worse.

There is such a direction because final hidden states have a large common component. In a tied model these rows are the
input embedding too, so the change has to be small: ridge regression gives a short b, and the constant c, which changes
no softmax, makes the mean change of an input vector zero.

If a vocabulary was extended, the rows of the first tokens are kept. Only the others get a correction, and c follows
from the probability that they have together. They should become more probable in text of the new language alone, so b
also has h · b ≈ 0 for the hidden states of text in the model's own language. If these do not differ enough for that,
nothing is changed. An output bias cannot tell languages apart and is left as it is.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch.nn.functional import cross_entropy, pad
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import InputError, VocabularyError
from relexify.grafting.graft import is_tied
from relexify.pretrained.architecture import (
    IGNORED,
    Architecture,
    architecture_of,
    check_fit,
    encoder_frame,
    logit_factor,
    usable_length,
)
from relexify.pretrained.lexical import count_rows, lexical_axes
from relexify.pretrained.runnable import evaluating
from relexify.pretrained.text_start import begin_windows, extra_length, text_start
from relexify.progress import Advance, track
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.text import make_encodable
from relexify.tokens import encoder_of, separator_of

__all__ = ["UnigramPrior", "UnigramReport", "add_unigram_prior", "find_unigram_prior", "sample_paragraphs"]

_KIND = "unigram prior"

_LINES, _CHARACTERS = 20_000, 500
"""Paragraphs of text to count tokens in, and the length at which each is cut: about a million tokens."""
_WINDOW = 256
_READ = {"decoder": 2_048, "encoder": 4_096, "encoder-decoder": 4_096}
"""Tokens to read when predictions are measured; a decoder predicts every one of them, the others a part."""
_MASK_STRIDE = 7
"""One token in this many is masked for an encoder: about the 15 % that it was trained with."""
_PASSES = 2
"""The mean of softmaxes is not linear in the logits, and tied rows change the hidden states: one pass falls short."""
_RIDGE = 1.0
"""Ridge penalty in units of the mean eigenvalue of the hidden states' second moments.

Least squares gives a direction that is ten times longer. Penalties from 0.01 to 10 score the same on held-out text.
"""

_TOLERATED = 0.01
"""Share by which the loss in text of the source language may grow. With SmolLM2-135M-Instruct, dequantised
from 4 bits, and 5,000 tokens of Swahili, it grew from 1.234 to 1.235 bits per byte."""


@dataclass(frozen=True)
class UnigramReport:
    """The effect of a unigram prior.

    Attributes:
        changed: The parameters that were changed; `nothing` if that would not have made predictions better.
        tokens: Number of tokens that were counted.
        positions: Number of tokens that were predicted, to measure the following.
        divergence_before: Kullback-Leibler divergence of the mean prediction from the unigram distribution, in bits.
        divergence_after: This divergence after the change.
        bits_before: Mean negative log likelihood of a token, in bits.
        bits_after: This mean after the change.
        source_bits_before: The mean in text of the source language, before; None if there is no such text.
        source_bits_after: The mean in text of the source language, after the change.
    """

    changed: Literal["output bias", "output embedding", "tied embedding", "nothing"]
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
    """Corrections to the output of a model, one for each pass; none if they would not make predictions better.

    Attributes:
        report: What it changes.
        corrections: What is added to the logit of every token, float64 [passes × tokens].
        directions: b, in which the rows of the output embedding are changed, float64 [passes × d]; None if an output
            bias is changed.
    """

    report: UnigramReport
    corrections: torch.Tensor
    directions: torch.Tensor | None

    def apply(self, model: PreTrainedModel) -> None:
        """Change a model in place, which must be the one that the prior was found for."""
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
            InputError: It is missing, damaged, or another kind of file.
        """
        arrays, metadata = load_arrays(path, _KIND)
        found = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return cls(UnigramReport(**metadata["report"]), found["corrections"], found.get("directions"))


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

    Tokens that do not occur, special tokens and unused rows among them, share the probability of those that occur once.

    Args:
        model: A language model, such as `graft` returns.
        tokenizer: Its tokenizer.
        corpus: Text in its language, one paragraph at a time; a sample of it is used.
        kept: Number of first tokens whose rows are not changed.
        source: Text in the language of these tokens; the others should not become more probable in it.
        seed: Random seed of the sample.

    Raises:
        InputError: There is no text, or the model has no language-modelling head.
        VocabularyError: The tokenizer is not the model's, or has no token to put between paragraphs.
    """
    kind = architecture_of(model)
    if kind == "headless":
        raise InputError(
            f"{type(model).__name__} has no language-modelling head, so it predicts no tokens: load it with one"
        )
    check_fit(model, tokenizer)
    stream = _sample_tokens(tokenizer, corpus, seed)
    batches = _batches(model, tokenizer, stream)
    source_batches: list[_Batch] = []
    if source is not None:
        source_batches = _batches(model, tokenizer, _sample_tokens(tokenizer, source, seed, "source"))
    positions = sum(len(batch.labels) for batch in batches)
    embedding = model.get_output_embeddings().weight
    counts = np.bincount(stream, minlength=len(embedding))
    if kind == "encoder":
        counts[separator_of(tokenizer)] = 0  # never masked
    goal = torch.from_numpy(np.log(_smoothed(counts)))
    bias = _output_bias(model) if source is None else None
    changed = embedding if bias is None else bias
    original = changed.detach().clone()

    # If logits are a small part of what the head returns, the whole correction may change tied rows by too much.
    for factor in dict.fromkeys((logit_factor(model.config) if bias is None else 1.0, 1.0)):
        with evaluating(model), torch.no_grad():
            try:
                predictions, source_predictions, changes = _adjust(
                    model, batches, source_batches, goal, kept, factor, has_bias=bias is not None
                )
            finally:
                changed.copy_(original)
        before, after = predictions[0], predictions[-1]
        # Hidden states of an untrained model have no common direction, and do not tell languages apart.
        harms = bool(source_predictions) and source_predictions[-1].nats > (1 + _TOLERATED) * source_predictions[0].nats
        helps = after.nats < before.nats and not harms
        if helps:
            break
    name: Literal["output bias", "output embedding", "tied embedding", "nothing"]
    if not helps:
        after, source_predictions, name = before, source_predictions[:1], "nothing"
    elif bias is not None:
        name = "output bias"
    else:
        name = "tied embedding" if is_tied(model) else "output embedding"
    report = UnigramReport(
        changed=name,
        tokens=len(stream),
        positions=positions,
        divergence_before=before.divergence / math.log(2),
        divergence_after=after.divergence / math.log(2),
        bits_before=before.nats / math.log(2),
        bits_after=after.nats / math.log(2),
        source_bits_before=source_predictions[0].nats / math.log(2) if source_predictions else None,
        source_bits_after=source_predictions[-1].nats / math.log(2) if source_predictions else None,
    )
    passes = _PASSES if helps else 0
    directions = [direction for _, direction in changes if direction is not None]
    return UnigramPrior(
        report,
        torch.stack([correction for correction, _ in changes])[:passes],
        torch.stack(directions)[:passes] if directions else None,
    )


@dataclass(frozen=True)
class _Batch:
    """Windows as a model reads them at once.

    Attributes:
        inputs: The arguments of its forward, [windows × length] each.
        predicts: At which positions of the output it predicts a token [windows × length].
        labels: The tokens to predict [n], window by window.
    """

    inputs: dict[str, torch.Tensor]
    predicts: torch.Tensor
    labels: torch.Tensor


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


def sample_paragraphs(corpus: Iterable[str], *, seed: int = 0) -> list[str]:
    """Return the paragraphs that `add_unigram_prior` counts tokens in; a sample of the sample is the sample itself.

    Several models that are given the prior of one text need not read the whole text each.
    """
    draw = random.Random(seed)
    sample: list[tuple[int, str]] = []
    for number, line in enumerate(corpus):  # reservoir sampling: one pass, and no need to know the size of the text
        slot = number if number < _LINES else draw.randrange(number + 1)
        if slot < _LINES:
            sample[slot : slot + 1] = [(number, line[:_CHARACTERS])]
    return [line for _, line in sorted(sample)]


def _sample_tokens(
    tokenizer: PreTrainedTokenizerFast, corpus: Iterable[str], seed: int, language: str = "target"
) -> np.ndarray:
    """Return the tokens of a random sample of paragraphs, in the order of the text, with separators between them."""
    lines = [make_encodable(line) for line in sample_paragraphs(corpus, seed=seed)]
    separator = separator_of(tokenizer)
    ids = [
        np.array([*row, separator] if len(line) < _CHARACTERS else row, dtype=np.int64)  # none where a line was cut
        for line, row in zip(lines, encoder_of(tokenizer).encode(lines), strict=True)
    ]
    if not ids:
        raise InputError(f"there is no text to count tokens in: give text in the {language} language")
    return np.concatenate(ids)


def _smoothed(counts: np.ndarray) -> np.ndarray:
    """Return probabilities [tokens], none of them zero.

    As Good and Turing estimate it, tokens that do not occur are together as probable as those that occur once; but none
    has more than half a count.
    """
    unseen = counts == 0
    once = max(int((counts == 1).sum()), 1)
    smoothed = np.where(unseen, min(0.5, once / max(int(unseen.sum()), 1)), counts)
    probabilities: np.ndarray = smoothed / smoothed.sum()
    return probabilities


def _correction(predictions: _Predictions, goal: torch.Tensor, kept: int) -> torch.Tensor:
    """Return the correction of the logit of every token [tokens]; `goal` is log p."""
    correction = goal - predictions.mean.log()
    if not kept:
        return correction - predictions.divergence  # its mean under p, which is c of the equation above
    # With the first logits unchanged, c is no longer free: all other tokens together get the probability that they have
    # in the text, and each gets its own, for c = log p(first) - log q(first).
    correction -= goal[:kept].logsumexp(dim=0) - predictions.mean[:kept].sum().log()
    correction[:kept] = 0
    return correction


def _adjust(
    model: PreTrainedModel,
    batches: Sequence[_Batch],
    source_batches: Sequence[_Batch],
    goal: torch.Tensor,
    kept: int,
    factor: float,
    *,
    has_bias: bool,
) -> tuple[list[_Predictions], list[_Predictions], list[tuple[torch.Tensor, torch.Tensor | None]]]:
    """Correct the logits in place: the output bias if `has_bias`, or else the rows of the output embedding.

    Returns:
        The predictions in the target text before every pass and after the last one; the same in the source text, if
        there is one; and the correction [tokens] of every pass with its direction [d], None for a bias.
    """
    predictions: list[_Predictions] = []
    source_predictions: list[_Predictions] = []
    changes: list[tuple[torch.Tensor, torch.Tensor | None]] = []
    windows = (_PASSES + 1) * (len(batches) + len(source_batches))
    with track("adding a unigram prior", windows) as advance:
        for number in range(_PASSES + 1):
            predictions.append(_predict(model, batches, goal, advance))
            if source_batches:
                source_predictions.append(_predict(model, source_batches, goal, advance))
            if number == _PASSES:
                break
            direction = None
            if not has_bias:
                direction = _direction(predictions[-1], source_predictions[-1] if source_predictions else None) / factor
            changes.append((_correction(predictions[-1], goal, kept), direction))
            _change(model, *changes[-1])
    return predictions, source_predictions, changes


def _change(model: PreTrainedModel, correction: torch.Tensor, direction: torch.Tensor | None) -> None:
    """Add a correction of the logits [tokens] to the output bias, or to the output embedding in a direction [d]."""
    if direction is not None:
        rows = model.get_output_embeddings().weight
        rows += torch.outer(correction, direction).to(rows)
    elif (bias := _output_bias(model)) is not None:
        bias += correction.reshape(bias.shape).to(bias)


def _direction(target: _Predictions, source: _Predictions | None) -> torch.Tensor:
    """Return b [d] with h · b close to 1 for every h in the target text, and 1 on average; in the source text, to 0."""
    # Ridge regression: b minimises E[(h · b - 1)²] + E_source[(h · b)²] + penalty |b|², so that
    # (E[h hᵀ] + E_source[h hᵀ] + penalty I) b = E[h].
    moments = target.moments if source is None else target.moments + source.moments
    penalty = _RIDGE * target.moments.diagonal().mean() * torch.eye(len(moments), dtype=torch.float64)
    direction: torch.Tensor = torch.linalg.solve(moments + penalty, target.hidden)
    return direction / (target.hidden @ direction)


def _batches(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, stream: np.ndarray) -> list[_Batch]:
    """Return windows that are spread over a text, as the model reads them; `stream` are its tokens [n]."""
    kind = architecture_of(model)
    length = min(_WINDOW, usable_length(model) or _WINDOW, len(stream))
    starts = np.unique(np.linspace(0, len(stream) - length, _READ[kind] // length).astype(np.int64))
    windows = stream[starts[:, None] + np.arange(length)]  # [windows × length]
    together = _WINDOW // length  # short ones, because the logits of a long one may be most of the memory
    batches = [_batch(tokenizer, windows[first : first + together], kind) for first in range(0, len(windows), together)]
    if not any(len(batch.labels) for batch in batches):
        raise InputError(f"a text of {len(stream)} tokens is too short to measure predictions in: give more text")
    return batches


def _batch(tokenizer: PreTrainedTokenizerFast, windows: np.ndarray, kind: Architecture) -> _Batch:
    """Return windows [windows × length] as a model of some architecture reads them."""
    if kind == "decoder":
        start = text_start(tokenizer)
        first = extra_length(start)
        read, written = map(torch.from_numpy, begin_windows(start, windows[:, first:-1], windows[:, first + 1 :]))
        predicts = written != IGNORED
        return _Batch({"input_ids": read}, predicts, written[predicts])
    tokens = torch.from_numpy(windows)
    if kind == "encoder-decoder":
        read, written = (half.contiguous() for half in tokens.tensor_split(2, dim=1))
        inputs = {"input_ids": read, "labels": written}
        return _Batch(inputs, torch.ones_like(written, dtype=torch.bool), written.flatten())
    if tokenizer.mask_token_id is None:
        raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
    before, after = (
        torch.tensor(ids, dtype=torch.int64).expand(len(tokens), len(ids)) for ids in encoder_frame(tokenizer)
    )
    tokens = tokens[:, : tokens.shape[1] - before.shape[1] - after.shape[1]]
    masked = (torch.arange(tokens.shape[1]) % _MASK_STRIDE == 0) & (tokens != separator_of(tokenizer))
    ids = torch.cat([before, tokens.masked_fill(masked, tokenizer.mask_token_id), after], dim=1)
    predicts = pad(masked, (before.shape[1], after.shape[1]))
    return _Batch({"input_ids": ids}, predicts, tokens[masked])


def _output_bias(model: PreTrainedModel) -> torch.Tensor | None:
    """Return the output bias of a model, or None if it has none: the lexical tensor with one number per token."""
    rows = count_rows(model)
    values = model.state_dict()
    return next((values[name] for name in lexical_axes(model) if values[name].numel() == rows), None)


def _predict(model: PreTrainedModel, batches: Sequence[_Batch], goal: torch.Tensor, advance: Advance) -> _Predictions:
    """Average predictions and final hidden states over all windows; `goal` is log p [tokens]."""
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
    # The logarithm of a probability that underflows must be finite.
    mean = (mean / count).clamp(min=torch.finfo(torch.float32).tiny)
    divergence = float((goal.exp() * (goal - mean.log())).sum())
    return _Predictions(mean, hidden / count, moments / count, divergence, nats / count)
