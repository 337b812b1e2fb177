"""The commands that usually follow a transfer or a training, for the terminal and for reports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relexify.text import TextInput
from relexify.training.curve import Curve
from relexify.training.plan import Training
from relexify.training.result import selected_step
from relexify.training.summary import judge_training

__all__ = ["after_training", "after_transfer", "repeated_option"]

_SHORT = ["--steps", "20", "--batch", "8", "--length", "128"]
"""A training that takes minutes on a CPU, where the default takes days."""


def after_transfer(
    model: Path,
    corpus: TextInput | None,
    held_out: TextInput | None,
    *,
    is_poor: bool,
    longest: int | None,
    source_corpus: TextInput | None = None,
    on_cpu: bool = False,
) -> tuple[str, list[str]]:
    """Return what to do after a transfer, and the commands for it, ready to be pasted.

    Args:
        model: The folder of the transferred model.
        corpus: Its text, as the command line or a recipe names it.
        held_out: Its held-out text, likewise; None if it is a part of the corpus.
        is_poor: Whether the evidence has to be repaired before it is worth training.
        longest: Tokens of the longest sequence that the model can read, if there is a limit.
        source_corpus: Text in the source language, if the model is to keep it.
        on_cpu: Whether the next command is to run on a CPU.
    """
    inspecting = shlex.join(["relexify", "inspect", str(model)])
    if is_poor:
        return "Next, inspect some tokens, repair the evidence, and transfer it again:", [inspecting]
    trained = model.with_name(f"{model.name}-trained")
    texts = [*repeated_option("--corpus", corpus), *repeated_option("--held-out", held_out)]
    texts += repeated_option("--source-corpus", source_corpus)
    training, short = ["relexify", "train", str(model), str(trained), *texts], _SHORT
    if longest is not None and longest < Training.length:  # which the model cannot read on any device
        training, short = [*training, "--length", str(longest)], _SHORT[:-2]
    if on_cpu:
        title = f"Next, inspect some tokens, or try a short training; on a GPU, leave out {' '.join(short)}:"
        return title, [inspecting, shlex.join([*training, *short])]
    return "Next, inspect some tokens, or train it:", [inspecting, shlex.join(training)]


def after_training(model: Path, notes: Mapping[str, Any], curve: Curve | None) -> tuple[str, list[str]]:
    """Return what to do with a trained model, as far as its notes tell, and the commands for it.

    Args:
        model: Its folder.
        notes: Its `relexify.json`.
        curve: The scores of its training, if it was trained.
    """
    since, training = notes.get("trained_from"), notes.get("training")
    made = (notes.get("provenance") or {}).get("command", {})
    outcome = judge_training(curve, selected_step(notes, curve)).outcome if curve else None
    if curve and since and training and made.get("corpus") and outcome == "improving" and not training.get("stages"):
        steps = str(4 * curve.last.step)
        texts = [*repeated_option("--corpus", made["corpus"]), *repeated_option("--held-out", made.get("held_out"))]
        sizes = ["--steps", steps, "--batch", str(training["batch"]), "--length", str(training["length"])]
        longer = shlex.join(["relexify", "train", since, f"{model}-{steps}", *texts, *sizes])
        title = "Next, train it for longer. This is the text of the transfer; if the training had another, give that:"
        return title, [longer]
    checking = shlex.join(["relexify", "check", str(model)])
    if since is None:
        return "Next, check that it is intact:", [checking]
    moved = shlex.join(["relexify", "inspect", str(model), "--since", since])
    return "Next, check that it is intact, and see what training has changed:", [checking, moved]


def repeated_option(name: str, given: object) -> list[str]:
    """Return the arguments that give an option one value or several; none for None."""
    values = given if isinstance(given, list | tuple) else [given]
    return [part for value in values if value is not None for part in (name, str(value))]
