"""How a command spells the options that messages of the library name in backticks.

`` `held_out` `` becomes `--held-out` if the command has that option, and else `--set held_out=…`. Only names of options
are replaced: any other text in backticks, which a user or another package may have written, stays as it is.
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
        parameters: The names of its parameters, such as `held_out`; all other options are given with `--set`.
    """

    parameters: frozenset[str] = frozenset()

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
        """Return `name` or `name=value` as on the command line; None if it is no option."""
        name, equals, value = option.partition("=")
        if name in self.parameters:
            return f"--{name.replace('_', '-')}" + (f" {value}" if value else "")
        # The first test is quick; the second imports the options of all systems.
        if name.replace(".", "_").isidentifier() and name in _option_keys():
            return f"--set {name}={value if equals else '…'}"
        return None


@cache
def _option_keys() -> frozenset[str]:
    """Return the keys that `--set` takes in any command, with and without the recipe table."""
    # Imported for the first message that may name an option: 0.1 s in `transfer`, 0.7 s in a verb that imports little.
    from relexify.evaluation.options import Evaluation
    from relexify.evaluation.text import TextScoring
    from relexify.recipes.file.schema import TOP
    from relexify.recipes.file.settings import list_options

    keys = {_ANY_KEY, *TOP, *(entry.name for options in (Evaluation, TextScoring) for entry in fields(options))}
    for table, known in list_options().items():
        keys.update(each for key in known for each in (key.name, f"{table}.{key.name}"))
    return frozenset(keys)
