"""How a command spells the options that messages of the library name in backticks.

`` `held_out` `` becomes `--held-out` if the command has that option, or `--set held_out=…` if its `--set` takes that
key. Any other text in backticks stays as it is: a user or another package may have written it, or it is a key that
`--set` of this command does not take, such as `length` in `relexify run`, where tables of the recipe have it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache

__all__ = ["OptionNames"]

_ANY_KEY = "KEY"
"""What messages call a key that the user chooses."""


@dataclass(frozen=True)
class OptionNames:
    """The options of a command.

    Attributes:
        parameters: The names of its parameters, such as `held_out`.
        table: The recipe table whose keys `--set` takes, as `apply_settings` does; empty if it takes those of a whole
            recipe, such as `training.steps`; None if the command has no `--set`, or has not applied it yet.
    """

    parameters: frozenset[str] = frozenset()
    table: str | None = None

    def spell(self, message: str) -> str:
        """Return a message with its options spelled as on the command line."""
        spelled, rest = "", message
        while "`" in rest:
            before, _, rest = rest.partition("`")
            name, end, after = rest.partition("`")
            flag = self._flag(name) if end else None
            if flag is None:  # the next backtick may open a name
                spelled += f"{before}`"
            else:
                spelled, rest = f"{spelled}{before}{flag}", after
        return spelled + rest

    def _flag(self, option: str) -> str | None:
        """Return `name` or `name=value` as on the command line; None if the command has no such option."""
        name, equals, value = option.partition("=")
        if name in self.parameters:
            return f"--{name.replace('_', '-')}" + (f" {value}" if value else "")
        # The first tests are quick; the last one imports the options of all systems.
        if self.table is not None and name.replace(".", "_").isidentifier() and name in _settable_keys(self.table):
            return f"--set {name}={value if equals else '…'}"
        return None


@cache
def _settable_keys(table: str) -> frozenset[str]:
    """Return the keys that `--set` takes in a command, see `OptionNames.table`."""
    # Imported for the first message that may name an option: 0.1 s in `transfer`, 0.7 s in a verb that imports little.
    from relexify.evaluation.options import Evaluation
    from relexify.evaluation.text import TextScoring
    from relexify.recipes.file.schema import TOP
    from relexify.recipes.file.settings import list_options

    if table == "":
        tables = list_options().items()
        return frozenset({_ANY_KEY, *TOP, *(f"{name}.{key.name}" for name, keys in tables for key in keys)})
    if table in ("tasks", "evaluate"):
        names = {entry.name for entry in fields(Evaluation if table == "tasks" else TextScoring)}
    else:
        step, _, nested = table.partition(".")
        prefix = f"{nested}." if nested else ""
        known = (key.name for key in list_options(step)[step])
        names = {name.removeprefix(prefix) for name in known if name.startswith(prefix)}
    return frozenset({_ANY_KEY, *names, *(f"{table}.{name}" for name in names)})
