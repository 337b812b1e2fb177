"""Validate that an output does not replace an input of a command."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from relexify.errors import OutputError

__all__ = ["check_inputs"]


def check_inputs(output: str | Path, *inputs: object, texts: Sequence[object] = ()) -> None:
    """Validate that an output does not replace an input of a command, and would not be read as its text the next time.

    Args:
        output: The file or folder to write.
        inputs: Paths, names and patterns as commands accept them, lists of these, or opened texts; None and names that
            do not exist on this machine are skipped.
        texts: Further inputs. If one is a folder or a pattern, the output must not be among the files that it reads.

    Raises:
        OutputError: The output is an input, is a folder that contains an input, or would be read as text.
    """
    output = Path(output)
    for path in _paths_of((inputs, texts)):
        for name in {path.absolute(), path.resolve()}:
            if output.exists() and any(parent.exists() and parent.samefile(output) for parent in (name, *name.parents)):
                raise OutputError(
                    f"{output} is, or contains, the input {path}, which would be replaced: choose another output"
                )
    for text in _names_of(texts):
        if _may_match_in(text, output):
            raise OutputError(
                f"files in {output} would be read as text of {text} next time: choose another output, or other text"
            )


def _paths_of(given: object) -> Iterator[Path]:
    """Yield the existing paths among inputs, the matches of patterns, and the folders that patterns begin with."""
    for name in _names_of(given):
        if os.path.exists(name):
            yield Path(name)
        elif start := re.match(r"[^*?\[{]*(?=[*?\[{])", name):  # a pattern
            yield from map(Path, filter(os.path.isfile, glob.glob(name, recursive=True)))
            yield Path(os.path.dirname(start[0]))


def _names_of(given: object) -> Iterator[str]:
    """Yield the names and patterns in inputs, without the fields of corpora."""
    if isinstance(given, str | Path):
        name = os.path.expanduser(given)
        if not os.path.exists(name) and "#" in name:  # FILE#FIELD of a corpus
            name = name.rpartition("#")[0]
        yield name
    elif isinstance(given, list | tuple):
        for each in given:
            yield from _names_of(each)
    elif is_dataclass(given):  # an opened text: only `Path` values are files, because strings may be the text itself
        for entry in fields(given):
            value = getattr(given, entry.name)
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Path) or is_dataclass(each):
                    yield from _names_of(each)


def _may_match_in(text: str, folder: Path) -> bool:
    """Whether a text is a folder or a pattern that may match files in another folder, independent of their names."""
    if os.path.isdir(text):
        pattern = Path(glob.escape(os.path.realpath(text)), "**", "*")
    elif glob.has_magic(text):
        pattern = Path(text).resolve()
    else:
        return False
    parts, given = pattern.parts, folder.resolve().parts
    fixed = parts.index("**") if "**" in parts else len(parts)
    # The names of files in a new folder are unknown, so only wildcards can match them; `texts/*/train.txt` does not
    # read from texts/new.
    rest = parts[min(fixed, len(given)) :]
    return bool(rest) and all(map(glob.has_magic, rest)) and all(map(fnmatchcase, given, parts[:fixed]))
