"""The exceptions that relexify raises.

    RelexifyError
    ├── InputError        a file, folder or argument is not what it should be
    ├── EvidenceError     the input is readable, but not sufficient
    ├── VocabularyError   a tokenizer lacks a token or does not fit its model
    ├── GraftError        a model cannot take the target embeddings
    ├── TrainingError     training cannot continue
    ├── OutputError       a result cannot be written
    └── MissingExtra      an optional package is needed

Every message says what was found, where, and what to do. Messages, warnings and summaries of the library name an option
by its key in backticks, never by its flag: `held_out` or `score=false`, which the command line prints as `--held-out`
or `--set score=false` (`relexify/cli/option_names.py`). Verdicts on a transfer name the flags, because reports show
them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = [
    "LARGEST_SEED",
    "EvidenceError",
    "GraftError",
    "InputError",
    "MissingExtra",
    "OutputError",
    "RelexifyError",
    "TrainingError",
    "VocabularyError",
    "check_choice",
    "check_choices",
    "check_number",
    "check_positive",
    "choices_of",
    "first_line",
    "importing",
    "is_panic",
    "one_of",
]

LARGEST_SEED = 2**32 - 1
"""The largest seed that numpy and transformers take."""


class RelexifyError(Exception):
    """The base class: catch this to catch all of them."""


class InputError(RelexifyError):
    """A file, folder or argument is not what it should be."""


class EvidenceError(RelexifyError):
    """The input is readable, but not sufficient."""


class VocabularyError(RelexifyError):
    """A tokenizer lacks a token, or does not fit its model."""


class GraftError(RelexifyError):
    """A model cannot take the target embeddings."""


class TrainingError(RelexifyError):
    """Training cannot continue."""


class OutputError(RelexifyError):
    """A result cannot be written."""


class MissingExtra(RelexifyError):
    """An optional package is needed.

    Args:
        package: The package to import.
        purpose: What it is needed for, as a noun phrase ("reading .zst corpora").
        extra: The extra of relexify that installs it.
    """

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install 'relexify[{extra}]'")


@contextmanager
def importing(package: str, purpose: str, extra: str) -> Iterator[None]:
    """Import an optional package inside; arguments as for `MissingExtra`, which is raised if it is not installed."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(package, purpose, extra) from error


def check_number(name: str, value: float | None, least: int = 1, most: int = 2**31 - 1, *, before: str = "") -> None:
    """Validate the value of an option, if it is given.

    Args:
        name: The option, for the message.
        value: Its value.
        least: The smallest value that makes sense.
        most: The largest: for more, libraries overflow, or allocate memory and abort.
        before: Words of the message before the option, with a space at the end.

    Raises:
        InputError: It is out of range.
    """
    if value is not None and not value >= least:
        raise InputError(f"{before}`{name}={value}` is not possible: give {least} or more")
    if value is not None and value > most:
        raise InputError(f"{before}`{name}={value}` is not possible: give {most} or less")


def check_positive(name: str, value: float | None, most: float = float("inf"), *, before: str = "") -> None:
    """Validate the value of an option, if it is given, which must be a finite number above 0.

    Args:
        name: The option, for the message.
        value: Its value.
        most: The largest value that makes sense, such as 1 for a learning rate.
        before: As for `check_number`.

    Raises:
        InputError: It is out of range.
    """
    if value is not None and not (0 < value <= most and value < float("inf")):
        limit = "" if most == float("inf") else f", and at most {most:g}"
        raise InputError(f"{before}`{name}={value}` is not possible: give a number above 0{limit}")


def one_of(choices: Collection[str]) -> str:
    """Return the values that an option may have, for a message: `a or b`, `one of a, b, c`."""
    return " or ".join(choices) if len(choices) <= 2 else f"one of {', '.join(choices)}"


def check_choice(kind: str, value: str, choices: Collection[str]) -> None:
    """Validate the value of an option that has a few possible values; `kind` says what it chooses.

    Raises:
        InputError: It is none of them.
    """
    if value not in choices:
        raise InputError(f"there is no {kind} {value!r}: choose {one_of(choices)}")


def check_choices(options: object, *, before: str = "") -> None:
    """Validate all fields of a dataclass whose type is a `Literal`, which Python does not do itself.

    Args:
        options: The dataclass.
        before: What comes before the name of a field in messages, such as `aligning.`.

    Raises:
        InputError: A field has none of the values of its type.
    """
    for name, annotation in get_type_hints(type(options)).items():
        choices, value = choices_of(annotation), getattr(options, name)
        if choices and value is not None and value not in choices:
            raise InputError(f"`{before}{name}={value}` is not possible: choose {one_of(choices)}")


def choices_of(annotation: Any) -> tuple[str, ...]:
    """Return the values of a `Literal`, also if the annotation allows None; nothing for other types."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    members = [choices_of(member) for member in get_args(annotation) if get_origin(member) is Literal]
    is_optional = get_origin(annotation) in (Union, UnionType)
    return members[0] if is_optional and members else ()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, to quote it in another one; its class if it has no message.

    A line that ends in a colon is followed by the next one. Backticks, which mark options of relexify in messages,
    become quotes.
    """
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    if isinstance(error, KeyError):
        return f"there is no {lines[0]}"
    heading = lines[0].rstrip()
    text = f"{heading} {lines[1].strip()}" if heading.endswith(":") and len(lines) > 1 else heading
    return text.replace("`", "'")


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic in Rust, such as in tokenizers, which is no subclass of `Exception`."""
    return type(error).__name__ == "PanicException"
