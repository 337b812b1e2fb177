"""Metrics: accuracy, correlations, F1 and entity F1, scores by label, and confusion matrices.

An undefined score (a correlation with a constant, an F1 without positives) is 0, as in GLUE: a model that always
predicts the same has learned nothing. This module does not import torch, so that task definitions can import metrics.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from relexify.errors import InputError, importing
from relexify.scoring import Score

__all__ = [
    "Confusion",
    "LabelRow",
    "accuracy",
    "accuracy_alone",
    "accuracy_and_f1",
    "answer_scores",
    "confusion",
    "correlations",
    "entity_scores",
    "entity_table",
    "f1",
    "label_table",
    "matthews",
    "matthews_and_accuracy",
    "word_accuracy",
    "word_table",
]

Labels = Sequence[str]


@dataclass(frozen=True)
class LabelRow:
    """The scores of one label.

    Attributes:
        label: A class, a tag, or a type of entity.
        precision: Share of the predictions of this label that are correct.
        recall: Share of the examples with this label that are predicted correctly.
        f1: The harmonic mean of precision and recall.
        examples: Number of examples with this label.
    """

    label: str
    precision: float
    recall: float
    f1: float
    examples: int


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix.

    Attributes:
        labels: The labels of rows and columns.
        counts: Number of examples [gold × predicted].
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


def accuracy(gold: Sequence[object], predicted: Sequence[object], *, task: str, unit: str = "examples") -> Score:
    """Return the share of labels that are predicted correctly; `unit` is the word for labelled items."""
    _check(gold, predicted)
    right = sum(label == prediction for label, prediction in zip(gold, predicted, strict=True))
    return _score(task, "accuracy", right / len(gold), len(gold), unit)


def accuracy_alone(gold: Labels, predicted: Labels, /, *, task: str) -> tuple[Score, ...]:
    """Return the accuracy as the only score of a task."""
    return (accuracy(gold, predicted, task=task),)


def word_accuracy(gold: Sequence[Labels], predicted: Sequence[Labels], /, *, task: str) -> tuple[Score, ...]:
    """Return the accuracy over the words of all sentences."""
    return (accuracy(list(chain(*gold)), list(chain(*predicted)), task=task, unit="words"),)


def f1(gold: Labels, predicted: Labels, *, task: str) -> Score:
    """Return the harmonic mean of precision and recall of the label 1."""
    _check(gold, predicted)
    right = list(zip(gold, predicted, strict=True)).count(("1", "1"))
    return _score(task, "F1", _share(2 * right, predicted.count("1") + gold.count("1")), len(gold))


def accuracy_and_f1(gold: Labels, predicted: Labels, *, task: str) -> tuple[Score, Score, Score]:
    """Return the mean of accuracy and F1, then accuracy and F1: GLUE's scores for MRPC."""
    right, harmonic = accuracy(gold, predicted, task=task), f1(gold, predicted, task=task)
    mean = (right.value + harmonic.value) / 2
    return _score(task, "mean of accuracy and F1", mean, len(gold)), right, harmonic


def answer_scores(gold: Sequence[Labels], predicted: Labels, /, *, task: str) -> tuple[Score, Score]:
    """Return the share of answers that match exactly, and the mean F1 of their words.

    Answers are compared as lists of words in lower case, without punctuation. If there are several right answers, the
    best score counts.
    """
    _check(gold, predicted)
    scores = [
        max(_compare_answers(_answer_words(right), _answer_words(answer)) for right in answers)
        for answers, answer in zip(gold, predicted, strict=True)
    ]
    exact, overlap = (sum(each) / len(scores) for each in zip(*scores, strict=True))
    return _score(task, "exact matches", exact, len(gold)), _score(task, "F1 of words", overlap, len(gold))


def matthews(gold: Labels, predicted: Labels, *, task: str) -> Score:
    """Return Matthews' correlation for two or more labels (Gorodkin, 2004): GLUE's score for CoLA."""
    _check(gold, predicted)
    counts = np.array(confusion(gold, predicted).counts, dtype=np.float64)  # [gold × predicted]
    total, right = counts.sum(), np.trace(counts)
    per_gold, per_predicted = counts.sum(axis=1), counts.sum(axis=0)
    covariance = right * total - per_gold @ per_predicted
    spread = np.sqrt(total**2 - per_predicted @ per_predicted) * np.sqrt(total**2 - per_gold @ per_gold)
    return _score(task, "Matthews correlation", float(covariance / spread) if spread > 0 else 0.0, len(gold))


def matthews_and_accuracy(gold: Labels, predicted: Labels, /, *, task: str) -> tuple[Score, ...]:
    """Return Matthews' correlation and the accuracy."""
    return matthews(gold, predicted, task=task), accuracy(gold, predicted, task=task)


def correlations(gold: Sequence[float], predicted: Sequence[float], *, task: str) -> tuple[Score, Score, Score]:
    """Return the mean of Pearson's and Spearman's correlation, then both correlations: GLUE's scores for STS-B."""
    from scipy.stats import rankdata  # slow to import, and rarely needed

    _check(gold, predicted)
    expected, found = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if not (np.isfinite(expected).all() and np.isfinite(found).all()):
        raise InputError("a correlation needs finite numbers: remove NaN and infinite values")
    # Spearman's correlation is Pearson's correlation of the ranks.
    linear, ranked = _pearson(expected, found), _pearson(rankdata(expected), rankdata(found))
    return (
        _score(task, "mean of Pearson and Spearman", (linear + ranked) / 2, len(gold)),
        _score(task, "Pearson correlation", linear, len(gold)),
        _score(task, "Spearman correlation", ranked, len(gold)),
    )


