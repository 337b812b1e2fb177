"""The command that transfers a model as the best run of an advice did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relexify.recipes.advise.run import Advice
from relexify.recipes.writing import table_of
from relexify.reports.transfer_command import OPTIONS, as_settings, option_name, repeated_option
from relexify.systems.transfer.options import with_method

__all__ = ["transfer_command"]


def transfer_command(advice: Advice) -> list[str]:
    """Return the arguments of the command that transfers the model with the best method.

    They give every option that is not the default, and the unigram prior, which all trials have.
    """
    transfer = replace(with_method(advice.options.transfer, advice.best), unigram_prior=True)
    changed = table_of(transfer)
    if not transfer.keep_source:
        changed.pop("added_tokens", None)  # the size of the extension that an advice compares with
    command = ["relexify", "transfer", transfer.model, f"{Path(transfer.model).name}-{advice.best}"]
    for name in OPTIONS:
        # The texts are not in a table of a recipe, and its paths are absolute: take both as they were given.
        if name in changed or name in ("corpus", "held_out"):
            command += repeated_option(option_name(name), getattr(transfer, name))
    if transfer.keep_source:
        command.append("--keep-source")
    others = {name: value for name, value in changed.items() if name not in (*OPTIONS, "keep_source", "method")}
    command += repeated_option("--set", list(as_settings(others)))
    return [*command, "--method", advice.best]
