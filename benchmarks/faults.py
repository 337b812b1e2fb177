"""Interrupt every verb at random moments, fill its disk, and run it twice at once: does the result survive?

    python -m benchmarks.faults                              # all verbs, 3 trials of each fault
    python -m benchmarks.faults --trials 50 --verb train --fault KILL

Every command runs on tiny models, in a fork of this process, so that nothing is spent on imports. A trial survives if

- an interrupted command leaves no output, or a complete one;
- an error is one sentence with exit status 2;
- the same command, run again, ends with status 0 and the same bits as a run that nothing happened to;
- nothing is left beside the output.

The disk is full when a file grows beyond a random size. Two processes have the same output and the same cache; so have
two hosts, which are processes that do not see each other's process ids (PID namespaces, which need root). Prints a
table of survived / tried, and exits with status 1 if any trial did not survive.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import torch

import relexify.cli.app
from tests import pico

SIZE = 330
TRAINING = ("--steps", 6, "--batch", 4, "--length", 16, "--set", "save_every=2", "--set", "evaluate_every=3")
VECTORS = ("--width", 16, "--set", "minimum_count=1")
PATIENCE = 300
"""Seconds after which a command counts as hanging."""


@dataclass(frozen=True)
class Inputs:
    """A folder with models, texts, a dictionary and vectors, which commands only read."""

    root: Path

    def __truediv__(self, name: str) -> Path:
        return self.root / name


Command = Callable[[Inputs], tuple[object, ...]]
VERBS: dict[str, Command] = {
    "transfer": lambda given: (
        "transfer", given / "gpt2", "out", "--corpus", given / "target.txt", "--vocab-size", SIZE,
        "--dictionary", given / "dictionary.tsv", "--source-corpus", given / "source.txt", "--method", "wechsel",
        "--set", "vectors.width=16", "--set", "vectors.minimum_count=1",
    ),
    "vectors train": lambda given: ("vectors", "train", given / "target.txt", "-o", "out", *VECTORS),
    "align": lambda given: (
        "align", given / "source.safetensors", given / "target.safetensors", "-o", "out",
        "--dictionary", given / "dictionary.tsv",
    ),
    "train": lambda given: ("train", given / "gpt2", "out", "--corpus", given / "source.txt", *TRAINING),
    "run": lambda given: ("run", given / "recipe.toml", "--set", f"output={Path.cwd() / 'out'}"),
    "compare": lambda given: ("compare", given / "recipe.toml", "--set", f"output={Path.cwd() / 'out'}"),
    "bilingual": lambda given: (
        "bilingual", given / "gpt2", given / "transferred", "out", "--corpus", given / "target.txt",
        "--source-corpus", given / "source.txt", *TRAINING,
    ),
    "compress": lambda given: ("compress", given / "gpt2", "out", "--k", 2),
    "expand": lambda given: ("expand", given / "compressed", "out"),
    "prune": lambda given: ("prune", given / "gpt2", "out", "--corpus", given / "source.txt"),
    "transfer --keep-source": lambda given: (
        "transfer", given / "gpt2", "out", "--corpus", given / "target.txt", "--source-corpus", given / "source.txt",
        "--keep-source", "--added-tokens", 40, "--method", "fvt",
    ),
    "export": lambda given: ("export", given / "both", "target", "out"),
    "trelm": lambda given: (
        "trelm", given / "bert", "out", "--corpus", given / "target.txt", "--source-corpus", given / "source.txt",
        "--bitext", given / "pairs.tsv", "--set", f"alignment={given / 'pairs.links'}",
        *(word for phase in ("commonality", "transfer", "specific") for setting in (
            "steps=4", "batch=4", "length=32", "evaluate_every=2", "save_every=2", "learning_rate=1e-3",
        ) for word in ("--set", f"{phase}.{setting}")),
    ),
    "evaluate": lambda given: (
        "evaluate", given / "bert", "--task", "nli", "--data", given / "nli", "--output", "out", "--seeds", 2,
        "--set", "epochs=2", "--set", "batch=8", "--set", "length=32",
    ),
    "grid": lambda given: (
        "grid", given / "grid.toml", "--set", f"output={Path.cwd() / 'out'}",
        "--neighbours", "1,2", "--temperatures", "1",
    ),
    "advise": lambda given: (
        "advise", given / "gpt2", "--corpus", given / "target.txt", "--dictionary", given / "dictionary.tsv",
        "--vocab-size", SIZE, "--method", "fvt", "--method", "random", "--steps", 4, "--batch", 4, "--length", 16,
        "--output", "out",
    ),
}  # fmt: skip
"""A command of every verb that writes a result; the output is `out` in the current folder. `demo` runs some of them."""

RECIPE = """output = "out"
model = "{root}/gpt2"
corpus = "{root}/target.txt"
[transfer]
method = "fvt"
vocab_size = {size}
[training]
steps = 6
batch = 4
length = 16
save_every = 2
evaluate_every = 3
[compare]
runs = ["fvt", "fullrand"]
"""

GRID = """output = "out"
model = "{root}/gpt2"
corpus = "{root}/target.txt"
[transfer]
method = "wechsel"
vocab_size = {size}
dictionary = "{root}/dictionary.tsv"
source_corpus = "{root}/source.txt"
[transfer.vectors]
width = 16
minimum_count = 1
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verb", action="append", choices=list(VERBS), help="one of the verbs; repeatable")
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="one of the faults; repeatable")
    parser.add_argument("--trials", type=int, default=3, help="of each verb and fault")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)  # a fork has one thread
    faults = options.fault or list(FAULTS)
    survived = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        verbs = options.verb or list(VERBS)
        given = make_inputs(root, verbs)
        print(f"| Verb | {' | '.join(faults)} |\n|---{'|---' * len(faults)}|")
        for verb in verbs:
            expected = undisturbed(VERBS[verb], given, root / f"{verb}-undisturbed")
            cells = []
            for fault in faults:
                draw = random.Random(f"{options.seed} {verb} {fault}")
                problems = [
                    FAULTS[fault](Trial(verb, given, expected, root / f"{verb}-{fault}-{trial}", draw))
                    for trial in range(options.trials)
                ]
                good = sum(problem == "" for problem in problems)
                survived, tried = survived + good, tried + len(problems)
                cells.append(f"{good} / {len(problems)}")
                for problem in filter(None, problems):
                    print(f"{verb}, {fault}: {problem}", file=sys.stderr, flush=True)
            print(f"| {verb} | {' | '.join(cells)} |", flush=True)
    print(f"\n{survived} of {tried} survived")
    sys.exit(0 if survived == tried else 1)


