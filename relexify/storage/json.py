"""Read json files that may be damaged or written by others."""

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
"""The exceptions that reading a result may raise if its file was damaged or edited."""

logger = logging.getLogger(__name__)


def parse_json(text: str | bytes) -> Any:
    """Return the content of a json text.

    Raises:
        ValueError: The text is not json, or nests too many lists or objects.
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
    """Return a result that an earlier run wrote as json; None if it is missing, or corrupt (with a warning).

    Args:
        path: The file.
        parse: Converts the content of the file to the result; raises one of `UNREADABLE` if this fails.
        otherwise: What happens without the result, for the warning.
    """
    if not path.exists():
        return None
    try:
        return parse(parse_json(path.read_text(encoding="utf-8")))
    except UNREADABLE as error:
        logger.warning("%s is corrupt; %s (%r)", path, otherwise, error)
        return None
