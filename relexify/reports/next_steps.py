"""The commands that usually follow a transfer or a training, for the terminal and for reports."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from relexify.device import has_cuda
from relexify.methods.registry import METHODS
from relexify.pretrained.kinds import kind_of_folder, read_config_file
from relexify.reports.command_line import (
    ESTIMATE_OPTIONS,
    TARGET_TEXTS,
    TEXTS,
    option_arguments,
    repeated_option,
    train_command,
    transfer_arguments,
)
from relexify.storage.notes import Notes, recorded_command
from relexify.systems.transfer.assessment.verdict import verdict_of
from relexify.systems.transfer.defaults import ADVICE_LENGTH, ADVICE_STEPS
from relexify.systems.transfer.other_text import describe_other_text
from relexify.systems.transfer.tokenizer.choice import recorded_choice
from relexify.text import TextOption
from relexify.training.options import DECAYING, Training
from relexify.training.results.curve import Curve
from relexify.training.results.result import new_text_steps, selected_step
from relexify.training.results.summary import judge_training

__all__ = ["NextStep", "after_failed_check", "after_training", "after_transfer"]

_SHORT_STEPS, _SHORT_BATCH, _SHORT_LENGTH = 20, 8, 128
"""A training that takes minutes on a CPU, where the default takes days."""


@dataclass(frozen=True)
class NextStep:
    """What to do next.

    Attributes:
        action: What to do, such as `train it`, to be completed to a sentence.
        commands: The commands for it, ready to be pasted.
        remark: What to know about the commands; it follows the action.
        link: How the action is linked to the one before: `then`, `or`, or not at all.
    """

    action: str
    commands: Sequence[str] = ()
    remark: str = ""
    link: str = ""

    def sentence(self, opening: str = "") -> str:
        """Return the action as a sentence, which ends with a colon if commands follow it.

        Args:
            opening: What the sentence begins with, such as `Next,`.
        """
        words = " ".join(filter(None, (opening, self.link, self.action)))
        remark = f"; {self.remark}" if self.remark else ""
        return f"{words[:1].upper()}{words[1:]}{remark}{':' if self.commands else '.'}"


def after_transfer(
    folder: Path,
    notes: Notes,
    *,
    name: Path | None = None,
    corpus: TextOption | None = None,
    held_out: TextOption | None = None,
) -> list[NextStep]:
    """Return what to do after a transfer.

    Args:
        folder: The folder of the transferred model.
        notes: Its `relexify.json`. The commands have the texts of the transfer, and fit this machine.
        name: How the commands name the folder, if not by its path.
        corpus: Its text, if not as the notes name it.
        held_out: Its held-out text, if not as the notes name it.
    """
    model, command = name or folder, dict(recorded_command(notes))
    command |= {key: text for key, text in (("corpus", corpus), ("held_out", held_out)) if text is not None}
    inspecting = shlex.join(["relexify", "inspect", str(model)])
    verdict = verdict_of(notes)
    if verdict is not None and not verdict.is_needed and "model" in command:
        pruning = ["relexify", "prune", command["model"], f"{model}-pruned"]
        pruning += repeated_option("--corpus", command.get("corpus"))
        return [
            NextStep(f"use {command['model']} without a transfer"),
            _train_first(folder, command["model"], f"{model}-trained", command),
            NextStep("remove the tokens that the text does not have", [shlex.join(pruning)], link="or"),
        ]
    if verdict is not None and verdict.start == "poor":
        repair = _transfer_again(model, command, verdict.changes)
        # A repaired transfer comes first: a model that was found to be a poor start is not worth days of training.
        training = []
        if repair.commands:  # only these write the folder that is trained
            training = [replace(_train_first(folder, f"{model}-2", f"{model}-2-trained", command), link="then")]
        return [repair, *training, NextStep("see what its tokens are made from", [inspecting])]
    steps = [NextStep("inspect some tokens", [inspecting])]
    if verdict is not None and verdict.start == "open" and "model" in command:
        trying = _try_methods(model, command, _length_below(folder, ADVICE_LENGTH))
        # The advice has runs without the dictionary too: the verdict may be open because of it.
        without = ", with and without the dictionary" if command.get("dictionary") else ""
        steps.append(NextStep(f"see in short trainings which method learns faster{without}", [trying]))
    return [*steps, _train_first(folder, str(model), f"{model}-trained", command)]


def after_failed_check(folder: Path, notes: Notes) -> list[NextStep]:
    """Return what to do about a folder that is broken, by its `relexify.json`."""
    command = recorded_command(notes)
    repair = f"restore an intact copy of {folder}, or write it again"
    if "training" in notes or "model" not in command:
        return [NextStep(f"{repair}, with --overwrite and the command that wrote it")]
    words = ["relexify", "transfer", command["model"], str(folder), *transfer_arguments(command), "--overwrite"]
    return [NextStep(repair, [shlex.join(words)])]


def after_training(
    model: Path,
    notes: Notes,
    curve: Curve | None,
    *,
    folder: Path | None = None,
    again: Callable[..., str] | None = None,
    held_out: TextOption | None = None,
    languages: Sequence[str] = (),
) -> list[NextStep]:
    """Return what to do with a model after its training.

    Args:
        model: Its folder, as the commands name it.
        notes: Its `relexify.json`.
        curve: The scores of its training, if it was trained.
        folder: Its folder, if another path leads to it.
        again: Takes another output, and other values for some keys of the training, and returns the command that
            repeats it with these. If None, it is made from the notes, if they have it.
        held_out: Text to score on, if the notes have none.
        languages: The languages of the model, if it has several; the last one is the target language.
    """
    since, command = notes.get("trained_from"), (notes.get("training") or {}).get("command") or {}
    has_new_head = since is not None and notes.get("head_added_to") == since
    if again is None and since and command:
        again = partial(_train_again, since, command, add_head=has_new_head)
    held_out = held_out or command.get("held_out")
    if curve and describe_other_text(notes, curve):
        return [NextStep("train it on text in the language of the transfer")]
    if curve and (others := _train_otherwise(model, folder or model, notes, curve, again, can_measure=not languages)):
        return others
    if languages:
        exporting = ["relexify", "export", str(model), languages[-1], f"{model}-{languages[-1]}"]
        return [NextStep("write its target language as a model of its own", [shlex.join(exporting)])]
    if held_out:
        scoring = ["relexify", "evaluate", str(model), *repeated_option("--held-out", held_out)]
        return [NextStep("score it on all of the held-out text", [shlex.join(scoring)])]
    checking = NextStep("check that it is intact", [shlex.join(["relexify", "check", str(model)])])
    if since is None or has_new_head:
        return [checking]
    moved = shlex.join(["relexify", "inspect", str(model), "--since", since])
    return [checking, NextStep("see what training has changed", [moved])]


def _train_first(folder: Path, model: str, output: str, command: Mapping[str, Any]) -> NextStep:
    """Return the first training of a model on the text of a transfer; on a CPU a short one.

    Args:
        folder: The folder of the transferred model, whose inner parameters limit the length of sequences.
        model: The model to train: the transferred model, a repaired transfer, or the source model.
        output: The folder of the trained model.
        command: The options of the transfer.
    """
    longest = _length_below(folder, Training.length)
    # A model that cannot read sequences of the default length needs shorter ones on any device.
    needed = {} if longest is None else {"length": longest}
    short = {"steps": _SHORT_STEPS, "batch": _SHORT_BATCH} | ({"length": _SHORT_LENGTH} if longest is None else {})
    texts = {key: command.get(key) for key in (TEXTS if command.get("keep_source") else TARGET_TEXTS)}
    if has_cuda():  # training uses CUDA or a CPU, on whichever device the transfer ran
        return NextStep("train it", [shlex.join(train_command(model, output, texts, needed))])
    training = train_command(model, output, texts, needed | short)
    left_out = " ".join(option_arguments(short, short))
    return NextStep("try a short training", [shlex.join(training)], f"on a GPU, leave out {left_out}")


def _length_below(folder: Path, length: int) -> int | None:
    """Return the length of the longest sequence that a model can read if it is below a number, else None."""
    config = read_config_file(folder)
    positions = config.get("max_position_embeddings") or config.get("n_positions")
    # Some models count positions from their padding id on. Most are so long that this makes no difference.
    if positions and positions - (config.get("pad_token_id") or 0) > length:
        return None
    from relexify.pretrained.architecture import usable_length
    from relexify.pretrained.loading import meta_model

    longest = usable_length(meta_model(folder))
    return longest if longest is not None and longest < length else None


def _transfer_again(model: Path, command: Mapping[str, Any], changes: Mapping[str, str | None]) -> NextStep:
    """Return how to repair a transfer, and the command that repeats it with some options changed, to another folder."""
    # With any other vocabulary than a trained one, the same command would give the same result.
    if not changes or ("vocab_size" in changes and not recorded_choice(command).is_trained):
        return NextStep("repair what was found before you transfer it again")
    if "vocab_size" in changes:
        action = "transfer it with a larger vocabulary"
    elif "dictionary" in changes:
        action, changes = "repair the dictionary, or transfer without it", {**changes, "dictionary_swapped": None}
    else:
        action = f"repair the evidence, or transfer it with the method {changes['method']}"
    if "model" not in command:
        return NextStep(action)
    words = ["relexify", "transfer", command["model"], f"{model}-2", *transfer_arguments({**command, **changes})]
    return NextStep(action, [shlex.join(words)])


def _try_methods(model: Path, command: Mapping[str, Any], longest: int | None) -> str:
    """Return the command that compares the method of a transfer with a few others in short trainings."""
    methods, own = ["blend", "fvt"], str(command.get("method", "blend"))
    # Methods with a vocabulary of their own, or that train themselves, take longer than the others.
    if own not in methods and METHODS[own].train_tokenizer is None and not METHODS[own].takes("model"):
        methods = [own, *methods]
    words = ["relexify", "advise", command["model"], *transfer_arguments(command, as_advice=True)]
    words += repeated_option("--method", methods)
    if longest is not None:
        # More steps, so that no fewer tokens are seen: an advice after fewer of them is not reliable.
        words += ["--length", str(longest), "--steps", str(-(-ADVICE_STEPS * ADVICE_LENGTH // longest))]
    return shlex.join([*words, "--output", f"{model}-advice"])


def _train_otherwise(
    model: Path, folder: Path, notes: Notes, curve: Curve, again: Callable[..., str] | None, *, can_measure: bool
) -> list[NextStep]:
    """Return how to train longer, shorter or more slowly; nothing if the verdict calls for none of these.

    Args:
        model: The folder of the model, as the commands name it.
        folder: Its folder.
        notes: Its `relexify.json`.
        curve: The scores of its training.
        again: Repeats the training, as for `after_training`; None if its start or its texts are not known.
        can_measure: Whether `relexify estimate` can measure a training of this model.
    """
    training = notes.get("training") or {}
    command = training.get("command") or {}
    outcome = judge_training(curve, selected_step(notes, curve), new_text_steps=new_text_steps(notes)).outcome
    # From the model itself, if the training cannot be repeated.
    further = partial(_train_again, str(model), command, add_head=False) if command.get("corpus") else None
    possible, start = (further, "further") if again is None else (again, "from the start")
    if outcome == "short" and not training.get("stages") and possible is not None:
        return _train_by_default(model, folder, possible, start, can_measure=can_measure)
    if again is not None:
        return _repeat_training(model, training, curve, outcome, again)
    if outcome not in ("improving", "short"):
        return []
    steps = 4 * curve.last.step
    return [NextStep("train it further", [further(f"{model}-{steps}", steps=steps)] if further else [])]


def _train_by_default(
    model: Path, folder: Path, again: Callable[..., str], start: str, *, can_measure: bool
) -> list[NextStep]:
    """Return how to train a model with the default sizes, after a training that was too short to be judged.

    A multiple of a tiny training is a tiny training.

    Args:
        model: Its folder, as the commands name it.
        folder: Its folder.
        again: As for `after_training`.
        start: What that training starts from, as the end of a sentence.
        can_measure: Whether `relexify estimate` can measure a training of this model.
    """
    output, remark = f"{model}-{Training.steps}", "" if has_cuda() else "these are made for a GPU"
    if kind_of_folder(folder) is not None:  # it cannot be measured, and the length of its sequences is not known here
        training = again(output, steps=Training.steps, batch=Training.batch)
        return [NextStep(f"train it with the default steps and batch, {start}", [training], remark)]
    length = _length_below(folder, Training.length) or Training.length
    training = again(output, steps=Training.steps, batch=Training.batch, length=length)
    training_step = NextStep(f"train it with the default steps, batch and length, {start}", [training], remark)
    if not can_measure:
        return [training_step]
    changed = {"length": length} if length < Training.length else {}
    measuring = ["relexify", "estimate", str(model), *option_arguments(changed, ESTIMATE_OPTIONS), "--measure"]
    return [NextStep("see how long the default training takes here", [shlex.join(measuring)]), training_step]


def _repeat_training(
    model: Path, training: Mapping[str, Any], curve: Curve, outcome: str, again: Callable[..., str]
) -> list[NextStep]:
    """Return how to repeat a training with one option changed; nothing if the verdict does not call for that."""
    if outcome in ("worse", "unstable") and training["learning_rate"] and not training["stages"]:
        rate = f"{training['learning_rate'] / 4:.1e}"
        return [NextStep("train it with a lower learning rate", [again(f"{model}-slower", learning_rate=rate)])]
    if outcome not in ("improving", "short", "overfitted"):
        return []
    action, steps = "train it for longer", 4 * curve.last.step
    if outcome == "overfitted":
        action, steps = "train it on more text, or for fewer steps", curve.target.best.step
    if training["stages"]:
        return [NextStep(f"{action}: change the steps of its stages")]
    if any(step >= steps for step in training["snapshots"]):
        return [NextStep(f"{action}: leave out the snapshots from step {steps:,} on")]
    if outcome != "overfitted":
        action += ", from the start"
        if training.get("schedule") in DECAYING:
            action += ", because the learning rate falls until the last step"
    return [NextStep(action, [again(f"{model}-{steps}", steps=steps)])]


def _train_again(model: str, command: Mapping[str, Any], output: str, *, add_head: bool, **changes: object) -> str:
    """Return a `relexify train` with the texts and options of an earlier one, some of them changed."""
    texts = {key: command.get(key) for key in TEXTS}
    is_default = {key for key, value in changes.items() if value == getattr(Training, key)}
    options = {key: value for key, value in {**command["options"], **changes}.items() if key not in is_default}
    return shlex.join(train_command(model, output, texts, options, add_head=add_head))
