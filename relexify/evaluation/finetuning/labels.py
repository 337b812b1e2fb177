"""Collect the labels of the training data, and validate all data with them, for each kind of prediction.

Each function takes the parts of the data by their purpose ("training", "test", …). It returns the labels in the order
of the logits, and the default: the tag of words that the model does not see; empty if words are not tagged.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from relexify.errors import InputError
from relexify.evaluation.data.answers import Passage
from relexify.evaluation.data.choices import Question
from relexify.evaluation.data.columns import TaggedSentence
from relexify.evaluation.data.examples import Example

__all__ = ["Data", "Labels", "answer_labels", "choice_labels", "class_labels", "number_labels", "tag_labels"]

Data = Sequence[Example] | Sequence[Question] | Sequence[Passage] | Sequence[TaggedSentence]
Labels = tuple[tuple[str, ...], str]
"""Labels, and the default."""

_OUTSIDE = "O"

logger = logging.getLogger(__name__)


def class_labels(parts: Mapping[str, Data]) -> Labels:
    """Return the classes of the training data.

    Raises:
        InputError: There is only one class, other data has an unknown class, or pairs and single texts are mixed.
    """
    counts, labels = _count_labels(parts)
    _check_pairs(parts)
    for part, unknown in _unknown_labels(counts, labels):
        raise InputError(
            f"the {part} data has the label {', '.join(map(repr, unknown[:5]))}, which the training data never has "
            f"(it has {', '.join(labels[:10])}): give training and {part} data with the same labels"
        )
    return labels, ""


def tag_labels(parts: Mapping[str, Data]) -> Labels:
    """Return the tags of the training data; the default is O or, if there is no O, the most frequent tag.

    Raises:
        InputError: There is only one tag, or a part of the data has no words.
    """
    counts, labels = _count_labels(parts)
    for part, unknown in _unknown_labels(counts, labels):  # rare tags are often missing from a small training set
        logger.warning(
            "%d words of the %s data have tags that the training data never has (%s): they count as wrong",
            sum(counts[part][tag] for tag in unknown),
            part,
            ", ".join(unknown[:5]),
        )
    frequent = max(labels, key=lambda label: counts["training"][label])
    return labels, _OUTSIDE if _OUTSIDE in labels else frequent


def number_labels(parts: Mapping[str, Data]) -> Labels:
    """Return the name of the only logit.

    Raises:
        InputError: A label is not a number, or pairs and single texts are mixed.
    """
    _check_numbers(parts)
    _check_pairs(parts)
    return ("number",), ""


def choice_labels(parts: Mapping[str, Data]) -> Labels:
    """Return the positions of the answers, for the maximum number of answers of a question."""
    most = max(len(each.options) for data in parts.values() for each in data if isinstance(each, Question))
    return tuple(map(str, range(most))), ""


def answer_labels(parts: Mapping[str, Data]) -> Labels:
    """Return the two ends of an answer in a text."""
    return ("start", "end"), ""


def _count_labels(parts: Mapping[str, Data]) -> tuple[dict[str, Counter[str]], tuple[str, ...]]:
    """Count the labels of each part, and also return the sorted labels of the training data.

    Raises:
        InputError: A part has no labels, or all training data has the same label.
    """
    counts = {part: Counter(_iterate_labels(examples)) for part, examples in parts.items()}
    for part, found in counts.items():
        if not found:
            raise InputError(f"the {part} data has only sentences without words: give sentences with words")
    labels = tuple(sorted(counts["training"]))
    if len(labels) < 2:
        raise InputError(f"all training data has the label {labels[0]!r}, so nothing can be learned: give other data")
    return counts, labels


def _unknown_labels(counts: Mapping[str, Counter[str]], labels: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield every part of the data with labels that the training data never has, and these labels."""
    for part, found in counts.items():
        if unknown := sorted(found.keys() - set(labels)):
            yield part, unknown


def _iterate_labels(data: Data) -> Iterator[str]:
    """Yield the tags of all words, or the classes of all examples."""
    for each in data:
        if isinstance(each, TaggedSentence):
            yield from each.tags
        elif isinstance(each, Example):
            if not isinstance(each.label, str):
                raise InputError(
                    f"{each.label} is a number, but the task takes classes: give names of classes, or another task"
                )
            yield each.label


def _check_numbers(parts: Mapping[str, Data]) -> None:
    for part, data in parts.items():
        for each in data:
            if isinstance(each, Example) and not (isinstance(each.label, int | float) and math.isfinite(each.label)):
                raise InputError(
                    f"the {part} data has the label {each.label!r}, but the task takes numbers: give numbers as labels"
                )


def _check_pairs(parts: Mapping[str, Data]) -> None:
    kinds = {each.second is not None for data in parts.values() for each in data if isinstance(each, Example)}
    if len(kinds) > 1:
        raise InputError("some examples are pairs of texts and some are single texts: give only pairs, or only texts")
