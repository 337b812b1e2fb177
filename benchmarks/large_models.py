"""Time and memory of `relexify transfer` on checkpoints of 8 and 70 billion parameters, on any machine.

    python benchmarks/large_models.py --folder /data/tmp
    python benchmarks/large_models.py --folder /data/tmp --sizes 8B --method blend

The checkpoints have the shapes, names and shards of Llama 3. Embedding and head are random numbers; the inner
parameters are holes in sparse files, so 140 GB take 4 GB on disk. A tokenizer is trained on invented text, and the
whole command runs in a process of its own. The floor is the time to copy the files of the result that are not links:
those with embedding or head have to be read and written. The model is not scored, because that reads every inner
parameter; with `--score` it is scored if it fits into memory.

Printed are wall and CPU seconds, the ratio to the floor, the peak of the resident memory (pages of mapped files
included), and its share of the checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SHAPES = {
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
    "70B": {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64},
}
VOCABULARY, TARGET_VOCABULARY = 128_256, 32_000
SHARD = 5_000_000_000  # bytes
TEXT = 2_000_000  # characters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="where to write; default: the temporary folder")
    parser.add_argument("--sizes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--method", default="fvt")
    parser.add_argument("--score", action="store_true")
    options = parser.parse_args()
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            measure(size, Path(folder), options.method, score=options.score)


def measure(size: str, folder: Path, method: str, *, score: bool) -> None:
    """Build a checkpoint, transfer it, and print a line."""
    source, output = folder / "source", folder / "output"
    write_checkpoint(source, size)
    write_text(folder / "text.txt", TEXT)
    command = [sys.executable, "-m", "relexify", "transfer", str(source), str(output), "--method", method]
    command += ["--corpus", str(folder / "text.txt"), "--vocab-size", str(TARGET_VOCABULARY), "--device", "cpu"]
    if not score:
        command += ["--set", "score=false", "--set", "unigram_prior=false"]
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "RELEXIFY_CACHE": str(folder / "cache")})
    _, status, usage = os.wait4(process.pid, 0)
    seconds, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    rewritten = [path for path in output.glob("model*.safetensors") if not path.samefile(source / path.name)]
    floor = copy_seconds(rewritten, folder / "copy")
    total = sum(path.stat().st_size for path in source.glob("*.safetensors"))
    written, peak = sum(path.stat().st_size for path in rewritten), usage.ru_maxrss * 1024
    print(
        f"{size}, {total / 1e9:.0f} GB in {len(list(source.glob('*.safetensors')))} files, {method}: {seconds:.0f} s "
        f"({cpu:.0f} s of CPU time), {seconds / floor:.1f} times the {floor:.0f} s to copy {len(rewritten)} files with "
        f"{written / 1e9:.1f} GB; "
        f"peak memory {peak / 1e9:.2f} GB, {peak / total:.1%} of the checkpoint"
    )


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


def write_text(path: Path, characters: int) -> None:
    """Write text in an invented language."""
    from relexify.recipes.demo import make_material

    path.write_text("\n".join(make_material(0, 1_000, characters).invented) + "\n")


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
