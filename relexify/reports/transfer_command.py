"""The arguments of a transfer as the command line takes them, and its model, from its options in `relexify.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from relexify.pretrained.files.packaged import PACKAGED
from relexify.systems.transfer.options import Transfer, command_of

__all__ = ["as_settings", "option_name", "repeated_option", "source_title", "transfer_arguments"]

_OPTIONS = (
    "corpus",
    "held_out",
    "tokenizer",
    "dictionary",
    "bitext",
    "source_corpus",
    "source_vectors",
    "target_vectors",
    "donor",
    "vocab_size",
    "added_tokens",
    "seed",
)
"""Fields of a transfer with an option of their own; others are given with `--set`."""
_ELSEWHERE = ("model", "output", "device", "overwrite")
"""Fields that are not part of the arguments."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def source_title(command: Mapping[str, Any]) -> str:
    """Return the name of the model that a command started from."""
    model = str(command.get("model", ""))
    return PACKAGED[model].title if model in PACKAGED else Path(model).name


def transfer_arguments(command: Mapping[str, Any], *, as_advice: bool = False) -> list[str]:
    """Return the arguments that give a transfer the text, the method, and all options that are not the default.

    Args:
        command: The options of the transfer, as `command_of` returns them and `relexify.json` has them.
        as_advice: Return them for `relexify advise`, which chooses the method, and has no option for some of them.
    """
    changed = _changed(command, command_of(Transfer(command["model"], Path(), "")))
    changed |= changed.pop("options", {})  # a recipe has the method's own options beside the others
    method, options, flags = changed.pop("method", Transfer.method), list(_OPTIONS), []
    if as_advice:
        options.remove("added_tokens")
    else:
        flags = ["--keep-source"] if changed.pop("keep_source", False) else []
        if not flags:
            changed.pop("added_tokens", None)  # it has no effect
        flags += ["--method", method]
    words = [part for name in options for part in repeated_option(option_name(name), changed.pop(name, None))]
    return [*words, *flags, *repeated_option("--set", list(as_settings(changed)))]


def option_name(key: str) -> str:
    """Return the option of the command line for a key of a recipe."""
    return f"--{key.replace('_', '-')}"


def repeated_option(name: str, given: object) -> list[str]:
    """Return the arguments that give an option one value or several; none for None."""
    values = given if isinstance(given, list | tuple) else [given]
    return [part for value in values if value is not None for part in (name, str(value))]


def as_settings(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the values of a table as `--set` takes them."""
    for name, value in table.items():
        key = prefix + (name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False))
        if isinstance(value, Mapping):
            yield from as_settings(value, f"{key}.")
        else:
            yield f"{key}={json.dumps(value, ensure_ascii=False)}"


def _changed(given: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the usual ones, also in nested tables; None cannot be given."""
    changed: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or name in _ELSEWHERE or value == usual.get(name):
            continue
        nested = isinstance(value, Mapping) and isinstance(usual.get(name), Mapping)
        changed[name] = _changed(value, usual[name]) if nested else value
    return changed
