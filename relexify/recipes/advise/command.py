"""The command that transfers a model as the best run of an advice did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relexify.recipes.advise.run import Advice
from relexify.recipes.writing import table_of
from relexify.reports.transfer_command import OPTIONS, as_settings
from relexify.systems.transfer.checks import with_method

__all__ = ["transfer_command"]


def transfer_command(advice: Advice) -> list[str]:
    """Return the arguments of the command that transfers the model with the best method.

    They give every option that is not the default, and the unigram prior, which all trials have.
    """
    transfer = replace(with_method(advice.options.transfer, advice.best), unigram_prior=True)
    changed = table_of(transfer)
    command = ["relexify", "transfer", transfer.model, f"{Path(transfer.model).name}-{advice.best}"]
    for name in OPTIONS:
        # The texts belong to no table of a recipe; paths are those that were given, not absolute ones.
        given = getattr(transfer, name)
        if given is None or (name not in changed and name not in ("corpus", "held_out")):
            continue
        for value in given if isinstance(given, list | tuple) else (given,):
            command += [f"--{name.replace('_', '-')}", str(value)]
    if transfer.keep_source:
        command.append("--keep-source")
    others = {name: value for name, value in changed.items() if name not in (*OPTIONS, "keep_source", "method")}
    for setting in as_settings(others):
        command += ["--set", setting]
    return [*command, "--method", advice.best]
