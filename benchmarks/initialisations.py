"""How fast a model learns a new language from each initialisation: bits per byte of held-out text against steps.

    # 1. anywhere: train tokenizer and vectors, write one mixture a method (2 to 5 MB each)
    python benchmarks/initialisations.py prepare runs/sw --corpus sw.train.txt.xz --source-corpus en.train.txt.xz \\
        --dictionary swahili.txt
    # 2. where the GPU is: train from each of them on the same batches in the same order, write runs/sw/curves.json
    python benchmarks/initialisations.py train runs/sw --corpus sw.train.txt.xz --held-out sw.held.txt.xz
    # 3. anywhere: draw
    python benchmarks/initialisations.py plot docs/figure.svg Swahili=runs/sw German=runs/de

Every run sees 64 × 512 tokens a step, AdamW (0.9, 0.98), weight decay 0.01, a linear warm-up of 10 % and linear decay.
`fullrand` is the same model with all parameters random; all other names are relexify's methods.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("blend", "fvt", "wechsel", "random")
BATCH, LENGTH = 64, 512
MEASURED = (25, 50, 100, 150, 200, 250, 500, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("prepare", "train"):
        options = verbs.add_parser(verb)
        options.add_argument("folder", type=Path)
        options.add_argument("--model", default="smollm2-135m")
        options.add_argument("--corpus", required=True)
        options.add_argument("--source-corpus")
        options.add_argument("--dictionary", type=Path)
        options.add_argument("--held-out")
        options.add_argument("--steps", type=int, default=250)
        options.add_argument("--learning-rate", type=float, default=5e-4)
    drawing = verbs.add_parser("plot")
    drawing.add_argument("figure", type=Path)
    drawing.add_argument("runs", nargs="+", metavar="NAME=FOLDER")
    options = parser.parse_args()
    {"prepare": prepare, "train": train, "plot": plot}[options.verb](options)


def prepare(options: argparse.Namespace) -> None:
    import relexify as rx
    from relexify.recipes.mixing import mix

    corpus = rx.Corpus.open(options.corpus)
    recipe = rx.Transfer(
        model=options.model,
        output=options.folder,
        corpus=corpus,
        source_corpus=options.source_corpus,
        dictionary=options.dictionary,
    )
    model, old = rx.load_model(options.model), rx.load_tokenizer(options.model)
    new = rx.train_tokenizer(corpus, like=old, vocab_size=recipe.vocab_size)
    new.save_pretrained(options.folder / "tokenizer")
    for method in METHODS:
        mixture, _ = mix(replace(recipe, method=method), model, old, new, corpus)
        mixture.save(options.folder / f"{method}.safetensors")
        print(method, mixture.counts(), flush=True)


def train(options: argparse.Namespace) -> None:
    import torch

    import relexify as rx

    torch.set_float32_matmul_precision("high")
    source, tokenizer = rx.load_model(options.model).float(), rx.load_tokenizer(options.folder / "tokenizer")
    blocks, held_out, size = read_text(options, tokenizer)
    order = np.random.default_rng(0).permutation(len(blocks))
    learner, curves = None, {}
    for name in (*METHODS, "fullrand"):
        start = time.perf_counter()
        model = fresh(source, tokenizer) if name == "fullrand" else None
        if model is None:
            mixture = rx.Mixture.load(options.folder / f"{name}.safetensors")
            model = rx.graft(source, tokenizer, mixture, seed=0).model
        if learner is None:
            learner = Learner(model.cuda())
        learner.model.load_state_dict(model.state_dict())
        curves[name] = learner.learn(blocks[order], held_out, size, options)
        print(f"{name:9s} {curves[name]}  {time.perf_counter() - start:.0f} s", flush=True)
        notes = {"machine": torch.cuda.get_device_name(), "bits_per_byte": curves}
        (options.folder / "curves.json").write_text(json.dumps(notes, indent=2) + "\n")


def fresh(source: Any, tokenizer: Any) -> Any:
    """The same architecture with random parameters."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(source.config)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    torch.nn.init.normal_(model.get_input_embeddings().weight, std=source.config.initializer_range)
    return model


