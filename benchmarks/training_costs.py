"""What trainings cost: `relexify estimate` against measurements on this machine, by shape, plan and options.

    python -m benchmarks.training_costs                                  # the shapes of SmolLM2, full training
    python -m benchmarks.training_costs --shapes 1.7B --lora 0 16        # LoRA of rank 16 against full training
    python -m benchmarks.training_costs --shapes 135M --train 60         # also 60 steps of `relexify train`
    python -m benchmarks.training_costs --shapes 135M --plans direct --states float32 8-bit paged --train 250

Only a `config.json` is written for a shape. `relexify estimate --measure` trains a model with random weights and random
tokens in a process of its own. With `--train`, a model with random weights is saved and trained on invented text with
`relexify train`: its speed includes everything that a real training does, except for scores and checkpoints. Weights
and text are the same for all options, so the bits per byte of held-out text at the end say what the moments of AdamW
with 8 bits cost (`--states`, which needs bitsandbytes).

Printed are tokens per second and peak memory of the GPU, estimated and measured, and their ratios. On a CPU, estimates
are those for an H200, so only `measured` says something. Paged moments are in memory that torch does not count. There
is no average of the weights, which only some of the options would have by default.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, get_args

from benchmarks.large_models import letter_tokenizer, write_text
from relexify.training.options import FULL_STATE, OptimiserState

VOCABULARY = 49_152
SHAPES = {
    "tiny": (64, 128, 2, 4, 2),
    "135M": (576, 1536, 30, 9, 3),
    "360M": (960, 2560, 32, 15, 5),
    "1.7B": (2048, 8192, 24, 32, 32),
}
"""Width, width of the feed-forward layers, layers, heads, and heads of keys: those of SmolLM2, and one for a try."""
TEXT = 8_000_000  # characters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["135M", "360M", "1.7B"])
    parser.add_argument("--plans", nargs="+", default=["relexify"])
    parser.add_argument("--lora", nargs="+", type=int, default=[0], metavar="RANK", help="0: full training")
    parser.add_argument(
        "--states", nargs="+", choices=get_args(OptimiserState), default=[FULL_STATE], help="AdamW's moments"
    )
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--vocab-size", type=int, default=VOCABULARY)
    parser.add_argument("--train", type=int, default=0, metavar="STEPS", help="also train on invented text")
    options = parser.parse_args()
    print(f"{options.batch} x {options.length} tokens per step, {options.vocab_size:,} tokens in the vocabulary")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.train:
            write_text(folder / "text.txt", TEXT)
        for shape in options.shapes:
            write_config(folder / shape, shape, options.vocab_size)
            if options.train:
                write_weights(folder / shape, options.vocab_size)
            for plan, rank, state in product(options.plans, options.lora, options.states):
                measure(shape, plan, rank, state, options, folder)


def measure(shape: str, plan: str, rank: int, state: str, options: argparse.Namespace, folder: Path) -> None:
    """Estimate, measure and maybe train one shape, and print a line each."""
    model = folder / shape
    given = ["--batch", str(options.batch), "--length", str(options.length), "--plan", plan]
    given += ["--set", f"lora_rank={rank}"] * (rank > 0)
    given += ["--set", f"optimiser_state={state}", "--set", "average=0"]
    found = relexify(folder, "estimate", model, "--measure", *given)
    estimated, measured = found["estimates"][0], found["measured"]
    speed = estimated["tokens"] / estimated["seconds"]
    memory = sum(estimated["memory"].values())
    name = f"{shape} {plan}{f' LoRA {rank}' if rank else ''}{'' if state == FULL_STATE else f' {state}'}"
    show(name, "measured", speed, measured["tokens_per_second"], memory, measured["memory"])
    if options.train:
        steps = ["--steps", str(options.train), "--set", f"evaluate_every={options.train}"]
        output = folder / f"{shape}-{plan}-{rank}-{state}"
        found = relexify(folder, "train", model, output, "--corpus", folder / "text.txt", *given, *steps)
        shutil.rmtree(output)  # large models would fill the disk
        show(name, "trained", speed, found["training"]["tokens_per_second"], memory, None)
        first, *_, last = (point["bits_per_byte"] for point in found["training"]["curve"]["points"])
        print(f"{name:30s} {first:.4f} bits per byte before the first step, {last:.4f} after the last", flush=True)


def show(name: str, how: str, speed: float, reached: float | None, memory: float, peak: float | None) -> None:
    text = f"{name:30s} {how:8s} too short to measure its speed"
    if reached:
        text = f"{name:30s} {how:8s} {reached:10,.0f} tokens/s, estimated {speed:10,.0f} ({reached / speed:.3f})"
    if peak:
        text += f"; {peak / 1e9:6.1f} GB, estimated {memory / 1e9:6.1f} ({peak / memory:.3f})"
    print(text, flush=True)


def relexify(folder: Path, *arguments: str | Path) -> dict[str, Any]:
    """Run a command, and return its result."""
    command = [sys.executable, "-m", "relexify", "--json", *map(str, arguments)]
    environment = {**os.environ, "RELEXIFY_CACHE": str(folder / "cache")}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def write_config(folder: Path, shape: str, vocab_size: int) -> None:
    from transformers import LlamaConfig

    width, inner, layers, heads, key_heads = SHAPES[shape]
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        architectures=["LlamaForCausalLM"],
    )
    config.save_pretrained(folder)


def write_weights(folder: Path, vocab_size: int) -> None:
    """Write random weights, and a tokenizer."""
    import transformers

    from relexify.pretrained.parameters.fresh import fresh_model

    transformers.logging.disable_progress_bar()
    fresh_model(folder, {}).save_pretrained(folder)
    letter_tokenizer(vocab_size).save_pretrained(folder)


if __name__ == "__main__":
    main()
