"""Paths of a recipe: relative to where they were written, with `~` and `$NAME` expanded."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from relexify.errors import InputError

__all__ = ["Place", "absolute_path", "corpus_name", "model_name", "written_corpus", "written_model", "written_path"]

_VARIABLE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})")


@dataclass(frozen=True)
class Place:
    """Where a value stands in a recipe, for messages and for relative paths.

    Attributes:
        file: The recipe.
        key: The keys that lead to the value, with dots between them; empty at the top.
        overridden: The keys whose values were given in place of the file's.
    """

    file: Path
    key: str = ""
    overridden: frozenset[str] = frozenset()

    def below(self, key: str) -> Place:
        """The place of a key of this table."""
        return replace(self, key=f"{self.key}.{key}" if self.key else key)

    def at(self, index: int) -> Place:
        """The place of an item of this list."""
        return replace(self, key=f"{self.key}[{index}]")

    @property
    def is_overridden(self) -> bool:
        """Whether the value was given in place of the file's."""
        return any(self.key == key or self.key.startswith((f"{key}.", f"{key}[")) for key in self.overridden)

    @property
    def origin(self) -> str:
        """Where the value was written, for people."""
        return f"the overrides of {self.file}" if self.is_overridden else str(self.file)

    @property
    def folder(self) -> Path:
        """The folder that relative paths start from."""
        return Path.cwd() if self.is_overridden else Path(os.path.abspath(self.file)).parent

    def __str__(self) -> str:
        return f"{self.origin}: {self.key}" if self.key else self.origin


def absolute_path(text: str, place: Place) -> Path:
    """The path that a text of the recipe stands for.

    Raises:
        InputError: It is empty, or names a variable that is not set.
    """
    if not text.strip():
        raise InputError(f"{place} is empty: give a path, or leave it out")

    def value_of(found: re.Match[str]) -> str:
        name = found[2] or found[3]
        if name and not os.environ.get(name):
            raise InputError(f"{place} is {text!r}, but the variable {name} is not set: set it, or write the path")
        return os.environ[name] if name else "$"

    return Path(os.path.abspath(place.folder / os.path.expanduser(_VARIABLE.sub(value_of, text))))


def corpus_name(text: str, place: Place) -> str:
    """A corpus as `Corpus.open` takes it: data sets of the Hub stay as they are, all else is a path or a pattern."""
    return text if text.startswith("hf:") else str(absolute_path(text, place))


def model_name(text: str, place: Place) -> str:
    """A model or a tokenizer: what looks like a path, or is one beside the recipe, becomes one; else it is a name."""
    is_path = text.startswith((".", "/", "~", "$")) or not text.strip() or (place.folder / text).exists()
    return str(absolute_path(text, place)) if is_path else text


def written_path(path: str | Path) -> str:
    """What `absolute_path` takes for this path, wherever the recipe lies."""
    return os.path.abspath(path).replace("$", "$$")


def written_corpus(name: str | Path) -> str:
    """What `corpus_name` takes for this corpus."""
    return name if isinstance(name, str) and name.startswith("hf:") else written_path(name)


def written_model(name: str) -> str:
    """What `model_name` takes for this model."""
    return written_path(name) if name.startswith(("/", ".")) else name
