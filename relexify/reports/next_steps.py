"""The commands that usually follow a transfer, for the terminal and for reports."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

__all__ = ["after_transfer", "repeated_option"]


def after_transfer(model: Path, corpus: Any, held_out: Any, *, is_poor: bool) -> tuple[str, list[str]]:
    """Return what to do after a transfer, and the commands for it, ready to be pasted.

    Args:
        model: The folder of the transferred model.
        corpus: Its text, as the command line or a recipe names it.
        held_out: Its held-out text, likewise; None if it is a part of the corpus.
        is_poor: Whether the evidence has to be repaired before it is worth training.
    """
    inspecting = shlex.join(["relexify", "inspect", str(model)])
    if is_poor:
        return "Next, inspect some tokens, repair the evidence, and transfer it again:", [inspecting]
    trained = model.with_name(f"{model.name}-trained")
    texts = [*repeated_option("--corpus", corpus), *repeated_option("--held-out", held_out)]
    training = shlex.join(["relexify", "train", str(model), str(trained), *texts])
    return "Next, inspect some tokens, or train it:", [inspecting, training]


def repeated_option(name: str, given: Any) -> list[str]:
    """Return the arguments that give an option one value or several; none for None."""
    values = given if isinstance(given, list | tuple) else [given]
    return [part for value in values if value is not None for part in (name, str(value))]