def entity_scores(gold: Sequence[Labels], predicted: Sequence[Labels], *, task: str) -> tuple[Score, Score, Score]:
    """Return micro-averaged F1, precision and recall of entities, by seqeval.

    An entity is correct if its first word, its last word and its type are correct. Tags are IOB2 (`B-PER`, `I-PER`,
    `O`). An `I-` without a preceding `B-` begins an entity, as in conlleval and published scores.

    Args:
        gold: Tags of each sentence.
        predicted: Tags of the same sentences.
        task: The name of the task.

    Raises:
        InputError: The numbers of sentences, or of tags in a sentence, differ between gold and predictions.
        MissingExtra: The package seqeval is not installed.
    """
    _check_sentences(gold, predicted)
    gold_entities, predicted_entities = _find_entities(gold), _find_entities(predicted)
    right = len(gold_entities & predicted_entities)
    total, predictions = len(gold_entities), len(predicted_entities)
    return (
        _score(task, "entity F1", _share(2 * right, predictions + total), total, "entities"),
        _score(task, "entity precision", _share(right, predictions), total, "entities"),
        _score(task, "entity recall", _share(right, total), total, "entities"),
    )


def entity_table(gold: Sequence[Labels], predicted: Sequence[Labels]) -> tuple[LabelRow, ...]:
    """Return the scores of each type of entity; arguments as for `entity_scores`."""
    _check_sentences(gold, predicted)
    gold_entities, predicted_entities = _find_entities(gold), _find_entities(predicted)
    gold_counts, predicted_counts, right = (
        Counter(type for type, *_ in entities)
        for entities in (gold_entities, predicted_entities, gold_entities & predicted_entities)
    )
    types = sorted({*gold_counts, *predicted_counts})
    return tuple(_label_row(type, right[type], predicted_counts[type], gold_counts[type]) for type in types)


def label_table(gold: Labels, predicted: Labels) -> tuple[LabelRow, ...]:
    """Return the scores of each label."""
    _check(gold, predicted)
    gold_counts, predicted_counts = Counter(gold), Counter(predicted)
    right = Counter(label for label, prediction in zip(gold, predicted, strict=True) if label == prediction)
    labels = sorted({*gold_counts, *predicted_counts})
    return tuple(_label_row(label, right[label], predicted_counts[label], gold_counts[label]) for label in labels)


def word_table(gold: Sequence[Labels], predicted: Sequence[Labels]) -> tuple[LabelRow, ...]:
    """Return the scores of each tag over the words of all sentences."""
    return label_table(list(chain(*gold)), list(chain(*predicted)))


def confusion(gold: Labels, predicted: Labels) -> Confusion:
    """Count how often each label is predicted for each gold label."""
    _check(gold, predicted)
    labels = tuple(sorted({*gold, *predicted}))
    pairs = Counter(zip(gold, predicted, strict=True))
    return Confusion(labels, tuple(tuple(pairs[label, prediction] for prediction in labels) for label in labels))


def _answer_words(answer: str) -> list[str]:
    """Return the words of an answer: single kana or Chinese characters, and runs of other letters, marks and digits."""
    # `\w` would drop combining marks, which are vowels in many scripts.
    kept = "".join(each if unicodedata.category(each)[0] in "LMN" else " " for each in answer.lower())
    return re.sub(r"([\u3040-\u9fff])", r" \1 ", kept).split()


def _compare_answers(right: list[str], predicted: list[str]) -> tuple[bool, float]:
    """Return whether two answers are the same, and the F1 of their words."""
    common = (Counter(right) & Counter(predicted)).total()
    return right == predicted, _share(2 * common, len(right) + len(predicted)) if right or predicted else 1.0


def _find_entities(sentences: Sequence[Labels]) -> set[tuple[str, int, int, int]]:
    """Return type, sentence, first word and last word of each entity that seqeval finds."""
    with importing("seqeval", "scoring names", "evaluation"):
        from seqeval.metrics.sequence_labeling import get_entities
    for tag in {tag for sentence in sentences for tag in sentence}:
        if not (tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)):
            raise InputError(f"the tag {tag!r} is not IOB2: give tags such as B-PER, I-PER and O, or score accuracy")
    return {
        (str(type), number, int(first), int(last))
        for number, sentence in enumerate(sentences)
        for type, first, last in (get_entities(list(sentence)) if sentence else ())
    }


def _label_row(label: str, right: int, predicted: int, gold: int) -> LabelRow:
    """Return the scores of a label, given the numbers of correct predictions, all predictions and gold labels."""
    return LabelRow(label, _share(right, predicted), _share(right, gold), _share(2 * right, predicted + gold), gold)


def _pearson(first: np.ndarray, second: np.ndarray) -> float:
    if not (np.ptp(first) and np.ptp(second)):  # tested here, because rounding may make a constant differ from its mean
        return 0.0
    first, second = first - first.mean(), second - second.mean()
    spread = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.clip(first @ second / spread, -1, 1)) if spread > 0 else 0.0


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _score(task: str, metric: str, value: float, examples: int, unit: str = "examples") -> Score:
    return Score(task, metric, value, higher_is_better=True, examples=examples, unit=unit)


def _check(gold: Sequence[object], predicted: Sequence[object]) -> None:
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(gold)} labels, but {len(predicted)} predictions: give one for each")
    if not gold:
        raise InputError("there is nothing to score: give at least one example")


def _check_sentences(gold: Sequence[Labels], predicted: Sequence[Labels]) -> None:
    _check(gold, predicted)
    for number, (tags, predictions) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(tags) != len(predictions):
            raise InputError(
                f"sentence {number} has {len(tags)} tags, but {len(predictions)} predictions: give one for each word"
            )