# Trials -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """What a command does if nothing happens to it: a hash of its output, its seconds, and its largest file."""

    digest: str
    seconds: float
    largest: int


@dataclass(frozen=True)
class Started:
    """A process that runs a command, where it runs, and the end of a pipe with what it prints."""

    process: int
    folder: Path
    output: int


@dataclass(frozen=True)
class Trial:
    """One command, a folder of its own for it, and random numbers that decide what happens to it."""

    verb: str
    given: Inputs
    expected: Expected
    folder: Path
    draw: random.Random

    def start(self, *, largest: int = 0, namespace: bool = False, overwrite: bool = False) -> Started:
        """Start the command; arguments as in `start`."""
        limits = {"largest": largest, "namespace": namespace, "overwrite": overwrite}
        return start(VERBS[self.verb], self.given, self.folder, **limits)

    def judge(self) -> str:
        """Return what is wrong with the output so far, and after the same command was run again; empty if nothing."""
        found = digest(self.folder / "out")
        if found not in ("", self.expected.digest) and self.verb not in KEEPING_PARTS:
            return "the output is neither absent nor complete"
        status = finish(self.start(overwrite=found == self.expected.digest and self.verb in NOT_RESUMABLE))
        if status != 0:
            return f"the same command ended with status {status}: {said(self.folder)}"
        if digest(self.folder / "out") != self.expected.digest:
            return "the same command gave another result"
        left = sorted(path.name for path in self.folder.iterdir() if path.name not in ("out", "cache", "said", "tmp"))
        shutil.rmtree(self.folder)
        return f"left behind: {', '.join(left)}" if left else ""


