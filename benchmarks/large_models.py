"""Time and memory of `relexify transfer` on checkpoints of 8 and 70 billion parameters, on any machine with Linux.

    python benchmarks/large_models.py --folder /data/tmp
    python benchmarks/large_models.py --folder /data/tmp --sizes 8B --method blend --dictionary --curves curves

The checkpoints have the shapes, names and shards of Llama 3. Embedding and head are random numbers; the inner
parameters are holes in sparse files, so 140 GB take 4 GB on disk. A tokenizer is trained on invented text, and the
whole command runs in a process of its own. The floor is the time to copy the files of the result that are not links:
those with embedding or head have to be read and written. The model is not scored, because that reads every inner
parameter; with `--score BYTES` it is scored on so many bytes of text, if it fits into memory.

Printed are wall and CPU seconds, the ratio to the floor, and the memory that is resident, at its peak and over time. It
is read from /proc/PID/status every 0.1 seconds: anonymous memory (RssAnon and RssShmem), which the process needs, and
with it the pages of mapped files (RssFile), which the kernel drops if memory is scarce. The peak of both together is
that of the kernel (VmHWM), which misses no moment but the last 0.1 seconds. `--curves` writes all samples as CSV, and
a plot of them as SVG.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

SHAPES = {
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
    "70B": {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64},
}
VOCABULARY, TARGET_VOCABULARY = 128_256, 32_000
SHARD = 5_000_000_000  # bytes
TEXT = 2_000_000  # characters
WORDS = 1_000  # of the dictionary
INTERVAL = 0.1  # seconds between two samples
POINTS = 10  # of the table


class Sample(NamedTuple):
    """Resident memory of a process at one moment, in bytes."""

    seconds: float
    anonymous: int
    mapped: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="where to write; default: the temporary folder")
    parser.add_argument("--sizes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--method", default="fvt")
    parser.add_argument("--dictionary", action="store_true", help=f"of {WORDS:,} words")
    parser.add_argument("--score", type=int, metavar="BYTES")
    parser.add_argument("--curves", type=Path, metavar="FOLDER", help="where to write the memory over time")
    options = parser.parse_args()
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            measure(size, Path(folder), options)


def measure(size: str, folder: Path, options: argparse.Namespace) -> None:
    """Build a checkpoint, transfer it, and print a line and a table."""
    source, output = folder / "source", folder / "output"
    write_checkpoint(source, size)
    write_text(folder / "text.txt", TEXT, folder / "dictionary.tsv")
    command = [sys.executable, "-m", "relexify", "transfer", str(source), str(output), "--method", options.method]
    command += ["--corpus", str(folder / "text.txt"), "--vocab-size", str(TARGET_VOCABULARY), "--device", "cpu"]
    if options.dictionary:
        command += ["--dictionary", str(folder / "dictionary.tsv")]
    if options.score:
        command += ["--set", f"held_out_bytes={options.score}"]
    else:
        command += ["--set", "score=false", "--set", "unigram_prior=false"]
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "RELEXIFY_CACHE": str(folder / "cache")})
    samples, peak, status, usage = sample_memory(process.pid)
    seconds, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    rewritten = [path for path in output.glob("model*.safetensors") if not path.samefile(source / path.name)]
    floor = copy_seconds(rewritten, folder / "copy")
    total = sum(path.stat().st_size for path in source.glob("*.safetensors"))
    written = sum(path.stat().st_size for path in rewritten)
    print(
        f"{size}, {total / 1e9:.0f} GB in {len(list(source.glob('*.safetensors')))} files, "
        f"{options.method}{' with a dictionary' if options.dictionary else ''}: {seconds:.0f} s "
        f"({cpu:.0f} s of CPU time), {seconds / floor:.1f} times the {floor:.0f} s to copy {len(rewritten)} files with "
        f"{written / 1e9:.1f} GB; "
        f"peak memory {peak / 1e9:.2f} GB, {peak / total:.1%} of the checkpoint, "
        f"{max(sample.anonymous for sample in samples) / 1e9:.2f} GB of it anonymous\n"
    )
    print("| seconds | anonymous GB | with mapped files |\n|---|---|---|")
    for end in (seconds * (number + 1) / POINTS for number in range(POINTS)):
        until = [each for each in samples if end - seconds / POINTS <= each.seconds <= end] or samples[-1:]
        highest = max(until, key=lambda each: each.anonymous)
        with_files = max(each.anonymous + each.mapped for each in until)
        print(f"| {end:.0f} | {highest.anonymous / 1e9:.2f} | {with_files / 1e9:.2f} |")
    if options.curves:
        write_curve(options.curves / f"{size}-{options.method}", samples, f"{size}, {options.method}")


def sample_memory(pid: int) -> tuple[list[Sample], int, int, resource.struct_rusage]:
    """Return the resident memory of a child over time, its peak in bytes, how it ended, and what it used.

    The peak is VmHWM, as the kernel counts it since the program was loaded. `ru_maxrss` would include the memory of
    this process, which the child had for a moment.
    """
    samples, peak, start = [], 0, time.perf_counter()
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return samples, peak, status, usage
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found = {name: value for name, _, value in (line.partition(":") for line in lines)}
        if "RssAnon" in found:  # not of a process that has just ended
            anonymous, shared, mapped = (
                int(found[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem", "RssFile")
            )
            peak = int(found["VmHWM"].split()[0]) * 1024
            samples.append(Sample(time.perf_counter() - start, anonymous + shared, mapped))
        time.sleep(INTERVAL)


def write_curve(path: Path, samples: list[Sample], title: str) -> None:
    """Write samples as CSV, and draw them."""
    from relexify.reports.plots import saved_figure

    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{each.seconds:.1f},{each.anonymous},{each.mapped}\n" for each in samples]
    path.with_suffix(".csv").write_text("seconds,anonymous,mapped\n" + "".join(rows))
    thinned = samples[:: max(1, len(samples) // 200)]
    with saved_figure(path.with_suffix(".svg"), 5.3, 2.4) as figure:
        axis = figure.subplots()
        seconds = [each.seconds for each in thinned]
        axis.plot(seconds, [(each.anonymous + each.mapped) / 1e9 for each in thinned], label="with mapped files")
        axis.plot(seconds, [each.anonymous / 1e9 for each in thinned], label="anonymous")
        axis.set(title=title, xlabel="seconds", ylabel="resident GB", ylim=(0, None))
        axis.legend()


def write_checkpoint(folder: Path, size: str) -> None:
    """Write config, tokenizer and sparse weights."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        dtype="bfloat16",
        architectures=["LlamaForCausalLM"],
        **SHAPES[size],
    )
    config.save_pretrained(folder)
    letter_tokenizer(VOCABULARY).save_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    shards: list[dict[str, Any]] = [{}]
    filled = 0
    for name, tensor in model.state_dict().items():
        if filled + tensor.nbytes > SHARD:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += tensor.nbytes
    lexical = {"model.embed_tokens.weight", "lm_head.weight"}
    weight_map = {}
    for number, tensors in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_sparse(folder / file, tensors, lexical)
        weight_map.update(dict.fromkeys(tensors, file))
    index = {"metadata": {"total_size": sum(t.nbytes for t in model.state_dict().values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_sparse(path: Path, tensors: dict[str, Any], filled: set[str]) -> None:
    """Write a safetensors file in bfloat16 whose tensors are holes, except for some with random values."""
    import torch

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rows = 1024
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in filled & set(tensors):
            count, width = tensors[name].shape
            block = (torch.randn(rows, width, generator=torch.Generator().manual_seed(0)) / 50).bfloat16()
            stream.seek(8 + len(text) + header[name]["data_offsets"][0])
            for start in range(0, count, rows):
                stream.write(block[: count - start].view(torch.uint8).numpy().data)
        stream.truncate(8 + len(text) + end)


def letter_tokenizer(size: int) -> Any:
    """Return byte-level BPE of some size: all bytes, and strings of letters, the shortest ones first."""
    from string import ascii_lowercase

    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|begin_of_text|>", "<|end_of_text|>"]
    vocabulary = {token: id for id, token in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    merges: list[tuple[str, str]] = []
    shorter = ["Ġ", *ascii_lowercase]
    while len(vocabulary) < size:
        pairs = [(start, letter) for start in shorter for letter in ascii_lowercase]
        pairs = pairs[: size - len(vocabulary)]
        shorter = [start + letter for start, letter in pairs]
        merges += pairs
        vocabulary.update({token: len(vocabulary) + number for number, token in enumerate(shorter)})
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(special)
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=special[0], eos_token=special[1])


def write_text(path: Path, characters: int, dictionary: Path | None = None) -> None:
    """Write text in an invented language, and a dictionary of its most frequent words."""
    from relexify.recipes.demo import make_material

    material = make_material(0, WORDS, characters)
    path.write_text("\n".join(material.invented) + "\n")
    if dictionary is not None:
        dictionary.write_text("".join(f"{source}\t{target}\n" for source, target in material.lexicon.pairs))


def copy_seconds(paths: list[Path], folder: Path) -> float:
    """Return how long it takes to copy files, data on disk included."""
    folder.mkdir()
    start = time.perf_counter()
    for path in paths:
        shutil.copyfile(path, folder / path.name)
        with open(folder / path.name) as stream:
            os.fsync(stream.fileno())
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
