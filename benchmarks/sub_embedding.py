"""Benchmark sub-embeddings: lookup, head and loss against nn.Embedding and nn.Linear, and clustering 250,000 tokens.

    python benchmarks/sub_embedding.py speed                  # on the CPU, and on a GPU if there is one
    python benchmarks/sub_embedding.py speed --device cuda --compile --tokens 49152 --width 576 --clusters 100
    python benchmarks/sub_embedding.py clustering             # 250,000 × 768; add --equal-size, --tokens, --width

Times are medians of several runs after a warm-up; ratios are dense over factored, above 1 if the factored one is faster
or smaller. GPU memory is the peak of one forward and backward pass, including gradients of parameters; that of
clustering is the growth of the process. The loss of training computes no logits if the head has tables; with
`--compile` it is also measured compiled, in the chunks of training.
"""

from __future__ import annotations

import argparse
import functools
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relexify.systems.compression.codes import clustered_codes, random_codes, smallest_base, table_sizes
from relexify.systems.compression.embedding import FactoredHead, SubEmbedding
from relexify.systems.compression.tables import fitted_tables, reconstruction_error, shared_digits
from relexify.training.loss.chunked import chunked_loss
from relexify.training.protocol import chunked_head


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "clustering"])
    parser.add_argument("--tokens", type=int, default=250_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--clusters", type=int)
    parser.add_argument("--positions", type=int, help="tokens of text at once; 256 on a CPU, 4,096 on a GPU")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="measure on this device only")
    parser.add_argument("--compile", action="store_true", help="also measure the compiled loss, as in training")
    parser.add_argument("--seconds", type=float, default=1.0, help="minimum duration of each measurement")
    parser.add_argument("--equal-size", action="store_true")
    options = parser.parse_args()
    if options.what == "clustering":
        measure_clustering(options)
        return
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here")
    found = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    for device in [options.device] if options.device else found:
        measure_speed(options, device)


def measure_speed(options: argparse.Namespace, device: str) -> None:
    """Compare lookup, head and loss of the dense and the factored embedding."""
    base = options.clusters or smallest_base(options.tokens, options.k)
    positions = options.positions or (4_096 if device == "cuda" else 256)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(0)
    with torch.device(device):
        codes = random_codes(options.tokens, options.k, base)
        small = SubEmbedding(options.tokens, options.width, codes=codes, rows=[base] * options.k, dtype=dtype)
        dense = nn.Embedding(options.tokens, options.width, dtype=dtype)
        linear = nn.Linear(options.width, options.tokens, bias=False, dtype=dtype)
        linear.weight = dense.weight
        ids = torch.randint(0, options.tokens, (positions,))
        hidden = torch.randn(positions, options.width, dtype=dtype, requires_grad=True)
        labels = torch.randint(0, options.tokens, (positions,))
    head = FactoredHead(small)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(
        f"{name}, {dtype}: {options.tokens:,} × {options.width}, "
        f"{options.k} tables of {base} rows, {positions} positions"
    )

    def of_logits(used: nn.Module) -> Callable[[], torch.Tensor]:
        return lambda: cross_entropy(used(hidden).float(), labels, reduction="sum")

    def in_chunks(used: nn.Module, most: int, *, compiled: bool = False) -> Callable[[], torch.Tensor]:
        head = chunked_head(used)
        chunk, loss = head.chunk_positions(most), head.chunk_loss(compiled=compiled)
        return lambda: chunked_loss(hidden, head.loss_weight(), None, labels, chunk=chunk, loss=loss)

    parameters = [dense.weight.numel(), sum(table.numel() for table in small.tables)]
    print(f"  {'parameters':34} {parameters[0]:>12,} {parameters[1]:>12,} {parameters[0] / parameters[1]:>9.0f} ×")
    show = functools.partial(report, device=device, least=options.seconds)
    show("lookup", lambda: dense(ids), lambda: small(ids), backward=False)
    show("head", lambda: linear(hidden), lambda: head(hidden), backward=False)
    show("lookup and its gradient", lambda: dense(ids).sum(), lambda: small(ids).sum(), backward=True)
    show("logits, loss and gradient", of_logits(linear), of_logits(head), backward=True)
    for what, most, compiled in (
        ("loss of training and gradient", positions, False),
        ("the same in four chunks", max(1, positions // 4), False),
        ("the same compiled", 32_768, True),
    ):
        if options.compile or not compiled:
            both = [in_chunks(used, most, compiled=compiled) for used in (linear, head)]
            show(what, *both, backward=True)


def report(what: str, dense: Callable, factored: Callable, *, device: str, backward: bool, least: float) -> None:
    """Print milliseconds of both and their ratio, and megabytes if the device reports them."""
    found = [measured(each, device, backward, least) for each in (dense, factored)]
    (slow, much), (fast, little) = found
    line = f"  {what:34} {1e3 * slow:>9.2f} ms {1e3 * fast:>9.2f} ms {slow / fast:>9.2f} ×"
    print(
        line + (f"   {much / 1e6:>8,.0f} MB {little / 1e6:>8,.0f} MB {much / max(little, 1):>6.1f} ×" if much else "")
    )


def measured(run: Callable, device: str, backward: bool, least: float) -> tuple[float, int]:
    """Return the median seconds of a call, and the bytes that it added at its peak."""

    def once() -> None:
        result = run()
        if backward:
            result.backward()
        if device == "cuda":
            torch.cuda.synchronize()

    with torch.set_grad_enabled(backward):
        for _ in range(3):
            once()
        before = 0
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        times: list[float] = []
        while sum(times) < least or len(times) < 5:
            start = time.perf_counter()
            once()
            times.append(time.perf_counter() - start)
        peak = torch.cuda.max_memory_allocated() - before if device == "cuda" else 0
    return statistics.median(times), peak


def measure_clustering(options: argparse.Namespace) -> None:
    """Cluster random rows that form groups of groups, as the tokens of a language do."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((options.tokens, options.width), dtype=np.float32)
    for groups in (100, 10_000):
        centres = draw.standard_normal((groups, options.width), dtype=np.float32)
        rows += centres[draw.integers(0, groups, options.tokens)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    codes = clustered_codes(rows, options.k, options.clusters, equal_size=options.equal_size)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sizes = table_sizes(codes)
    kind = "equal size" if options.equal_size else "plain k-means"
    print(f"{options.tokens:,} × {options.width}, k = {options.k}, {kind}: tables of {sizes} rows")
    print(f"  {wall:.0f} s wall, {cpu:.0f} s CPU")
    print(f"  {(after - before) / 1e6:.2f} GB in addition to the rows, {after / 1e6:.2f} GB in all")
    error = reconstruction_error(rows, codes, fitted_tables(rows, codes, sizes))
    alike, unlike = shared_digits(rows, codes)
    print(f"  relative error {error:.3f}; digits shared with the nearest token {alike:.2f}, at random {unlike:.2f}")


if __name__ == "__main__":
    main()
