"""How long it takes to identify a model by its content, against a plain sha256 of the same file.

    python benchmarks/fingerprints.py --gigabytes 2

Cached scores and priors are found by a fingerprint of the parameters, which are hashed on all cores, and the provenance
of a transfer has the sha256 of its files. The model is a Llama with random weights in bfloat16. Printed are wall and
CPU seconds per gigabyte of the file, which is in the page cache, and the ratios to plain sha256.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

WIDTH, INNER = 1024, 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    options = parser.parse_args()

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from relexify.pretrained.files.weights import sha256_of_weights
    from relexify.storage.files import sha256_of
    from relexify.storage.fingerprint import fingerprint

    layer = 2 * (4 * WIDTH**2 + 3 * WIDTH * INNER)  # bytes
    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=max(1, round(options.gigabytes * 1e9 / layer)),
        num_attention_heads=16,
        num_key_value_heads=16,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size="1TB")
        file = Path(folder) / "model.safetensors"
        size = file.stat().st_size / 1e9
        runs: dict[str, Callable[[], object]] = {
            "plain sha256": lambda: sha256_of(file),
            "read": lambda: read(file),
            "sha256_of_weights": lambda: sha256_of_weights(folder),
            "fingerprint(model)": lambda: fingerprint(model),
        }
        read(file)
        plain = (0.0, 0.0)
        for name, work in runs.items():
            start, used = time.perf_counter(), time.process_time()
            work()
            wall, cpu = time.perf_counter() - start, time.process_time() - used
            plain = (wall, cpu) if name == "plain sha256" else plain
            print(
                f"{name:20s} {wall / size:6.2f} s/GB wall ({wall / plain[0]:.2f} x), {cpu / size:6.2f} s/GB CPU "
                f"({cpu / plain[1]:.2f} x)",
                flush=True,
            )


def read(file: Path) -> None:
    with open(file, "rb") as stream:
        while stream.read(1 << 20):
            pass


if __name__ == "__main__":
    main()
