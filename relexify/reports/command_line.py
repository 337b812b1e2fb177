"""Commands as they are typed: the options of each verb, by the keys of recipes, and values for `--set`.

The options of a verb are listed here and nowhere else; a test compares them with the command line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from relexify.pretrained.files.packaged import PACKAGED
from relexify.systems.transfer.options import Transfer, command_of

__all__ = [
    "ADVISE_OPTIONS",
    "ESTIMATE_OPTIONS",
    "TARGET_TEXTS",
    "TEXTS",
    "TRAIN_OPTIONS",
    "TRANSFER_OPTIONS",
    "as_settings",
    "option_arguments",
    "option_name",
    "repeated_option",
    "source_title",
    "train_command",
    "transfer_arguments",
]

TRANSFER_OPTIONS = (
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
"""Keys of a transfer with an option of their own that takes a value, without `method`; others need `--set`."""
ADVISE_OPTIONS = tuple(key for key in TRANSFER_OPTIONS if key != "added_tokens")
"""The same for an advice."""
TRAIN_OPTIONS = ("steps", "batch", "length", "learning_rate", "plan", "patience", "seed")
"""The same for a training, without its texts."""
ESTIMATE_OPTIONS = ("steps", "batch", "length", "plan")
"""The same for the estimate of a training."""
TARGET_TEXTS = ("corpus", "held_out")
TEXTS = (*TARGET_TEXTS, "source_corpus", "source_held_out")
"""Texts of a training, in the target language alone and in both."""

_ELSEWHERE = ("model", "output", "device", "overwrite")
"""Keys of a transfer that its arguments do not repeat."""
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
    changed |= changed.pop("options", {})  # a recipe has the method's own options next to the others
    method, options, flags = changed.pop("method", Transfer.method), ADVISE_OPTIONS, []
    if not as_advice:
        options = TRANSFER_OPTIONS
        flags = ["--keep-source"] if changed.pop("keep_source", False) else []
        if not flags:
            changed.pop("added_tokens", None)  # it has no effect
        flags += ["--method", method]
    named = {key: changed.pop(key) for key in options if key in changed}
    return [*option_arguments(named, options), *flags, *option_arguments(changed, options)]


def train_command(
    model: str, output: str, texts: Mapping[str, Any], options: Mapping[str, Any], *, add_head: bool = False
) -> list[str]:
    """Return a `relexify train` as words.

    Args:
        model: The model to train.
        output: The folder to write.
        texts: Its texts, by their key (`TEXTS`).
        options: Its options, by their key.
        add_head: Whether a language-modelling head is added to the model.
    """
    words = ["relexify", "train", model, output, *(["--add-head"] if add_head else [])]
    return [*words, *option_arguments(texts, TEXTS), *option_arguments(options, TRAIN_OPTIONS)]


def option_arguments(values: Mapping[str, Any], options: Collection[str]) -> list[str]:
    """Return arguments that give a command some values by their keys, in their order.

    Args:
        values: The values; None is left out.
        options: The keys with an option of their own; others are given with `--set`.
    """
    words = []
    for key, value in values.items():
        if key in options:
            words += repeated_option(option_name(key), value)
        elif value is not None:
            words += repeated_option("--set", list(as_settings({key: value})))
    return words


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
