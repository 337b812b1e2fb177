"""Read json from files that others may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["parse_json", "read_json"]


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
