"""Train word vectors by counting and with gensim, and look words up in a large fastText file: time and memory.

    python benchmarks/word_vectors.py training --corpus swahili.txt --megabytes 8
    python benchmarks/word_vectors.py reading --gigabytes 7 --folder /data/tmp

`training` gives the same words of the same text to `rx.train_vectors` (counts) and to gensim's FastText (skip-gram, one
worker), with the same width, window, n-grams and smallest count, in turn. `reading` writes a `.bin` whose dictionary is
real and whose matrices are holes of a sparse file, and looks up 50,000 of its words. Every run is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WIDTH, LOOKED_UP = 300, 50_000
MINIMUM_COUNT = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["training", "reading"])
    parser.add_argument("--corpus", type=Path, help="text to train on")
    parser.add_argument("--megabytes", type=float, default=8, help="how much of it is used")
    parser.add_argument("--epochs", type=int, default=5, help="passes of gensim over the text")
    parser.add_argument("--repeat", type=int, default=1, help="train on both sides this often, and keep the fastest")
    parser.add_argument("--gigabytes", type=float, default=7, help="size of the file to read")
    parser.add_argument("--folder", type=Path, help="where to write files; default: the temporary folder")
    parser.add_argument("--run", choices=list(RUNS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(RUNS[options.run](options)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        if options.what == "reading":
            path = Path(name) / "large.bin"
            write_sparse(path, int(options.gigabytes * 1e9))
            read = measure("read", ["reading", "--corpus", str(path)])
            print(f"\n{path.stat().st_size / 1e9:.1f} GB, {LOOKED_UP:,} words looked up")
            print(f"{read['cpu']:.1f} s CPU, {read['wall']:.1f} s wall, peak {read['peak_gb']:.2f} GB")
            return
        text = Path(name) / "text.txt"
        with open(options.corpus, "rb") as stream:
            text.write_bytes(stream.read(int(options.megabytes * 1e6)).rpartition(b"\n")[0])
        arguments = ["training", "--corpus", str(text), "--epochs", str(options.epochs)]
        runs = [{run: measure(run, arguments) for run in ("counts", "gensim")} for _ in range(options.repeat)]
    ours, theirs = (min((each[run] for each in runs), key=lambda found: found["cpu"]) for run in ("counts", "gensim"))
    cpu, wall, memory = (theirs[kind] / ours[kind] for kind in ("cpu", "wall", "peak_gb"))
    print(f"\n{options.megabytes:g} MB: gensim / counts  {cpu:.1f}x CPU, {wall:.1f}x wall, {memory:.1f}x memory")


def measure(run: str, arguments: list[str]) -> dict[str, float]:
    """Run one side in a process of its own."""
    command = [sys.executable, __file__, *arguments, "--run", run]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    print(f"{run:8s} {result}", flush=True)
    return result


def run_counts(options: argparse.Namespace) -> dict[str, float]:
    import relexify as rx
    from relexify.evidence.vectors import VectorTraining

    train, lines = rx.train_vectors, words_of(options.corpus)
    start = clock()
    found = train(lambda: iter(lines), VectorTraining(width=WIDTH, minimum_count=MINIMUM_COUNT))
    return {**since(start), "words": len(found.words)}


def run_gensim(options: argparse.Namespace) -> dict[str, float]:
    from gensim.models import FastText

    lines = words_of(options.corpus)
    start = clock()
    model = FastText(
        lines, vector_size=WIDTH, window=5, sg=1, epochs=options.epochs, min_count=MINIMUM_COUNT, workers=1, seed=0
    )
    return {**since(start), "words": len(model.wv)}


def run_read(options: argparse.Namespace) -> dict[str, float]:
    import relexify as rx

    load = rx.WordVectors.load
    start = clock()
    found = load(options.corpus)
    found.lookup(found.words[:: len(found.words) // LOOKED_UP][:LOOKED_UP])
    return since(start)


RUNS = {"counts": run_counts, "gensim": run_gensim, "read": run_read}


def words_of(path: Path) -> list[list[str]]:
    """Return the words of every line, which both sides get ready-made."""
    from relexify.text import split_words

    return [split_words(line) for line in path.read_text(encoding="utf-8").splitlines()]


def clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float]) -> dict[str, float]:
    wall, cpu = (now - before for now, before in zip(clock(), start, strict=True))
    return {"wall": wall, "cpu": cpu, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}


def write_sparse(path: Path, size: int) -> None:
    """Write a fastText file with as many words as n-gram buckets, and an output matrix, whose rows are all holes."""
    words = size // (3 * WIDTH * 4)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    spelled = letters[np.random.default_rng(0).integers(0, len(letters), (words, 10))]
    with open(path, "wb") as file:
        file.write(struct.pack("<2i", 793712314, 12))
        file.write(struct.pack("<12id", WIDTH, 5, 5, 5, 5, 1, 2, 2, words, 3, 6, 100, 1e-4))
        file.write(struct.pack("<3i2q", words, words, 0, 10**9, -1))
        for rank, word in enumerate(spelled):
            file.write("".join(word).encode() + b"\0" + struct.pack("<qb", 10**9 // (rank + 1) + 1, 0))
        for rows in (2 * words, words):
            file.write(struct.pack("<?2q", False, rows, WIDTH))
            file.seek(rows * WIDTH * 4, os.SEEK_CUR)
        file.truncate()


if __name__ == "__main__":
    main()