class Learner:
    """One compiled model that learns from one initialisation after another."""

    def __init__(self, model: Any) -> None:
        import torch

        self.model = model

        def losses(tokens: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                logits = model(input_ids=tokens, use_cache=False).logits
            flat, labels = logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten()
            return torch.nn.functional.cross_entropy(flat, labels, reduction="none").view(len(tokens), -1)

        self.losses = torch.compile(losses)

    def learn(self, blocks: np.ndarray, held_out: Any, size: int, options: argparse.Namespace) -> dict[int, float]:
        import torch

        parameters = list(self.model.parameters())
        optimiser = torch.optim.AdamW(parameters, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01, fused=True)
        warmup, steps = max(1, options.steps // 10), options.steps
        curve = {0: self.measure(held_out, size)}
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = options.learning_rate * min((step + 1) / warmup, (steps - step) / (steps - warmup))
            chosen = (step * BATCH + np.arange(BATCH)) % len(blocks)
            self.losses(torch.from_numpy(blocks[chosen].astype(np.int64)).cuda()).mean().backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            if step + 1 == steps or step + 1 in MEASURED:
                curve[step + 1] = self.measure(held_out, size)
        return curve

    def measure(self, held_out: Any, size: int) -> float:
        import torch

        windows, counted = held_out
        total = 0.0
        self.model.eval()
        with torch.no_grad():
            for start in range(0, len(windows), BATCH):
                chosen = np.arange(start, start + BATCH) % len(windows)
                mask = counted[chosen, 1:] & (np.arange(start, start + BATCH) < len(windows))[:, None]
                losses = self.losses(torch.from_numpy(windows[chosen]).cuda())
                total += float((losses * torch.from_numpy(mask).cuda()).sum())
        self.model.train()
        return round(total / math.log(2) / size, 4)


def read_text(options: argparse.Namespace, tokenizer: Any) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], int]:
    """Training text as blocks of tokens; held-out text as windows after bos, where they count, and its bytes."""
    import relexify as rx

    lines = list(rx.Corpus.open(options.corpus))
    ids: list[int] = []
    for start in range(0, len(lines), 20_000):
        for row in tokenizer(lines[start : start + 20_000], add_special_tokens=False).input_ids:
            ids += [*row, tokenizer.eos_token_id]
    blocks = np.array(ids[: len(ids) // LENGTH * LENGTH], np.int32).reshape(-1, LENGTH)
    text = rx.Corpus.open(options.held_out).sample_bytes(400_000)
    held = tokenizer(text, add_special_tokens=False, verbose=False).input_ids
    windows = np.zeros((-(-len(held) // (LENGTH - 1)), LENGTH), np.int64)
    counted = np.zeros(windows.shape, bool)
    for row, start in enumerate(range(0, len(held), LENGTH - 1)):
        part = held[start : start + LENGTH - 1]
        windows[row, 0] = tokenizer.bos_token_id
        windows[row, 1 : len(part) + 1], counted[row, 1 : len(part) + 1] = part, True
    return blocks, (windows, counted), len(text.encode())


def plot(options: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "relexify"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(options.runs), figsize=(5 * len(options.runs), 3.6), sharey=True)
    for axis, run in zip(np.atleast_1d(axes), options.runs, strict=True):
        name, _, folder = run.partition("=")
        for method, curve in json.loads((Path(folder) / "curves.json").read_text())["bits_per_byte"].items():
            points = [(int(step), value) for step, value in curve.items() if int(step) > 0]
            axis.plot(*zip(*points, strict=True), label=method, linewidth=2.5 if method == "blend" else 1.3)
        axis.set(title=name, xlabel="steps of 32,768 tokens", ylabel="bits per byte")
        axis.grid(alpha=0.3)
    np.atleast_1d(axes)[-1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(options.figure, metadata={"Date": None})


if __name__ == "__main__":
    main()
