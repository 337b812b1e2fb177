"""Names in a recipe: paths relative to where they were written, with `~` and `$NAME` expanded, and the way back.

A path in a recipe is relative to the folder of the file; a path in an override, which the user typed, to the current
folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from relexify.pretrained.files.packaged import PACKAGED
from relexify.recipes.file.mistakes import InvalidValue, UnsetVariable
from relexify.text.remote import is_hub_data_set, is_url

__all__ = [
    "OverrideText",
    "absolute_model",
    "absolute_path",
    "absolute_text",
    "written_model",
    "written_path",
    "written_text",
]

_VARIABLE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})")


class OverrideText(str):
    """Text that an override gave in place of the file's."""

    __slots__ = ()


def absolute_path(text: str, folder: Path) -> str:
    """Return the absolute path that a text in a recipe names.

    Args:
        text: As it was written.
        folder: The folder of the recipe.

    Raises:
        UnsetVariable: It names a variable that is not set.
        InvalidValue: It is empty or impossible, or names a user that does not exist.
    """
    if not text.strip():
        raise InvalidValue("is empty: give a path, or leave it out")
    if "\0" in text:
        raise InvalidValue(f"is {text[:80]!r}, and a path cannot contain the character NUL: remove it")

    def value_of(found: re.Match[str]) -> str:
        name = found[2] or found[3]
        if name and not os.environ.get(name):
            raise UnsetVariable(name, text)
        return os.environ[name] if name else "$"

    path = os.path.expanduser(_VARIABLE.sub(value_of, text))
    if path.startswith("~"):
        raise InvalidValue(
            f"is {text[:80]!r}, but there is no such user: write the path, or ./~ for a file of that name"
        )
    return os.path.abspath((Path.cwd() if isinstance(text, OverrideText) else folder) / path)


def absolute_text(text: str, folder: Path) -> str:
    """Return the name of a text as `Corpus.open` takes it: data sets of the Hub and URLs as they are, else a path."""
    return str(text) if _is_remote(text) else absolute_path(text, folder)


def absolute_model(text: str, folder: Path) -> str:
    """Return a model: a path if it looks like one or is one beside the recipe, else the name as it is.

    The name of a packaged model is never a path, as on the command line.
    """
    if text in PACKAGED:
        return str(text)
    base = Path.cwd() if isinstance(text, OverrideText) else folder
    is_path = text.startswith((".", "/", "~", "$")) or not text.strip() or os.path.exists(base / text)
    return absolute_path(text, folder) if is_path else str(text)


def written_path(path: str | Path) -> str:
    """Return what `absolute_path` reads as this path, wherever the recipe is."""
    return os.path.abspath(path).replace("$", "$$")


def written_text(name: str | Path) -> str:
    """Return what `absolute_text` reads as this name."""
    return name if isinstance(name, str) and _is_remote(name) else written_path(name)


def written_model(name: str) -> str:
    """Return what `absolute_model` reads as this model."""
    return written_path(name) if name.startswith(("/", ".")) else name


def _is_remote(text: str) -> bool:
    return is_hub_data_set(text) or is_url(text)
