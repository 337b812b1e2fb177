"""What is counted: accuracy, correlations, F1, and whole names; tables by label, and what was taken for what.

Where a number is undefined (a correlation with a constant, an F1 without positives) it is 0, as GLUE has it: a model
that always says the same has learnt nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from relexify.errors import InputError, MissingExtra
from relexify.scoring import Score

__all__ = [
    "Confusion",
    "LabelRow",
    "accuracy",
    "accuracy_and_f1",
    "confusion",
    "correlations",
    "entity_scores",
    "entity_table",
    "f1",
    "label_table",
    "matthews",
]

Labels = Sequence[str]


@dataclass(frozen=True)
class LabelRow:
    """How well one label was found.

    Attributes:
        label: A class, a tag, or a kind of name.
        precision: Which share of what was called so is so.
        recall: Which share of what is so was called so.
        f1: The harmonic mean of the two.
        examples: How many are so.
    """

    label: str
    precision: float
    recall: float
    f1: float
    examples: int


@dataclass(frozen=True)
class Confusion:
    """What was taken for what.

    Attributes:
        labels: Of rows and columns.
        counts: [gold × predicted], how often.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


def accuracy(gold: Labels, predicted: Labels, *, task: str) -> Score:
    """The share of labels that are right."""
    _check(gold, predicted)
    right = sum(one == other for one, other in zip(gold, predicted, strict=True))
    return _score(task, "accuracy", right / len(gold), len(gold))


def f1(gold: Labels, predicted: Labels, *, task: str, positive: str = "1") -> Score:
    """The harmonic mean of precision and recall of one label."""
    _check(gold, predicted)
    pairs = Counter(zip(gold, predicted, strict=True))
    found = pairs[positive, positive]
    called, real = predicted.count(positive), gold.count(positive)
    return _score(task, "F1", _share(2 * found, called + real), len(gold))


def accuracy_and_f1(gold: Labels, predicted: Labels, *, task: str, positive: str = "1") -> tuple[Score, Score, Score]:
    """The mean of accuracy and F1, and both of them: GLUE's numbers for MRPC."""
    both = accuracy(gold, predicted, task=task), f1(gold, predicted, task=task, positive=positive)
    mean = (both[0].value + both[1].value) / 2
    return _score(task, "mean of accuracy and F1", mean, len(gold)), *both


def matthews(gold: Labels, predicted: Labels, *, task: str) -> Score:
    """Matthews' correlation of two labels, or of more (Gorodkin, 2004): GLUE's number for CoLA."""
    _check(gold, predicted)
    counts = np.array(confusion(gold, predicted).counts, dtype=np.float64)
    total, right = counts.sum(), np.trace(counts)
    real, called = counts.sum(axis=1), counts.sum(axis=0)
    covariance = right * total - real @ called
    spread = np.sqrt(total**2 - called @ called) * np.sqrt(total**2 - real @ real)
    return _score(task, "Matthews correlation", float(covariance / spread) if spread > 0 else 0.0, len(gold))


def correlations(gold: Sequence[float], predicted: Sequence[float], *, task: str) -> tuple[Score, Score, Score]:
    """The mean of Pearson's and Spearman's correlation, and both of them: GLUE's numbers for STS-B."""
    _check(gold, predicted)
    real, called = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if not (np.isfinite(real).all() and np.isfinite(called).all()):
        raise InputError("a correlation needs finite numbers: some of those given are not")
    linear, ranked = _pearson(real, called), _pearson(rankdata(real), rankdata(called))
    return (
        _score(task, "mean of Pearson and Spearman", (linear + ranked) / 2, len(gold)),
        _score(task, "Pearson correlation", linear, len(gold)),
        _score(task, "Spearman correlation", ranked, len(gold)),
    )


def entity_scores(
    gold: Sequence[Labels], predicted: Sequence[Labels], *, task: str, strict: bool = False
) -> tuple[Score, Score, Score]:
    """Micro-averaged F1, precision and recall of whole names, by seqeval.

    A name counts where its first word, its last word and its kind are right. Tags are IOB2 (`B-PER`, `I-PER`, `O`).

    Args:
        gold: Tags of each sentence.
        predicted: As many.
        task: What was done.
        strict: Whether `I-` without a `B-` before it begins no name. By default it begins one, as conlleval and the
            published numbers have it.

    Raises:
        InputError: The two are not of the same lengths.
        MissingExtra: The package seqeval is not installed.
    """
    _check_sentences(gold, predicted)
    names, found, called, real = _entity_counts(gold, predicted, strict=strict)
    right, said, true = (sum(counts[name] for name in names) for counts in (found, called, real))
    return (
        _score(task, "entity F1", _share(2 * right, said + true), true),
        _score(task, "entity precision", _share(right, said), true),
        _score(task, "entity recall", _share(right, true), true),
    )


