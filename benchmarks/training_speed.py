"""Training speed of relexify's plans compared with a plain eager loop over the same text, in one run on one GPU.

    python benchmarks/training_speed.py --model smollm2-135m --corpus german.txt
    python benchmarks/training_speed.py --model all-minilm-l6-v2 --corpus english.txt --batch 256 --length 128

The plain loop is what one writes first: the model's own loss, bfloat16 autocast, fused AdamW, scaled-dot-product
attention, no compilation; its batches are prepared in advance. Printed are tokens per second, the ratio, peak memory,
and the share of the GPU's bfloat16 peak that the model's own operations make up (MFU); the peak is that of a large
matrix product, measured in the same run. The head of a masked language model counts only at masked positions.

The rows of relexify are its own plan (Muon), the papers' plan (AdamW), and the latter without CUDA graph, which shows
what the graph alone is worth at this batch size. The last line is the speed of the own plan as a share of the papers'.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

PLAIN_STEPS, WARM = 25, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    options = parser.parse_args()

    import torch

    import relexify as rx
    from relexify.training.options import Training
    from relexify.training.run import train

    model, tokenizer = rx.load_model(options.model).float().cuda(), rx.load_tokenizer(options.model)
    training = Training(
        steps=options.steps,
        batch=options.batch,
        length=options.length,
        evaluate_every=options.steps,
        compile=True,
    )
    peak, work = matrix_peak(), flops_per_token(model, training)
    speed, memory = plain_loop(model, tokenizer, options.corpus, training)
    report("plain eager loop", speed, speed, memory, work, peak)
    del model
    speeds = []
    for name, plan, context in (
        ("plan relexify", "relexify", nullcontext()),
        ("plan direct", "direct", nullcontext()),
        ("  no CUDA graph", "direct", no_cuda_graph()),
    ):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        planned = replace(training, plan=plan, keep_best=False)
        with context, tempfile.TemporaryDirectory() as folder:
            result = train(options.model, Path(folder) / "trained", options.corpus, planned)
        memory = torch.cuda.max_memory_allocated() / 2**30
        speeds.append(result.tokens_per_second or 0.0)
        report(name, speeds[-1], speed, memory, work, peak)
    print(f"plan relexify / plan direct: {speeds[0] / speeds[1]:.3f}")


@contextmanager
def no_cuda_graph() -> Iterator[None]:
    """Launch the kernels of every step one by one."""
    from relexify.training.engine.cuda_graph import CapturedPass

    recorded = CapturedPass.__call__
    CapturedPass.__call__ = lambda self, arrays: self.run(arrays)  # type: ignore[method-assign]
    try:
        yield
    finally:
        CapturedPass.__call__ = recorded  # type: ignore[method-assign]


def plain_loop(model: Any, tokenizer: Any, corpus: str, training: Any) -> tuple[float, float]:
    """Return tokens per second and peak memory in GiB of the loop that one writes first."""
    import torch

    batches = first_batches(model, tokenizer, corpus, training)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    model.train()
    for step, batch in enumerate(batches):
        if step == WARM:
            torch.cuda.synchronize()
            start = time.perf_counter()
        arrays = {name: rows.cuda() for name, rows in batch.items()}
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(**arrays).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    tokens = training.batch * training.length * (PLAIN_STEPS - WARM)
    return tokens / seconds, torch.cuda.max_memory_allocated() / 2**30


def first_batches(model: Any, tokenizer: Any, corpus: str, training: Any) -> list[dict[str, Any]]:
    """Return batches for the model's own forward; a decoder shifts its labels itself."""
    import relexify as rx
    from relexify.pretrained.architecture import architecture_of
    from relexify.training.data.batches import Blocks
    from relexify.training.data.packing import pack

    kind = architecture_of(model)
    blocks = Blocks(pack(rx.Corpus.open(corpus).split()[0], tokenizer), tokenizer, kind, length=training.length)
    model.config.use_cache = False
    starts = range(0, PLAIN_STEPS * training.batch, training.batch)
    batches = [blocks.batch(list(range(start, start + training.batch))) for start in starts]
    return [batch if kind == "encoder" else batch | {"labels": batch["input_ids"]} for batch in batches]


def flops_per_token(model: Any, training: Any) -> float:
    """Return the operations per token, forward and backward: six for each weight that multiplies, and attention."""
    from torch import nn

    from relexify.pretrained.architecture import architecture_of

    config, encoder = model.config, architecture_of(model) == "encoder"
    head = model.get_output_embeddings().weight
    outside = {id(head)} | {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    inner = sum(weight.numel() for weight in model.parameters() if id(weight) not in outside)
    multiplying = inner + head.numel() * (training.masking if encoder else 1)
    attention = (12 if encoder else 6) * config.num_hidden_layers * training.length * config.hidden_size
    return float(6 * multiplying + attention)


def matrix_peak(size: int = 8192, times: int = 30) -> float:
    """Return the operations per second of a large bfloat16 matrix product."""
    import torch

    left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        left @ right
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        left @ right
    torch.cuda.synchronize()
    return 2 * size**3 * times / (time.perf_counter() - start)


def report(name: str, speed: float, plain: float, memory: float, work: float, peak: float) -> None:
    print(
        f"{name:18s} {speed:10,.0f} tokens/s  {speed / plain:5.2f} ×  {memory:6.1f} GiB  "
        f"{speed * work / 1e12:6.1f} TFLOP/s  MFU {speed * work / peak:.1%} of {peak / 1e12:.0f} TFLOP/s measured, "
        f"{speed * work / 989e12:.1%} of 989 (data sheet, H100 and H200)",
        flush=True,
    )


if __name__ == "__main__":
    main()
