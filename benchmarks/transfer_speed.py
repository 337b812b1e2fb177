"""How fast and how small a transfer is: relexify against the packages `wechsel` and `deepfocus`, and a matrix product.

    pip install wechsel==0.0.4          # a peer; it builds fastText from source
    pip install --no-deps deepfocus entmax fastdist numba llvmlite fasttext-wheel print-on-steroids     # another one
    python benchmarks/transfer_speed.py                 # 50,000 x 50,000 tokens, 300 dimensions, both in one run
    python benchmarks/transfer_speed.py --twins 0       # no token is in a vocabulary twice, with and without a space
    python benchmarks/transfer_speed.py --twins 0 --tokens 10000 --only focus deepfocus
    python benchmarks/transfer_speed.py --only product search search-float32 --repeat 3
    python benchmarks/transfer_speed.py --only product search --device cuda --repeat 3
    python benchmarks/transfer_speed.py --grow 32000 64000 128000 256000    # relexify alone: time and memory by size

Both sides read the same two fastText .bin files, the same tokenizers, the same dictionary and the same source matrix,
all made here, and write a target matrix. FOCUS needs no dictionary and no source vectors, but tokens that both
vocabularies have: 16 % of them (SmolLM2 and a Swahili tokenizer of 32,000 tokens: 14 %). The largest difference between
the rows of both sides is printed too. CPU time is what the process and its threads used; ratios are printed last.
On a GPU, product and search start from matrices in the memory of the host, and run once before they are timed.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORDS, BUCKETS, WIDTH = 60_000, 200_000, 300
SHARED = 0.16
"""Share of the tokens that both vocabularies have, for FOCUS."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument(
        "--twins", type=float, default=0.18, help="share of words in a vocabulary twice (SmolLM2: 0.18)"
    )
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=DEFAULT_RUNS)
    parser.add_argument("--repeat", type=int, default=1, help="run all sides this often, in turn, and keep the fastest")
    parser.add_argument("--grow", nargs="+", type=int, metavar="TOKENS", help="relexify alone, by number of tokens")
    parser.add_argument("--device", default="cpu", help="of product and search")
    parser.add_argument("--run", choices=list(RUNS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(RUNS[options.run](options)))
        return
    runs = ["relexify"] if options.grow else options.only
    for tokens in options.grow or [options.tokens]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if {"relexify", "wechsel", "focus", "deepfocus"} & set(runs):
                make_files(folder, tokens, options.twins, SHARED if {"focus", "deepfocus"} & set(runs) else 0.0)
            measured = [
                {run: measure(run, folder, tokens, options.device) for run in runs} for _ in range(options.repeat)
            ]
            if {"focus", "deepfocus"} <= set(runs):
                ours, theirs = (np.load(folder / f"{run}.npy") for run in ("focus", "deepfocus"))
                relative = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
                print(f"largest relative difference of a row of FOCUS: {relative.max():.1e}")
        kind = "cpu" if options.device == "cpu" else "wall"
        report({run: min((each[run] for each in measured), key=lambda found: found[kind]) for run in runs}, tokens)


def measure(run: str, folder: Path, tokens: int, device: str) -> dict[str, float]:
    """Run one side in a process of its own, so that neither warms the other."""
    command = [sys.executable, __file__, "--run", run, "--tokens", str(tokens), "--folder", str(folder)]
    command += ["--device", device]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    print(f"{run:14s} {result}", flush=True)
    return result


def timed(work: object) -> dict[str, float]:
    start, used = time.perf_counter(), time.process_time()
    work()  # type: ignore[operator]
    return {"wall": time.perf_counter() - start, "cpu": time.process_time() - used, "peak_gb": peak()}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def random_matrices(tokens: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return tuple(draw.standard_normal((tokens, WIDTH), dtype=np.float32) for _ in range(2))  # type: ignore[return-value]


def run_product(options: argparse.Namespace) -> dict[str, float]:
    queries, keys = random_matrices(options.tokens)
    if options.device != "cpu":
        import torch

        def work() -> None:
            left, right = (torch.from_numpy(rows).to(options.device) for rows in (queries, keys))
            for block in left.split(4096):
                last = block @ right.T
            last[0, 0].item()  # waits for the device

        work()
        return timed(work)

    products = np.empty((1024, options.tokens), dtype=np.float32)  # once, as the search does

    def work_on_cpu() -> None:
        for start in range(0, options.tokens, 1024):
            block = queries[start : start + 1024]
            np.matmul(block, keys.T, out=products[: len(block)])

    return timed(work_on_cpu)


def run_search(options: argparse.Namespace) -> dict[str, float]:
    import torch  # noqa: F401  not timed, as all imports

    from relexify.neighbours import nearest

    queries, keys = random_matrices(options.tokens)
    if options.device != "cpu":
        nearest(queries, keys, 10, device=options.device)
    return timed(lambda: nearest(queries, keys, 10, device=options.device))


def run_search_float32(options: argparse.Namespace) -> dict[str, float]:
    from relexify.neighbours import accelerator, search

    search.LARGE = 2**63  # the products of no search are that many
    accelerator._has_half_products = lambda keys: False
    return run_search(options)


def run_relexify(options: argparse.Namespace) -> dict[str, float]:
    import torch  # noqa: F401
    from transformers import PreTrainedTokenizerFast

    import relexify as rx

    load, align, wechsel, dictionary = rx.WordVectors.load, rx.align, rx.methods.wechsel, rx.BilingualLexicon.load

    folder = options.folder

    def work() -> None:
        old, new = (PreTrainedTokenizerFast(tokenizer_file=str(folder / f"{side}.json")) for side in "st")
        source, target = (load(folder / f"{side}.bin") for side in "st")
        rotation = align(source, target, dictionary(folder / "dictionary.tsv"), held_out=0)
        mixture = wechsel(old, new, source.rotated(rotation), target)
        np.save(folder / "relexify.npy", mixture.apply(np.load(folder / "source.npy")))

    return timed(work)


def run_wechsel(options: argparse.Namespace) -> dict[str, float]:
    import fasttext
    from transformers import PreTrainedTokenizerFast
    from wechsel import WECHSEL

    fasttext.FastText.eprint = lambda text: None

    folder = options.folder

    def work() -> None:
        old, new = (PreTrainedTokenizerFast(tokenizer_file=str(folder / f"{side}.json")) for side in "st")
        source, target = (fasttext.load_model(str(folder / f"{side}.bin")) for side in "st")
        peer = WECHSEL(source, target, bilingual_dictionary=str(folder / "dictionary.tsv"))
        matrix, _ = peer.apply(old, new, np.load(folder / "source.npy"))
        np.save(folder / "wechsel.npy", matrix)

    return timed(work)


def run_focus(options: argparse.Namespace) -> dict[str, float]:
    import torch  # noqa: F401
    from transformers import PreTrainedTokenizerFast

    import relexify as rx
    from relexify.evidence.vectors import subword_vectors

    load, focus, folder = rx.WordVectors.load, rx.methods.focus, options.folder

    def work() -> None:
        old, new = (PreTrainedTokenizerFast(tokenizer_file=str(folder / f"{side}.json")) for side in "st")
        mixture = focus(old, subword_vectors(new, load(folder / "t.bin"), "ngrams"))
        np.save(folder / "focus.npy", mixture.apply(np.load(folder / "source.npy")))

    return timed(work)


def run_deepfocus(options: argparse.Namespace) -> dict[str, float]:
    import fasttext
    import torch
    from deepfocus import FOCUS
    from transformers import PreTrainedTokenizerFast

    fasttext.FastText.eprint = lambda text: None

    folder = options.folder

    def work() -> None:
        old, new = (PreTrainedTokenizerFast(tokenizer_file=str(folder / f"{side}.json")) for side in "st")
        matrix = FOCUS(
            new,
            old,
            torch.from_numpy(np.load(folder / "source.npy")),
            auxiliary_embedding_mode="fasttext-wordlevel",
            language_identifier=str(folder / "t.bin"),  # a path is read, and not downloaded
            processes=1,
            verbosity="silent",
        )
        np.save(folder / "deepfocus.npy", matrix.numpy())

    return timed(work)


RUNS = {
    "product": run_product,
    "search": run_search,
    "search-float32": run_search_float32,
    "relexify": run_relexify,
    "wechsel": run_wechsel,
    "focus": run_focus,
    "deepfocus": run_deepfocus,
}
DEFAULT_RUNS = ["product", "search", "search-float32", "relexify", "wechsel"]
RATIOS = [
    ("search", "product"), ("search-float32", "product"), ("wechsel", "relexify"), ("relexify", "product"),
    ("deepfocus", "focus"),
]  # fmt: skip


def report(measured: dict[str, dict[str, float]], tokens: int) -> None:
    print(f"\n{tokens:,} x {tokens:,} tokens, {WIDTH} dimensions")
    for run, found in measured.items():
        print(
            f"{run:14s}  {found['cpu']:7.2f} s CPU, {found['wall']:7.3f} s wall, {found['peak_gb']:.2f} GB", flush=True
        )
    for one, other in RATIOS:
        if one in measured and other in measured:
            cpu, wall = (measured[one][kind] / measured[other][kind] for kind in ("cpu", "wall"))
            print(f"{one:14s} / {other:8s}  {cpu:.2f}x CPU, {wall:.2f}x wall")


def make_files(folder: Path, tokens: int, twins: float, shared: float) -> None:
    """Two languages of random words: .bin vectors, tokenizers of the frequent words, a dictionary, a source matrix.

    A share of the words of the second language are those of the first.
    """
    draw = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyzäöüšžñ"))
    words = {}
    for side in "st":
        count = max(WORDS, tokens)
        made = {"".join(draw.choice(letters, draw.integers(3, 10))): None for _ in range(int(1.3 * count))}
        words[side] = list(made)[:count]
        if side == "t" and shared:
            own = set(words["t"])
            for position in draw.choice(tokens, int(shared * tokens), replace=False):
                if words["s"][position] not in own:  # no word is in the file of vectors twice
                    words["t"][position] = words["s"][position]
        write_fasttext(folder / f"{side}.bin", words[side], draw)
        write_tokenizer(folder / f"{side}.json", words[side], tokens, twins)
    pairs = zip(draw.choice(words["s"][:20_000], 5_000), draw.choice(words["t"][:20_000], 5_000), strict=True)
    (folder / "dictionary.tsv").write_text("".join(f"{old}\t{new}\n" for old, new in pairs), encoding="utf-8")
    np.save(folder / "source.npy", draw.standard_normal((tokens, 768), dtype=np.float32))


def write_fasttext(path: Path, words: list[str], draw: np.random.Generator) -> None:
    rows = draw.standard_normal((len(words) + BUCKETS, WIDTH), dtype=np.float32)
    with open(path, "wb") as file:
        file.write(struct.pack("<2i", 793712314, 12))
        file.write(struct.pack("<12id", WIDTH, 5, 5, 5, 5, 1, 2, 2, BUCKETS, 3, 6, 100, 1e-4))
        file.write(struct.pack("<3i2q", len(words), len(words), 0, 10**6, -1))
        for rank, word in enumerate(words):
            file.write(word.encode() + b"\0" + struct.pack("<qb", 10**6 // (rank + 1) + 1, 0))
        for matrix in (rows, np.zeros((len(words), WIDTH), np.float32)):
            file.write(struct.pack("<?2q", False, *matrix.shape))
            matrix.tofile(file)


def write_tokenizer(path: Path, words: list[str], tokens: int, twins: float) -> None:
    """Byte-level BPE in form; as in real vocabularies, some words stand after a space and without."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    both = int(twins * tokens)
    texts = [f" {word}" for word in words[: tokens - both]] + words[:both]
    kept = {split.pre_tokenize_str(text)[0][0]: id for id, text in enumerate(texts)}
    backend = Tokenizer(models.BPE(kept, []))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    backend.save(str(path))


if __name__ == "__main__":
    main()
