"""Time and memory of everything that reads a whole corpus, by size: linear cost and bounded memory.

    python -m benchmarks.corpus_size --megabytes 60 600 6000 --folder /data/tmp

The text has an open vocabulary: words follow Zipf's law, and new ones keep coming, as in real text. Every step runs in
a process of its own: reading, word vectors by counting, training a tokenizer (byte-level BPE, 32,000 tokens), and
packing for training. Printed are CPU seconds per megabyte and the peak of the resident memory at every size, and the
ratios to the first size; a ratio of 1 is linear cost, and bounded memory.

    python -m benchmarks.corpus_size --megabytes 60 --steps vectors packing --processes 1 2

measures each size with several numbers of processes: CPU seconds of all of them together, wall-clock seconds, and the
peak of the largest process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

BLOCK = 200_000  # words
FREQUENT = 300_000  # words that are spelled once
INTERVAL = 0.05  # seconds between two looks at the memory
STEPS: dict[str, Callable[[Path], object]] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 40])
    parser.add_argument("--folder", type=Path, default=None, help="where to write; default: the temporary folder")
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--processes", type=int, nargs="+", default=[1], help="numbers of processes")
    parser.add_argument("--one", nargs=2, metavar=("STEP", "FILE"), help="run a single step in this process")
    options = parser.parse_args()
    if options.one:
        STEPS[options.one[0]](Path(options.one[1]))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        files = [Path(folder) / f"{size}.txt" for size in options.megabytes]
        for file, size in zip(files, options.megabytes, strict=True):
            write_text(file, size * 10**6)
        print(
            "| step | MB | processes | CPU s per MB | ratio | peak GB | ratio | s |\n|---|---|---|---|---|---|---|---|"
        )
        for step in options.steps:
            first: tuple[float, float] | None = None
            for file, size in zip(files, options.megabytes, strict=True):
                for processes in options.processes:
                    begin = time.monotonic()
                    seconds, memory = measure(step, file, Path(folder), processes)
                    wall, cost = time.monotonic() - begin, seconds / size
                    first = first or (cost, memory)
                    print(
                        f"| {step} | {size:,} | {processes} | {cost:.3f} | {cost / first[0]:.2f} | "
                        f"{memory / 1e9:.2f} | {memory / first[1]:.2f} | {wall:.1f} |",
                        flush=True,
                    )


def measure(step: str, file: Path, folder: Path, processes: int) -> tuple[float, int]:
    """Return the CPU seconds and the peak memory of a step, in a process of its own, which may start others."""
    command = [sys.executable, "-m", "benchmarks.corpus_size", "--one", step, str(file)]
    settings = {"RELEXIFY_CACHE": str(folder / f"cache-{processes}"), "RELEXIFY_PROCESSES": str(processes)}
    process = subprocess.Popen(command, env={**os.environ, **settings})
    memory = ended = 0
    while not ended:
        time.sleep(INTERVAL)
        memory = max(memory, peak_memory(process.pid))
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)  # with the processes that it waited for
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime, memory


def peak_memory(pid: int) -> int:
    """Return the highest peak so far of a process and of those that it started, in bytes (VmHWM in /proc).

    `ru_maxrss` would include the memory of the process that started each of them, which it had for a moment.
    """
    peak, running = 0, [pid]
    while running:
        folder = Path(f"/proc/{running.pop()}")
        with suppress(OSError, IndexError):  # it has ended
            status = (folder / "status").read_text()
            peak = max(peak, int(status.split("VmHWM:")[1].split()[0]) * 1024)
            for thread in (folder / "task").iterdir():
                running += map(int, (thread / "children").read_text().split())
    return peak


def write_text(path: Path, size: int) -> None:
    """Write lines of 20 words whose ranks follow Zipf's law; a word is spelled from its rank."""
    import numpy as np

    syllables = np.array([consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"], dtype=object)

    def spell(ranks: np.ndarray) -> np.ndarray:
        words = syllables[ranks % len(syllables)]
        while ranks.any():
            ranks = ranks // len(syllables)
            words = words + np.where(ranks > 0, syllables[ranks % len(syllables)], "")
        return words

    frequent = spell(np.arange(FREQUENT))
    generator = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as stream:
        while stream.tell() < size:
            ranks = generator.zipf(1.2, BLOCK) % 10**9
            words = frequent[np.minimum(ranks, FREQUENT - 1)]
            words[ranks >= FREQUENT] = spell(ranks[ranks >= FREQUENT])
            stream.writelines(" ".join(line) + "\n" for line in words.reshape(-1, 20))


def read(file: Path) -> None:
    """Read the text and split it into a training and a held-out side."""
    import relexify as rx

    training, _ = rx.Corpus.open(file).split()
    sum(len(line) for line in training)


def vectors(file: Path) -> None:
    """Train word vectors by counting."""
    import relexify as rx
    from relexify.evidence.vectors import EachLine, SplitText
    from relexify.text import split_words

    rx.train_vectors(SplitText(rx.Corpus.open(file), EachLine(split_words)))


def tokenizer(file: Path) -> None:
    """Train a tokenizer."""
    import relexify as rx

    rx.train_tokenizer(file, like=byte_level(), vocab_size=32_000)


def packing(file: Path) -> None:
    """Tokenize the text for training."""
    import relexify as rx
    from relexify.training.data.packing import pack

    pack(rx.Corpus.open(file), byte_level())


def byte_level() -> object:
    """Return a byte-level tokenizer without merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(["<eos>", *alphabet])}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>")


STEPS.update(read=read, vectors=vectors, tokenizer=tokenizer, packing=packing)

if __name__ == "__main__":
    main()
