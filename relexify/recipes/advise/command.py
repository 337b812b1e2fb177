"""The command that transfers a model as the best run of an advice did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from relexify.recipes.advise.run import Advice
from relexify.recipes.writing import table_of
from relexify.systems.transfer.checks import with_method

__all__ = ["transfer_command"]

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
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def transfer_command(advice: Advice) -> list[str]:
    """Return the arguments of the command that transfers the model with the best method.

    They give every option that is not the default, and the unigram prior, which all trials have.
    """
    transfer = replace(with_method(advice.options.transfer, advice.best), unigram_prior=True)
    changed = table_of(transfer)
    command = ["relexify", "transfer", transfer.model, f"{Path(transfer.model).name}-{advice.best}"]
    for name in _OPTIONS:
        # The texts belong to no table of a recipe; paths are those that were given, not absolute ones.
        given = getattr(transfer, name)
        if given is None or (name not in changed and name not in ("corpus", "held_out")):
            continue
        for value in given if isinstance(given, list | tuple) else (given,):
            command += [f"--{name.replace('_', '-')}", str(value)]
    if transfer.keep_source:
        command.append("--keep-source")
    others = {name: value for name, value in changed.items() if name not in (*_OPTIONS, "keep_source", "method")}
    for setting in _settings(others):
        command += ["--set", setting]
    return [*command, "--method", advice.best]


def _settings(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the values of a table as `--set` takes them."""
    for name, value in table.items():
        key = prefix + (name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False))
        if isinstance(value, Mapping):
            yield from _settings(value, f"{key}.")
        else:
            yield f"{key}={json.dumps(value, ensure_ascii=False)}"
