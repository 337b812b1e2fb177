"""Registries: named entries that modules add themselves.

A package that others extend (methods, tasks, kinds of models, tables of a recipe) has one `Registry`. A module adds an
entry when it is imported. The modules to import are declared once, in `relexify/__init__.py`, and imported at the first
lookup, so adding something means adding one file:

    METHODS: Registry[Method] = Registry("method")

    METHODS.add("mean", Method(...))                  # in relexify/methods/mean.py
"""

from __future__ import annotations

import difflib
import pkgutil
import re
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TypeVar

from relexify.errors import InputError, one_of

__all__ = ["Registry", "choose", "search_in", "suggestion"]

FEW_NAMES = 24
"""Names that a message lists; of more, it has those that share a word with an unknown one."""
FEW_SIMILAR = 3
"""Names with the same word that a message lists."""

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry]):
    """Entries by name, in the order in which they are listed."""

    def __init__(self, kind: str) -> None:
        """Create an empty registry; `kind` says in messages what an entry is, such as `"method"`."""
        self.kind = kind
        self._entries: dict[str, Entry] = {}
        self._imported: set[str] = set()

    def add(self, name: str, entry: Entry) -> Entry:
        """Add an entry.

        Raises:
            ValueError: There is one of the same name.
        """
        if name in self._entries:
            raise ValueError(f"there are two entries for the {self.kind} {name!r}")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> Entry:
        """Return an entry.

        Raises:
            KeyError: There is none of this name.
        """
        self._load()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._entries)

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def get_or_raise(self, name: str) -> Entry:
        """Return an entry that a user named.

        Raises:
            InputError: There is none of this name; the message suggests the closest one.
        """
        return self[choose(name, self, self.kind)]

    def _load(self) -> None:
        for pattern in _SEARCHED.get(self.kind, ()):
            if pattern not in self._imported:
                self._imported.add(pattern)
                for name in _modules(pattern):
                    import_module(name)


_SEARCHED: dict[str, list[str]] = {}
"""Modules that add entries, by the kind of the registry."""


def search_in(kind: str, *modules: str) -> None:
    """Declare which modules add entries to the registry of a kind; they are imported at its first lookup.

    Args:
        kind: The kind of the registry, such as `"method"`.
        modules: Names of modules. Of a package, every module directly below it is imported; `a.*.b` is the module `b`
            of every package in `a` that has one.
    """
    _SEARCHED.setdefault(kind, []).extend(modules)


def _modules(pattern: str) -> Iterator[str]:
    """Yield the names of the modules that a pattern of `search_in` stands for."""
    package, star, name = pattern.partition(".*.")
    if star:
        for info in pkgutil.iter_modules(import_module(package).__path__):
            if info.ispkg and find_spec(f"{package}.{info.name}.{name}") is not None:
                yield f"{package}.{info.name}.{name}"
        return
    yield pattern
    for info in pkgutil.iter_modules(getattr(import_module(pattern), "__path__", ())):
        yield f"{pattern}.{info.name}"


def choose(name: str, known: Collection[str], kind: str) -> str:
    """Return a name that a user gave, if it is known.

    Raises:
        InputError: It is not; the message suggests the closest one.
    """
    if name in known:
        return name
    raise InputError(f"there is no {kind} {name!r}: {suggestion(name, known)}")


def suggestion(name: str, known: Collection[str], *, listed_by: str = "") -> str:
    """Return what to write in place of an unknown name, as the end of a message.

    Args:
        name: The name.
        known: What it may be.
        listed_by: The command that lists all of them, which a message does if they are few.
    """
    close = difflib.get_close_matches(name.lower(), known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    if not listed_by or len(known) <= FEW_NAMES:
        return f"choose {one_of(known)}"
    words = set(_WORD.findall(name.lower()))
    alike = [other for other in known if words & set(_WORD.findall(other.lower()))]
    beginning = f"similar: {', '.join(alike[:FEW_SIMILAR])}; " if alike else ""
    return f"{beginning}{listed_by} lists all {len(known)}"


_WORD = re.compile(r"[^\W_]{3,}")
"""A word in a name, such as `rate` in `learning_rate`; shorter ones say little."""