NOT_RESUMABLE = (
    "transfer", "vectors train", "align", "compress", "expand", "prune", "transfer --keep-source", "export",
)  # fmt: skip
"""Verbs that reject an output that is complete already, instead of recognising it."""
KEEPING_PARTS = ("compare", "advise", "grid", "evaluate")
"""Verbs that keep finished runs, cells and seeds in their output before it is complete."""


def signalled(number: signal.Signals, status: int) -> Callable[[Trial], str]:
    """Return a fault: a signal at a random moment, after which the command has the given status."""

    def run(trial: Trial) -> str:
        started = trial.start()
        time.sleep(trial.draw.uniform(0, trial.expected.seconds))
        os.kill(started.process, number)
        found = finish(started)
        if found not in (0, status):  # 0: it was finished already
            return f"status {found} after {number.name}: {said(trial.folder)}"
        return trial.judge()

    return run


def full_disk(trial: Trial) -> str:
    """Limit the size of files to a random number of bytes; a cache that cannot be written costs nothing."""
    status = finish(trial.start(largest=trial.draw.randint(1, trial.expected.largest)))
    errors = [line for line in said(trial.folder).splitlines() if line.startswith("error: ")]
    if status not in (0, 2) or len(errors) != status // 2:
        return f"status {status} on a full disk: {said(trial.folder)}"
    return trial.judge()


def two_processes(trial: Trial) -> str:
    """Start the command twice, the second time at a random moment; one may be told to wait or that it is done."""
    return _twice(trial, namespace=False)


def two_hosts(trial: Trial) -> str:
    """Start the command twice, in two PID namespaces."""
    return _twice(trial, namespace=True)


def _twice(trial: Trial, *, namespace: bool) -> str:
    first = trial.start()
    time.sleep(trial.draw.uniform(0, trial.expected.seconds))
    second = trial.start(namespace=namespace)
    statuses = finish(first), finish(second)
    if not set(statuses) <= {0, 2} or 0 not in statuses:
        return f"statuses {statuses}: {said(trial.folder)}"
    return trial.judge()


FAULTS: dict[str, Callable[[Trial], str]] = {
    "KILL": signalled(signal.SIGKILL, -signal.SIGKILL),
    "INT": signalled(signal.SIGINT, 130),
    "TERM": signalled(signal.SIGTERM, 143),
    "full disk": full_disk,
    "two processes": two_processes,
    "two hosts": two_hosts,
}


# Commands -----------------------------------------------------------------------------------------------------------


def undisturbed(command: Command, given: Inputs, folder: Path) -> Expected:
    """Run a command once, with nothing happening to it."""
    begin = time.monotonic()
    status = finish(start(command, given, folder))
    seconds = time.monotonic() - begin
    if status:
        raise SystemExit(f"{folder.name} failed without any fault (status {status}): {said(folder)}")
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return Expected(digest(folder / "out"), seconds, max(sizes))


def start(
    command: Command,
    given: Inputs,
    folder: Path,
    *,
    largest: int = 0,
    namespace: bool = False,
    overwrite: bool = False,
) -> Started:
    """Start a command in a fork, with its own folder and cache.

    Args:
        command: One of `VERBS`.
        given: Its inputs.
        folder: Where it runs.
        largest: Bytes of the largest file that it can write; 0 for no limit.
        namespace: Whether it runs in a PID namespace of its own.
        overwrite: Whether to replace the output.
    """
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    ours, theirs = os.pipe()  # not a file: its size would be limited too
    process = os.fork()
    if process:
        os.close(theirs)
        os.read(ours, 1)  # until signals are handled
        return Started(process, folder, ours)
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
        os.write(theirs, b".")
        os.dup2(theirs, 1)
        os.dup2(theirs, 2)
        os.chdir(folder)
        tempfile.tempdir = str(folder / "tmp")
        os.environ["RELEXIFY_CACHE"] = str(folder / "cache")
        if largest:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        if namespace:
            _enter_namespace()
        sys.argv = ["relexify", *map(str, command(given)), *(["--overwrite"] if overwrite else [])]
        relexify.cli.main()
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 0
    except KeyboardInterrupt:
        status = 130
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    os._exit(status)


