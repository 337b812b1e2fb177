"""The commands that usually follow a transfer or a training, for the terminal and for reports."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from relexify.device import has_cuda
from relexify.methods.registry import METHODS
from relexify.pretrained.kinds import kind_of_folder, read_config_file
from relexify.reports.transfer_command import option_name, repeated_option, transfer_arguments
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

_SHORT, _SHORT_LENGTH = ["--steps", "20", "--batch", "8"], ["--length", "128"]
"""A training that takes minutes on a CPU, where the default takes days."""
_TEXTS_OF_TARGET = ("corpus", "held_out")
_TEXTS = (*_TEXTS_OF_TARGET, "source_corpus", "source_held_out")
_OPTIONS = ("steps", "batch", "length", "learning_rate", "plan", "patience", "seed")
"""Keys of a training that have options of their own; all others are given with `--set`."""


class NextStep(NamedTuple):
    """What to do next.

    Attributes:
        title: A sentence, which ends with a colon if commands follow it.
        commands: The commands for it, ready to be pasted.
    """

    title: str
    commands: list[str]


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
            NextStep(f"Next, use {command['model']} as it is.", []),
            _train(folder, command["model"], f"{model}-trained", command),
            NextStep("Or remove the tokens that the text does not have:", [shlex.join(pruning)]),
        ]
    if verdict is not None and verdict.start == "poor":
        repair = _transfer_again(model, command, verdict.changes)
        # A repaired transfer comes first: a model that was found to be a poor start is not worth days of training.
        training = []
        if repair.commands:  # only these write the folder that is trained
            title, commands = _train(folder, f"{model}-2", f"{model}-2-trained", command)
            training = [NextStep(f"Then {title[:1].lower()}{title[1:]}", commands)]
        return [repair, *training, NextStep("To see what its tokens are made from:", [inspecting])]
    steps = [NextStep("Next, inspect some tokens:", [inspecting])]
    if verdict is not None and verdict.start == "open" and "model" in command:
        trying = _try_methods(model, command, _length_below(folder, ADVICE_LENGTH))
        # The advice has runs without the dictionary too: the verdict may be open because of it.
        without = ", with and without the dictionary" if command.get("dictionary") else ""
        steps.append(NextStep(f"See in short trainings which method learns faster{without}:", [trying]))
    return [*steps, _train(folder, str(model), f"{model}-trained", command)]


def after_failed_check(folder: Path, notes: Notes) -> list[NextStep]:
    """Return what to do about a folder that is broken, by its `relexify.json`."""
    command = recorded_command(notes)
    broken = f"{folder} is broken: restore an intact copy, or"
    if "training" in notes or "model" not in command:
        return [NextStep(f"{broken} write it again, with --overwrite and the command that wrote it.", [])]
    words = ["relexify", "transfer", command["model"], str(folder), *transfer_arguments(command), "--overwrite"]
    return [NextStep(f"{broken} write it again:", [shlex.join(words)])]


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
        folder: Its folder, if another path leads to it.
        curve: The scores of its training, if it was trained.
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
        return [NextStep("Next, train it on text in the language of the transfer.", [])]
    if curve and (others := _train_otherwise(model, folder or model, notes, curve, again, can_measure=not languages)):
        return others
    if languages:
        exporting = ["relexify", "export", str(model), languages[-1], f"{model}-{languages[-1]}"]
        return [NextStep("Next, write its target language as a model of its own:", [shlex.join(exporting)])]
    if held_out:
        scoring = ["relexify", "evaluate", str(model), *repeated_option("--held-out", held_out)]
        return [NextStep("Next, score it on all of the held-out text:", [shlex.join(scoring)])]
    checking = NextStep("Next, check that it is intact:", [shlex.join(["relexify", "check", str(model)])])
    if since is None or has_new_head:
        return [checking]
    moved = shlex.join(["relexify", "inspect", str(model), "--since", since])
    return [checking, NextStep("See what training has changed:", [moved])]


def _train(folder: Path, model: str, output: str, command: Mapping[str, Any]) -> NextStep:
    """Return the first training of a model on the text of a transfer; on a CPU a short one.

    Args:
        folder: The folder of the transferred model, whose inner parameters say how long sequences may be.
        model: The model to train: that one, another transfer, or the source model.
        output: The folder of the trained model.
        command: The options of the transfer.
    """
    longest = _length_below(folder, Training.length)
    training = ["relexify", "train", model, output]
    for text in _TEXTS if command.get("keep_source") else _TEXTS_OF_TARGET:
        training += repeated_option(option_name(text), command.get(text))
    short = [*_SHORT, *_SHORT_LENGTH]
    if longest is not None:  # the model cannot read the default, on any device
        training += ["--length", str(longest)]
        short = _SHORT
    if has_cuda():  # training uses CUDA or a CPU, on whichever device the transfer ran
        return NextStep("Train it:", [shlex.join(training)])
    title = f"Try a short training; on a GPU, leave out {' '.join(short)}:"
    return NextStep(title, [shlex.join([*training, *short])])


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
    advice = "Next, repair what was found before you transfer it again"
    # With any other vocabulary than a trained one, the same command would give the same result.
    if not changes or ("vocab_size" in changes and not recorded_choice(command).is_trained):
        return NextStep(f"{advice}.", [])
    if "vocab_size" in changes:
        advice = "Next, transfer it with a larger vocabulary"
    elif "dictionary" in changes:
        advice, changes = "Next, repair the dictionary, or transfer without it", {**changes, "dictionary_swapped": None}
    elif "method" in changes:
        advice = f"Next, repair the evidence, or transfer it with the method {changes['method']}"
    if "model" not in command:
        return NextStep(f"{advice}.", [])
    words = ["relexify", "transfer", command["model"], f"{model}-2", *transfer_arguments({**command, **changes})]
    return NextStep(f"{advice}:", [shlex.join(words)])


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


def _is_short(notes: Notes, curve: Curve) -> bool:
    """Whether a training was too short to be judged, and did not have stages of its own."""
    training = notes.get("training") or {}
    outcome = judge_training(curve, selected_step(notes, curve), new_text_steps=new_text_steps(notes)).outcome
    return outcome == "short" and not training.get("stages")


def _train_by_default(
    model: Path, folder: Path, again: Callable[..., str], again_from: str, *, can_measure: bool
) -> list[NextStep]:
    """Return how to train a model with the default sizes, after a training that was too short to be judged.

    A multiple of a tiny training is a tiny training.

    Args:
        model: Its folder, as the commands name it.
        folder: Its folder.
        again: As for `after_training`.
        again_from: What that training starts from, as the end of a sentence.
        can_measure: Whether `relexify estimate` can measure a training of this model.
    """
    on_cpu = "" if has_cuda() else "; these are made for a GPU"
    if kind_of_folder(folder) is not None:  # it cannot be measured, and how long a sequence it reads is not known here
        training = [again(f"{model}-{Training.steps}", steps=Training.steps, batch=Training.batch)]
        return [NextStep(f"Next, train it with the default steps and batch, {again_from}{on_cpu}:", training)]
    length = _length_below(folder, Training.length) or Training.length
    sizes = {"steps": Training.steps, "batch": Training.batch, "length": length}
    measuring = ["relexify", "estimate", str(model), *(["--length", str(length)] if length < Training.length else [])]
    training = [again(f"{model}-{Training.steps}", **sizes)]
    sizes_of = "the default steps, batch and length"
    if not can_measure:
        return [NextStep(f"Next, train it with {sizes_of}, {again_from}{on_cpu}:", training)]
    return [
        NextStep("Next, see how long the default training takes here:", [shlex.join([*measuring, "--measure"])]),
        NextStep(f"Train it with {sizes_of}, {again_from}{on_cpu}:", training),
    ]


def _train_otherwise(
    model: Path, folder: Path, notes: Notes, curve: Curve, again: Callable[..., str] | None, *, can_measure: bool
) -> list[NextStep]:
    """Return how to train longer, shorter or more slowly; nothing if the verdict calls for none of these."""
    command = (notes.get("training") or {}).get("command") or {}
    if _is_short(notes, curve) and (again or command.get("corpus")):
        again_from = "from the start"
        if again is None:
            again_from, again = "further", partial(_train_again, str(model), command, add_head=False)
        return _train_by_default(model, folder, again, again_from, can_measure=can_measure)
    other = _train_longer_or_shorter(model, notes, curve, again)
    return [other] if other else []


def _train_longer_or_shorter(
    model: Path, notes: Notes, curve: Curve, again: Callable[..., str] | None
) -> NextStep | None:
    """Return how to repeat a training with one option changed; None if the verdict does not call for that."""
    training = notes.get("training") or {}
    outcome = judge_training(curve, selected_step(notes, curve), new_text_steps=new_text_steps(notes)).outcome
    if again is None:
        # What the training started from, or its text, is not known: it cannot be repeated.
        is_longer_better = outcome in ("improving", "short")
        return _train_further(model, training.get("command") or {}, curve) if is_longer_better else None
    if outcome in ("worse", "unstable") and training["learning_rate"] and not training["stages"]:
        rate = f"{training['learning_rate'] / 4:.1e}"
        return NextStep("Next, train it with a lower learning rate:", [again(f"{model}-slower", learning_rate=rate)])
    if outcome not in ("improving", "short", "overfitted"):
        return None
    advice, steps = "train it for longer", 4 * curve.last.step
    if outcome == "overfitted":
        advice, steps = "train it on more text, or for fewer steps", curve.target.best.step
    if training["stages"]:
        return NextStep(f"Next, {advice}: change the steps of its stages.", [])
    if any(step >= steps for step in training["snapshots"]):
        return NextStep(f"Next, {advice}: leave out the snapshots from step {steps:,} on.", [])
    if outcome != "overfitted":
        advice += ", from the start"
        if training.get("schedule") in DECAYING:
            advice += ", because the learning rate falls until the last step"
    return NextStep(f"Next, {advice}:", [again(f"{model}-{steps}", steps=steps)])


def _train_further(model: Path, command: Mapping[str, Any], curve: Curve) -> NextStep:
    """Return how to train a model again, starting from itself; without a command, if its texts are not known."""
    steps = 4 * curve.last.step
    if not command.get("corpus"):
        return NextStep("Next, train it further.", [])
    again = _train_again(str(model), command, f"{model}-{steps}", add_head=False, steps=steps)
    return NextStep("Next, train it further:", [again])


def _train_again(model: str, command: Mapping[str, Any], output: str, *, add_head: bool, **changes: object) -> str:
    """Return a `relexify train` with the texts and options of an earlier one, some of them changed."""
    words = ["relexify", "train", model, output, *(["--add-head"] if add_head else [])]
    for key in _TEXTS:
        words += repeated_option(option_name(key), command.get(key))
    for key, value in {**command["options"], **changes}.items():
        if key in changes and value == getattr(Training, key):
            continue  # the default
        if key in _OPTIONS:
            words += [option_name(key), str(value)]
        else:
            words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join(words)
