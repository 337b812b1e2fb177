"""How fast training goes: relexify's against a plain eager loop over the same text, in one run on one GPU.

    python benchmarks/training_speed.py --model smollm2-135m --corpus german.txt

The plain loop is what one writes first: the model's own loss, bfloat16 autocast, fused AdamW, scaled-dot-product
attention, no compilation. Both take 64 × 512 tokens a step. Printed are tokens a second, the ratio, peak memory, and
the share of the GPU's bfloat16 peak that the model's own operations make up (MFU); the peak is that of a large matrix
product, measured in the same run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

BATCH, LENGTH = 64, 512
PLAIN_STEPS, WARM = 25, 5


def main() -> None:
    import torch

    import relexify as rx
    from relexify.training import Training, train

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    model, tokenizer = rx.load_model(options.model).float().cuda(), rx.load_tokenizer(options.model)
    peak, work = matrix_peak(), flops_a_token(model)
    speed, memory = plain_loop(model, tokenizer, options.corpus)
    report("plain eager loop", speed, speed, memory, work, peak)
    del model
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    training = Training(steps=options.steps, batch=BATCH, length=LENGTH, evaluate_every=options.steps, compile=True)
    with tempfile.TemporaryDirectory() as folder:
        result = train(options.model, Path(folder) / "trained", options.corpus, training)
    memory = torch.cuda.max_memory_allocated() / 2**30
    report("relexify", result.tokens_per_second or 0.0, speed, memory, work, peak)


def plain_loop(model: Any, tokenizer: Any, corpus: str) -> tuple[float, float]:
    """Tokens a second and peak memory of the loop that one writes first."""
    import torch

    import relexify as rx
    from relexify.training.batches import Blocks
    from relexify.training.packing import pack

    blocks = Blocks(pack(rx.Corpus.open(corpus).split()[0], tokenizer), tokenizer, "decoder", length=LENGTH)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    model.train()
    for step in range(PLAIN_STEPS):
        if step == WARM:
            torch.cuda.synchronize()
            begun = time.perf_counter()
        tokens = blocks.batch(list(range(step * BATCH, (step + 1) * BATCH)))["input_ids"].cuda()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    return BATCH * LENGTH * (PLAIN_STEPS - WARM) / seconds, torch.cuda.max_memory_allocated() / 2**30


def flops_a_token(model: Any) -> float:
    """Operations of one token forward and backward: six for each weight that multiplies, and causal attention."""
    config = model.config
    embedding = model.get_input_embeddings().weight.numel()
    weights = sum(parameter.numel() for parameter in model.parameters())
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    multiplying = weights if tied else weights - embedding
    return float(6 * multiplying + 6 * config.num_hidden_layers * LENGTH * config.hidden_size)


def matrix_peak(size: int = 8192, times: int = 30) -> float:
    """Operations a second of a large bfloat16 matrix product."""
    import torch

    left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        left @ right
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        left @ right
    torch.cuda.synchronize()
    return 2 * size**3 * times / (time.perf_counter() - begun)


def report(name: str, speed: float, plain: float, memory: float, work: float, peak: float) -> None:
    print(
        f"{name:18s} {speed:10,.0f} tokens/s  {speed / plain:5.2f} ×  {memory:6.1f} GiB  "
        f"{speed * work / 1e12:6.1f} TFLOP/s  MFU {speed * work / peak:.1%} of {peak / 1e12:.0f} TFLOP/s measured, "
        f"{speed * work / 989e12:.1%} of 989 (data sheet, H100 and H200)",
        flush=True,
    )


if __name__ == "__main__":
    main()
