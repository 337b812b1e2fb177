"""Read json from files that others may have written, or damaged."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from relexify.errors import InputError

__all__ = ["UNREADABLE", "parse_json", "read_json", "read_result"]

Result = TypeVar("Result")

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, InputError)
"""What reading a result raises if its file was damaged or edited: other json, other keys, or values of other types."""

logger = logging.getLogger(__name__)


def parse_json(text: str | bytes) -> Any:
    """Return the content of a json text.

    Raises:
        ValueError: It is not json, or nests too many lists or objects.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it nests too many lists or objects") from error


def read_json(path: Path) -> Any:
    """Return the content of a json file; None if it cannot be read."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def read_result(path: Path, parse: Callable[[Any], Result], *, otherwise: str) -> Result | None:
    """Return a result that an earlier run wrote as json; None if there is none, or with a warning if it is corrupt.

    Args:
        path: The file.
        parse: Makes the result of the content of the file; raises one of `UNREADABLE` if it cannot.
        otherwise: What is done without the result, for the warning.
    """
    if not path.exists():
        return None
    try:
        return parse(parse_json(path.read_text(encoding="utf-8")))
    except UNREADABLE as error:
        logger.warning("%s is corrupt; %s (%r)", path, otherwise, error)
        return None