def entity_table(gold: Sequence[Labels], predicted: Sequence[Labels], *, strict: bool = False) -> tuple[LabelRow, ...]:
    """How well each kind of name was found; arguments as for `entity_scores`."""
    _check_sentences(gold, predicted)
    names, found, called, real = _entity_counts(gold, predicted, strict=strict)
    return tuple(_row(name, found[name], called[name], real[name]) for name in names)


def label_table(gold: Labels, predicted: Labels) -> tuple[LabelRow, ...]:
    """How well each label was found."""
    _check(gold, predicted)
    real, called = Counter(gold), Counter(predicted)
    found = Counter(one for one, other in zip(gold, predicted, strict=True) if one == other)
    return tuple(_row(label, found[label], called[label], real[label]) for label in sorted({*real, *called}))


def confusion(gold: Labels, predicted: Labels) -> Confusion:
    """How often each label was taken for each."""
    _check(gold, predicted)
    labels = tuple(sorted({*gold, *predicted}))
    pairs = Counter(zip(gold, predicted, strict=True))
    return Confusion(labels, tuple(tuple(pairs[one, other] for other in labels) for one in labels))


def _entity_counts(
    gold: Sequence[Labels], predicted: Sequence[Labels], *, strict: bool
) -> tuple[list[str], Counter[str], Counter[str], Counter[str]]:
    """Kinds of names; and of each, how many are right, were said, and are there."""
    real, called = (_entities(sentences, strict=strict) for sentences in (gold, predicted))
    names = sorted({name for name, *_ in real | called})
    counts = (Counter(name for name, *_ in entities) for entities in (real & called, called, real))
    found, said, true = counts
    return names, found, said, true


def _entities(sentences: Sequence[Labels], *, strict: bool) -> set[tuple[str, int, int, int]]:
    """Kind, sentence, first and last word of each name, as seqeval finds them."""
    try:
        from seqeval.metrics.sequence_labeling import get_entities
        from seqeval.scheme import IOB2, Entities
    except ImportError as error:
        raise MissingExtra("seqeval", "scoring names", "evaluation") from error
    for tag in {tag for sentence in sentences for tag in sentence}:
        if not (tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)):
            raise InputError(f"the tag {tag!r} is not IOB2: give tags such as B-PER, I-PER and O, or score accuracy")
    if not strict:
        return {
            (str(name), place, int(first), int(last))
            for place, sentence in enumerate(sentences)
            for name, first, last in (get_entities(list(sentence)) if sentence else ())
        }
    found = Entities([list(sentence) for sentence in sentences], IOB2)
    return {
        (str(entity.tag), place, int(entity.start), int(entity.end) - 1)
        for place, entities in enumerate(found.entities)
        for entity in entities
    }


def _row(label: str, found: int, called: int, real: int) -> LabelRow:
    return LabelRow(label, _share(found, called), _share(found, real), _share(2 * found, called + real), real)


def _pearson(first: np.ndarray, second: np.ndarray) -> float:
    first, second = first - first.mean(), second - second.mean()
    spread = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.clip(first @ second / spread, -1, 1)) if spread > 0 else 0.0


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _score(task: str, metric: str, value: float, examples: int) -> Score:
    return Score(task, metric, value, higher_is_better=True, examples=examples)


def _check(gold: Sequence[object], predicted: Sequence[object]) -> None:
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(gold)} labels and {len(predicted)} predictions: give one for each")
    if not gold:
        raise InputError("there is nothing to score: give at least one example")


def _check_sentences(gold: Sequence[Labels], predicted: Sequence[Labels]) -> None:
    _check(gold, predicted)
    for number, (one, other) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(one) != len(other):
            raise InputError(
                f"sentence {number} has {len(one)} tags and {len(other)} predictions: give one for each word"
            )
