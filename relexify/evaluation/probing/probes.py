"""Linear probes: how much a model's last hidden states say before anything is trained (WECHSEL, Appendix A).

Inference is read off the means of premise and hypothesis side by side, parts of speech off the mean of a word's
pieces, both by a multinomial logistic regression. Its objective is that of scikit-learn's `LogisticRegression`,

    mean_i −log softmax(Wᵀx_i + b)[y_i] + penalty / 2n · ‖W‖²,

and it is convex, so that there is nothing random in a probe.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from relexify.errors import EvidenceError, InputError
from relexify.evaluation.probing.features import LENGTH, sentence_means, word_means
from relexify.scoring import Score

__all__ = ["LinearProbe", "PairExample", "TaggedWords", "fit_probe", "probe_pairs", "probe_words"]

PairExample = tuple[str, str, Hashable]
"""A premise, a hypothesis, and how they stand to each other."""
TaggedWords = tuple[Sequence[str], Sequence[Hashable]]
"""Words, and a tag for each."""

ITERATIONS = 1_000
"""The optimiser is done long before, unless features are all but collinear and hardly penalised."""

logger = logging.getLogger(__name__)


def probe_pairs(
    model: Any,
    tokenizer: Any,
    training: Sequence[PairExample],
    test: Sequence[PairExample],
    *,
    penalty: float = 1.0,
    length: int = LENGTH,
    batch: int = 32,
    task: str = "NLI probe",
) -> Score:
    """How often a linear probe tells how a hypothesis stands to a premise.

    Args:
        model: Any encoder or decoder, where it is to run; it stays as it is.
        tokenizer: Its tokenizer.
        training: Examples that the probe learns from.
        test: Examples that count; labels that the training does not have count as wrong.
        penalty: Of large weights; the inverse of scikit-learn's C.
        length: Pieces that the model reads at once; longer texts are cut.
        batch: Texts at a time.
        task: The name of the score.

    Raises:
        EvidenceError: There are no examples to learn from, or none to count.
    """
    _check_sides(training, test)
    texts = [text for example in (*training, *test) for text in example[:2]]
    means = sentence_means(model, tokenizer, texts, length=length, batch=batch)
    features = means.reshape(len(training) + len(test), -1)  # a premise and its hypothesis follow each other
    probe = fit_probe(
        features[: len(training)], [label for _, _, label in training], penalty=penalty, device=model.device
    )
    return _accuracy(task, probe.predict(features[len(training) :]), [label for _, _, label in test])


def probe_words(
    model: Any,
    tokenizer: Any,
    training: Sequence[TaggedWords],
    test: Sequence[TaggedWords],
    *,
    penalty: float = 1.0,
    length: int = LENGTH,
    batch: int = 32,
    task: str = "POS probe",
) -> Score:
    """How often a linear probe tells the tag of a word.

    A word that the model sees nothing of, since its sentence is too long or it has no pieces, is not learnt from, and
    counts as wrong.

    Args:
        model: Any encoder or decoder, where it is to run; it stays as it is.
        tokenizer: Its tokenizer.
        training: Sentences that the probe learns from.
        test: Sentences that count; tags that the training does not have count as wrong.
        penalty: Of large weights; the inverse of scikit-learn's C.
        length: Pieces that the model reads at once; words that do not fit are not seen.
        batch: Sentences at a time.
        task: The name of the score.

    Raises:
        EvidenceError: There are no words to learn from, or none to count.
        InputError: A sentence has more or fewer tags than words.
    """
    _check_sides(training, test)
    _check_tags("training", training)
    _check_tags("test", test)
    sentences = [words for words, _ in (*training, *test)]
    means = word_means(model, tokenizer, sentences, length=length, batch=batch)
    learnt, learnt_tags = np.concatenate(means[: len(training)]), [tag for _, tags in training for tag in tags]
    asked, wanted = np.concatenate(means[len(training) :]), [tag for _, tags in test for tag in tags]
    seen = np.any(learnt != 0, axis=1)
    if not seen.any() or not wanted:
        raise EvidenceError("the model sees no word of one side of the probe: give sentences with words in them")
    tags = [tag for tag, known in zip(learnt_tags, seen, strict=True) if known]
    probe = fit_probe(learnt[seen], tags, penalty=penalty, device=model.device)
    predicted = [
        tag if known else None for tag, known in zip(probe.predict(asked), np.any(asked != 0, axis=1), strict=True)
    ]
    return _accuracy(task, predicted, wanted)


@dataclass(frozen=True)
class LinearProbe:
    """A multinomial logistic regression over standardised features.

    Attributes:
        labels: What it can say, in the order of the columns.
        weights: [d × labels], for features as they come.
        bias: [labels].
    """

    labels: tuple[Hashable, ...]
    weights: np.ndarray
    bias: np.ndarray

    def predict(self, features: np.ndarray) -> list[Hashable]:
        """The likeliest label of each row of features [n × d]."""
        chosen = (features.astype(np.float64) @ self.weights + self.bias).argmax(axis=1)
        return [self.labels[place] for place in chosen]


def fit_probe(
    features: np.ndarray, labels: Sequence[Hashable], *, penalty: float = 1.0, device: Any = "cpu"
) -> LinearProbe:
    """Fit a multinomial logistic regression; features are standardised by what is seen here.

    Args:
        features: [n × d].
        labels: [n], whatever can be told apart.
        penalty: Of large weights; the inverse of scikit-learn's C.
        device: Where to fit.

    Raises:
        InputError: The penalty is negative, or features and labels are not equally many, or not all finite.
    """
    if not penalty >= 0:
        raise InputError(f"penalty = {penalty} is not possible: give 0 or more")
    if len(features) != len(labels) or not len(labels):
        raise InputError(f"there are {len(features)} rows of features and {len(labels)} labels: give as many of both")
    if not np.isfinite(features).all():
        raise InputError("the model's hidden states are not all finite: is it sound, and in a type that holds them?")
    mean = features.mean(axis=0, dtype=np.float64)
    deviation = features.std(axis=0, dtype=np.float64)
    scale = 1 / np.where(deviation > 0, deviation, 1.0)
    known = tuple(dict.fromkeys(labels))
    place = {label: index for index, label in enumerate(known)}
    standard = torch.from_numpy(((features - mean) * scale).astype(np.float32)).to(device)
    wanted = torch.tensor([place[label] for label in labels], device=device)
    weights, bias = _minimised(standard, wanted, len(known), penalty / len(labels))
    weights = weights * scale[:, None]
    return LinearProbe(known, weights, bias - mean @ weights)


def _minimised(
    features: torch.Tensor, wanted: torch.Tensor, labels: int, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weights [d × labels] and bias [labels] of least cross entropy, by L-BFGS from zero."""
    count, width = features.shape
    rows = torch.arange(count, device=features.device)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        matrix = point.reshape(width + 1, labels)
        given = torch.from_numpy(matrix.astype(np.float32)).to(features.device)
        log_shares = torch.log_softmax(features @ given[:width] + given[width], dim=1)
        loss = -float(log_shares[rows, wanted].double().mean()) + penalty / 2 * float((matrix[:width] ** 2).sum())
        error = log_shares.exp()
        error[rows, wanted] -= 1
        slope = torch.cat([features.T @ error, error.sum(dim=0, keepdim=True)]).double().cpu().numpy() / count
        slope[:width] += penalty * matrix[:width]
        return loss, slope.ravel()

    start = np.zeros((width + 1) * labels)
    options = {"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "gtol": 1e-4, "ftol": 1e-12}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    if found.nit >= ITERATIONS:
        logger.warning("the probe is not settled after %d iterations: raise its penalty", ITERATIONS)
    matrix: np.ndarray = found.x.reshape(width + 1, labels)
    return matrix[:width], matrix[width]


def _check_sides(training: Sequence[Any], test: Sequence[Any]) -> None:
    for side, examples in (("to learn from", training), ("to count", test)):
        if not examples:
            raise EvidenceError(f"a probe needs examples {side}, and there are none: is the file empty?")


def _check_tags(side: str, sentences: Sequence[TaggedWords]) -> None:
    for number, (words, tags) in enumerate(sentences, 1):
        if len(words) != len(tags):
            raise InputError(
                f"{side} sentence {number} has {len(words)} words and {len(tags)} tags: give one tag for each word"
            )


def _accuracy(task: str, predicted: Sequence[Hashable], wanted: Sequence[Hashable]) -> Score:
    right = sum(one == other for one, other in zip(predicted, wanted, strict=True))
    return Score(task, "accuracy", right / len(wanted), True, len(wanted))
