"""Linear probes: test what a linear classifier can predict from a model's last hidden states; the model is frozen.

As in WECHSEL, Appendix A, the features for NLI are the means of premise and hypothesis, concatenated; the features for
parts of speech are the mean of a word's pieces. The classifier is a multinomial logistic regression with the objective
of scikit-learn's `LogisticRegression`,

    mean_i −log softmax(Wᵀx_i + b)[y_i] + penalty / 2n · ‖W‖².

It is convex, so a probe is deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import EvidenceError, InputError
from relexify.evaluation.metrics import accuracy
from relexify.evaluation.probing.features import LENGTH, sentence_means, word_means
from relexify.scoring import Score

__all__ = ["LinearProbe", "PairExample", "TaggedWords", "fit_probe", "probe_pairs", "probe_words"]

PairExample = tuple[str, str, Hashable]
"""A premise, a hypothesis, and their label."""
TaggedWords = tuple[Sequence[str], Sequence[Hashable]]
"""Words, and a tag for each."""

ITERATIONS = 1_000
"""Maximum number of iterations. The optimiser converges much earlier, unless features are almost collinear and the
penalty is tiny."""

logger = logging.getLogger(__name__)


def probe_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    training: Sequence[PairExample],
    test: Sequence[PairExample],
    *,
    penalty: float = 1.0,
    length: int = LENGTH,
    batch: int = 32,
) -> Score:
    """Return the accuracy of a linear probe that predicts the label of a premise and a hypothesis.

    Args:
        model: Any encoder or decoder, on the device to compute on; it is not changed.
        tokenizer: Its tokenizer.
        training: Examples to train the probe on.
        test: Examples to score; labels that the training data does not have count as wrong.
        penalty: Weight of the L2 penalty; the inverse of scikit-learn's C.
        length: Maximum number of pieces of a text; longer texts are truncated.
        batch: Number of texts in a batch.

    Raises:
        EvidenceError: There are no training examples, or no test examples.
    """
    _check_sides(training, test)
    texts = [text for example in (*training, *test) for text in example[:2]]
    means = sentence_means(model, tokenizer, texts, length=length, batch=batch)
    features = means.reshape(len(training) + len(test), -1)  # concatenates each premise and its hypothesis
    probe = fit_probe(
        features[: len(training)], [label for _, _, label in training], penalty=penalty, device=model.device
    )
    return accuracy([label for _, _, label in test], probe.predict(features[len(training) :]), task="NLI probe")


def probe_words(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    training: Sequence[TaggedWords],
    test: Sequence[TaggedWords],
    *,
    penalty: float = 1.0,
    length: int = LENGTH,
    batch: int = 32,
) -> Score:
    """Return the accuracy of a linear probe that predicts the tag of a word.

    Words that the model does not see, because their sentence is too long or they have no pieces, are not used for
    training, and count as wrong in the test data.

    Args:
        model: Any encoder or decoder, on the device to compute on; it is not changed.
        tokenizer: Its tokenizer.
        training: Sentences to train the probe on.
        test: Sentences to score; tags that the training data does not have count as wrong.
        penalty: Weight of the L2 penalty; the inverse of scikit-learn's C.
        length: Maximum number of pieces of a sentence; words beyond it are not seen.
        batch: Number of sentences in a batch.

    Raises:
        EvidenceError: There are no words to train on, or no words to score.
        InputError: A sentence has more or fewer tags than words.
    """
    _check_sides(training, test)
    _check_tags("training", training)
    _check_tags("test", test)
    sentences = [words for words, _ in (*training, *test)]
    means = word_means(model, tokenizer, sentences, length=length, batch=batch)
    training_rows, training_tags = np.concatenate(means[: len(training)]), [tag for _, tags in training for tag in tags]
    test_rows, test_tags = np.concatenate(means[len(training) :]), [tag for _, tags in test for tag in tags]
    # Words that the model does not see have rows of zeros.
    is_seen, is_seen_in_test = np.any(training_rows != 0, axis=1), np.any(test_rows != 0, axis=1)
    if not is_seen.any() or not test_tags:
        raise EvidenceError("the model sees no word of the training or test data: give sentences with words in them")
    tags = [tag for tag, seen in zip(training_tags, is_seen, strict=True) if seen]
    probe = fit_probe(training_rows[is_seen], tags, penalty=penalty, device=model.device)
    predicted = [tag if seen else None for tag, seen in zip(probe.predict(test_rows), is_seen_in_test, strict=True)]
    return accuracy(test_tags, predicted, task="POS probe", unit="words")


@dataclass(frozen=True)
class LinearProbe:
    """A multinomial logistic regression over standardised features.

    Attributes:
        labels: The labels, in the order of the columns.
        weights: Weights for features that are not standardised [d × labels].
        bias: Bias of each label [labels].
    """

    labels: tuple[Hashable, ...]
    weights: np.ndarray
    bias: np.ndarray

    def predict(self, features: np.ndarray) -> list[Hashable]:
        """Return the most probable label of each row of features [n × d]."""
        chosen = (features.astype(np.float64) @ self.weights + self.bias).argmax(axis=1)
        return [self.labels[index] for index in chosen]


def fit_probe(
    features: np.ndarray, labels: Sequence[Hashable], *, penalty: float = 1.0, device: str | torch.device = "cpu"
) -> LinearProbe:
    """Fit a multinomial logistic regression on features that are first standardised by their mean and deviation.

    Args:
        features: [n × d].
        labels: [n].
        penalty: Weight of the L2 penalty; the inverse of scikit-learn's C.
        device: The device to fit on.

    Raises:
        InputError: The penalty is negative, the numbers of features and labels differ, or a feature is NaN or infinite.
    """
    if not penalty >= 0:
        raise InputError(f"`penalty={penalty}` is not possible: give 0 or more")
    if len(features) != len(labels) or not len(labels):
        raise InputError(f"there are {len(features)} rows of features, but {len(labels)} labels: give one for each row")
    if not np.isfinite(features).all():
        raise InputError(
            "the model's hidden states have NaN or infinite values: check its weights, or load it in a wider dtype"
        )
    mean = features.mean(axis=0, dtype=np.float64)
    deviation = features.std(axis=0, dtype=np.float64)
    scale = 1 / np.where(deviation > 0, deviation, 1.0)
    known = tuple(dict.fromkeys(labels))
    index_of = {label: index for index, label in enumerate(known)}
    standard = torch.from_numpy(((features - mean) * scale).astype(np.float32)).to(device)
    gold = torch.tensor([index_of[label] for label in labels], device=device)
    weights, bias = _minimise(standard, gold, len(known), penalty / len(labels))
    weights = weights * scale[:, None]  # undo the standardisation
    return LinearProbe(known, weights, bias - mean @ weights)


def _minimise(features: torch.Tensor, gold: torch.Tensor, labels: int, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return weights [d × labels] and bias [labels] that minimise the objective, by L-BFGS from zero."""
    count, width = features.shape
    rows = torch.arange(count, device=features.device)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        matrix = point.reshape(width + 1, labels)
        parameters = torch.from_numpy(matrix.astype(np.float32)).to(features.device)
        log_probabilities = torch.log_softmax(features @ parameters[:width] + parameters[width], dim=1)
        loss = -float(log_probabilities[rows, gold].double().mean()) + penalty / 2 * float((matrix[:width] ** 2).sum())
        error = log_probabilities.exp()
        error[rows, gold] -= 1
        gradient = torch.cat([features.T @ error, error.sum(dim=0, keepdim=True)]).double().cpu().numpy() / count
        gradient[:width] += penalty * matrix[:width]
        return loss, gradient.ravel()

    start = np.zeros((width + 1) * labels)
    options = {"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "gtol": 1e-4, "ftol": 1e-12}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    if found.nit >= ITERATIONS:
        logger.warning("the probe has not converged after %d iterations: increase its penalty", ITERATIONS)
    matrix: np.ndarray = found.x.reshape(width + 1, labels)
    return matrix[:width], matrix[width]


def _check_sides(training: Sequence[object], test: Sequence[object]) -> None:
    for name, examples in (("training", training), ("test", test)):
        if not examples:
            raise EvidenceError(f"there are no {name} examples for the probe: give at least one example")


def _check_tags(side: str, sentences: Sequence[TaggedWords]) -> None:
    for number, (words, tags) in enumerate(sentences, 1):
        if len(words) != len(tags):
            raise InputError(
                f"{side} sentence {number} has {len(words)} words, but {len(tags)} tags: give one tag for each word"
            )