def _enter_namespace() -> None:
    """Continue in a child with a PID namespace of its own; the parent ends with the child's status."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x20000000):  # CLONE_NEWPID
        raise OSError(ctypes.get_errno(), "a PID namespace needs root")
    if child := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)


def finish(started: Started) -> int:
    """Wait for a command; return its exit status, negative for a signal. One that hangs is killed."""
    end = time.monotonic() + PATIENCE
    status = None
    while status is None and time.monotonic() < end:
        done, code = os.waitpid(started.process, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else None
        time.sleep(0.01)
    if status is None:
        os.kill(started.process, signal.SIGKILL)
        os.waitpid(started.process, 0)
        status = 124
    with open(started.output, "rb") as output, open(started.folder / "said", "ab") as kept:
        kept.write(output.read())
    return status


def said(folder: Path) -> str:
    """Return the end of what the commands in a folder printed."""
    return "\n".join((folder / "said").read_text().splitlines()[-3:])


def digest(output: Path) -> str:
    """Return a hash of the weights, tokenizers, curves and scores of an output; empty if there is none.

    The metadata of safetensors files is left out: it contains the paths of a command.
    """
    found = hashlib.sha256()
    for path in sorted(output.rglob("*")) if output.is_dir() else [output]:
        is_result = path.name.endswith(HASHED) or path.name.startswith("seed-") or path.parent.name == "cells"
        if not path.is_file() or not (path == output or is_result):
            continue
        content = path.read_bytes()
        if content[8:9] == b"{":
            content = content[8 + int.from_bytes(content[:8], "little") :]
        found.update(path.relative_to(output.parent).as_posix().encode() + content)
    return found.hexdigest() if output.exists() else ""


HASHED = (".safetensors", "tokenizer.json", "curve.json", "training.json")
"""The files of an output folder that must be the same bits in every run."""


PREPARED: dict[str, Command] = {
    "source.safetensors": lambda given: ("vectors", "train", given / "source.txt", "-o", "out", *VECTORS),
    "target.safetensors": lambda given: ("vectors", "train", given / "target.txt", "-o", "out", *VECTORS),
    "transferred": lambda given: (
        "transfer", given / "gpt2", "out", "--corpus", given / "target.txt", "--vocab-size", SIZE, "--method", "fvt",
    ),
    "compressed": VERBS["compress"],
    "both": VERBS["bilingual"],
}  # fmt: skip
"""Inputs that relexify makes, in this order,"""
NEEDED = {
    "align": ("source.safetensors", "target.safetensors"),
    "bilingual": ("transferred",),
    "expand": ("compressed",),
    "export": ("transferred", "both"),
}
"""and the verbs that need them."""


def make_inputs(root: Path, verbs: Collection[str]) -> Inputs:
    """Write the inputs of some commands."""
    given = Inputs(root / "inputs")
    pico.saved("gpt2", given / "gpt2")
    words = pico.foreign_words()
    english = sorted({word for line in pico.sentences() for word in line.lower().split() if word.isalpha()})
    (given / "source.txt").write_text("\n".join(pico.sentences(300, seed=4)) + "\n")
    (given / "target.txt").write_text("\n".join(pico.sentences(300, seed=3, words=words)) + "\n")
    (given / "dictionary.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(english, words, strict=False)))
    for name, text in (("recipe", RECIPE), ("grid", GRID)):
        (given / f"{name}.toml").write_text(text.format(root=given.root, size=SIZE))
    pico.saved("bert", given / "bert")
    pairs = list(zip(pico.sentences(60, seed=4), pico.sentences(60, seed=3, words=words), strict=True))
    (given / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    (given / "pairs.links").write_text("0-0 1-1 2-2\n" * len(pairs))
    (given / "nli").mkdir()
    for part in ("train", "dev", "test"):
        labels = ("entailment", "neutral", "contradiction")
        rows = (f"{a}\t{b}\t{labels[row % 3]}\n" for row, (a, b) in enumerate(pairs[:24]))
        (given / "nli" / f"{part}.tsv").write_text("".join(rows))
    needed = {name for verb in verbs for name in NEEDED.get(verb, ())}
    for name, command in PREPARED.items():
        if name not in needed:
            continue
        undisturbed(command, given, root / name)
        (root / name / "out").rename(given / name)
    return given


if __name__ == "__main__":
    main()
