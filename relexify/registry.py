"""Registries: named entries that modules add themselves.

A package that others extend (methods, tasks, kinds of models, tables of a recipe) has one `Registry`. A module adds an
entry when it is imported, and the registry imports the packages that it was told to search at the first lookup, so
adding something means adding one file:

    METHODS: Registry[Method] = Registry("method")
    METHODS.search("relexify.methods")

    METHODS.add("mean", Method(...))          # in relexify/methods/mean.py
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from typing import TypeVar

from relexify.errors import InputError

__all__ = ["Registry", "choose", "suggestion"]

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry]):
    """Entries by name, in the order in which they are listed."""

    def __init__(self, kind: str):
        """Create an empty registry; `kind` says in messages what an entry is, such as `"method"`."""
        self.kind = kind
        self._entries: dict[str, Entry] = {}
        self._unsearched: list[str] = []

    def add(self, name: str, entry: Entry) -> Entry:
        """Add an entry.

        Raises:
            ValueError: There is one of the same name.
        """
        if name in self._entries:
            raise ValueError(f"there are two entries for the {self.kind} {name!r}")
        self._entries[name] = entry
        return entry

    def search(self, *modules: str) -> None:
        """Import these modules, and every module directly below those that are packages, at the first lookup."""
        self._unsearched.extend(modules)

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
        while self._unsearched:
            name = self._unsearched.pop(0)
            module = import_module(name)
            for info in pkgutil.iter_modules(getattr(module, "__path__", ())):
                import_module(f"{name}.{info.name}")


def choose(name: str, known: Collection[str], kind: str) -> str:
    """Return a name that a user gave, if it is known.

    Raises:
        InputError: It is not; the message suggests the closest one.
    """
    if name in known:
        return name
    raise InputError(f"there is no {kind} {name!r}: {suggestion(name, known)}")


def suggestion(name: str, known: Collection[str]) -> str:
    """Return what to write in place of an unknown name, as the end of a message."""
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(known)}"
