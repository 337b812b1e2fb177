"""A labelled text or pair of texts, and what every reader of them checks."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.text.decoding import read_blocks
from relexify.tokens import make_encodable

__all__ = ["NO_AGREEMENT", "Example", "check_label", "example_of", "found_examples", "label_of", "numbered_lines"]

NO_AGREEMENT = "-"
"""What SNLI and MNLI write where the annotators did not agree."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Example:
    """A text, or a pair of texts, with what is to be said of it.

    Attributes:
        first: The text, or the premise.
        second: The hypothesis, or the other sentence of a pair.
        label: A class by its name, or a number where a number is to be predicted.
    """

    first: str
    second: str | None
    label: str | float


def label_of(value: Any, labels: Sequence[str] | None, place: str, *, numeric: bool) -> str | float:
    """A class by its name, or a number.

    Raises:
        InputError: It is neither, or none of those that are expected; `place` says where it stood.
    """
    if numeric:
        return _number(value, place)
    if not isinstance(value, str | int):
        raise InputError(f"{place} has the label {value!r}: give the name or the number of a class")
    label = str(value)
    check_label(label, labels, place)
    return label


def check_label(label: str, labels: Sequence[str] | None, place: str) -> None:
    """Refuse a label that is empty, or none of those that are expected.

    Raises:
        InputError: It is one of those; `place` says where it stood.
    """
    if not label or label.isspace():
        raise InputError(f"{place} has no label: correct the line, or leave it out")
    if labels is not None and label not in labels:
        raise InputError(f"{place} has the unknown label {label!r}: give one of {', '.join(labels)}")


def example_of(first: str, second: str | None, label: str | float, place: str) -> Example:
    """An example of texts that every tokenizer takes.

    Raises:
        InputError: There is no text; `place` says where it should have stood.
    """
    if not (first.strip() or (second or "").strip()):
        raise InputError(f"{place} holds no text: correct the line, or leave it out")
    return Example(make_encodable(first)[0], None if second is None else make_encodable(second)[0], label)


def found_examples(examples: list[Example], skipped: int, source: str | Path) -> list[Example]:
    """The examples, where there are any; those that were left out for want of a label are told of.

    Raises:
        InputError: There are none.
    """
    if not examples:
        reason = f"all {skipped} examples of {source} are without a label" if skipped else f"{source} is empty"
        raise InputError(f"{reason}: give a file with labelled examples")
    if skipped:
        logger.warning(
            "%d of %d examples of %s have no label and are left out", skipped, skipped + len(examples), source
        )
    return examples


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, plain or compressed, with their numbers from 1 on."""
    return enumerate(chain.from_iterable(read_blocks(path.expanduser())), start=1)


def _number(value: Any, place: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{place} has {value!r} where a number is expected: correct the line, or leave it out")
    return number
