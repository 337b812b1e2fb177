"""Rows, time and memory of OFA, FOCUS and OMP for 50,000 tokens, and of the packages that have the same method.

    pip install --no-deps mergekit immutables deepfocus entmax fastdist numba llvmlite fasttext-wheel print-on-steroids
    python benchmarks/initialisers.py                     # all three, and the peers on 500 of the tokens
    python benchmarks/initialisers.py --only omp --tokens 50000 --peer-tokens 500

Both sides get the same vectors of target tokens and of the tokens that they are mixed from, and the same source rows,
all drawn here in clusters. Peers are slow, so they compute the rows of the first tokens only; compare the CPU time per
1,000 tokens. There is no package of OFA: its rows are compared with their definition instead.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

EMBEDDING_WIDTH = 576
WIDTHS = {"ofa": 300, "focus": 300, "omp": 768}
"""Width of the vectors that tokens are compared by: fastText's, and the embedding of a small donor."""
SOURCES = {"ofa": 50_000, "focus": 8_000, "omp": 8_000}
"""Tokens to mix from: the whole source vocabulary, or the tokens that both vocabularies have."""
ATOMS, NEIGHBOURS, TEMPERATURE = 64, 10, 0.1

Rows = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Takes vectors of new tokens [n × w] and of shared tokens [m × w], and source rows of the latter [m × d]."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=50_000, help="target tokens to mix")
    parser.add_argument("--peer-tokens", type=int, default=500, help="tokens that the peer computes; 0 for none")
    parser.add_argument("--only", choices=[*WIDTHS])
    parser.add_argument("--side", choices=["relexify", "peer"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.only, options.side, options.tokens, options.peer_tokens)))
        return
    for method in [options.only] if options.only else [*WIDTHS]:
        sides = {"relexify": options.tokens} | ({"peer": options.peer_tokens} if options.peer_tokens else {})
        found = {side: run_apart(method, side, options.tokens, options.peer_tokens) for side in sides}
        for side, count in sides.items():
            wall, cpu, memory = (found[side][name] for name in ("wall", "cpu", "peak_gb"))
            speed = f"{1_000 * cpu / count:7.2f} s of CPU per 1,000"
            print(f"{method:6s} {side:9s} {count:6,} rows  {wall:7.1f} s  {speed}  {memory:.2f} GB", flush=True)
        if options.peer_tokens:
            ours, theirs = (np.array(found[side]["sample"]) for side in ("relexify", "peer"))
            error = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
            print(f"{method:6s} relative difference of rows: median {np.median(error):.1e}, largest {error.max():.1e}")


def run_apart(method: str, side: str, tokens: int, peer_tokens: int) -> dict[str, Any]:
    """Run one side in a process of its own, so that neither warms the other and each has its own peak memory."""
    command = [sys.executable, __file__, "--only", method, "--side", side, "--tokens", str(tokens)]
    output = subprocess.run(
        [*command, "--peer-tokens", str(peer_tokens)], check=True, stdout=subprocess.PIPE, text=True
    )
    result: dict[str, object] = json.loads(output.stdout.splitlines()[-1])
    return result


def measure(method: str, side: str, tokens: int, peer_tokens: int) -> dict[str, Any]:
    new, shared, source = draw(method, tokens)
    rows = (RELEXIFY if side == "relexify" else PEERS)[method]
    if side == "peer":
        new = new[:peer_tokens]
    rows(new[:2], shared[:100], source[:100])  # imports and compiles
    start, used = time.perf_counter(), sum(os.times()[:4])
    found = rows(new, shared, source)
    return {
        "wall": time.perf_counter() - start,
        "cpu": sum(os.times()[:4]) - used,  # with the processes that it started
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "sample": found[: min(peer_tokens, 100)].tolist(),
    }


def draw(method: str, tokens: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vectors of the tokens to mix and of the tokens to mix from, and the source rows of the latter."""
    generator, width, size = np.random.default_rng(0), WIDTHS[method], SOURCES[method] + tokens
    centres = generator.standard_normal((size // 20, width), dtype=np.float32)
    vectors = 0.3 + centres[generator.integers(0, len(centres), size)]
    vectors += generator.standard_normal((size, width), dtype=np.float32)
    source = generator.standard_normal((SOURCES[method], EMBEDDING_WIDTH), dtype=np.float32)
    return vectors[SOURCES[method] :], vectors[: SOURCES[method]], source


def omp(new: np.ndarray, shared: np.ndarray, source: np.ndarray) -> np.ndarray:
    from relexify.methods.omp import matching_pursuit

    chosen, weights = matching_pursuit(new, shared, ATOMS)
    return mixed(chosen, weights, source)


def focus(new: np.ndarray, shared: np.ndarray, source: np.ndarray) -> np.ndarray:
    from relexify.mixture import sparsemax_products
    from relexify.neighbours import normalise_rows

    return sparsemax_products(normalise_rows(new), normalise_rows(shared)) @ source


def ofa(new: np.ndarray, shared: np.ndarray, source: np.ndarray) -> np.ndarray:
    from relexify.mixture import softmax_weights
    from relexify.neighbours import nearest

    columns, similarities = nearest(new, shared, NEIGHBOURS)
    return mixed(columns, softmax_weights(similarities, TEMPERATURE), source)


def mixed(columns: np.ndarray, weights: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return Σ_j weights[i, j] source[columns[i, j]], in blocks of rows."""
    blocks = range(0, len(columns), 1024)
    return np.concatenate(
        [np.einsum("nk,nkd->nd", weights[i : i + 1024], source[columns[i : i + 1024]]) for i in blocks]
    )


def mergekit_omp(new: np.ndarray, shared: np.ndarray, source: np.ndarray) -> np.ndarray:
    import torch
    from mergekit.tokensurgeon.omp import batch_omp

    chosen, weights = batch_omp(torch.from_numpy(new), torch.from_numpy(shared), ATOMS)
    return mixed(chosen.numpy(), weights.numpy(), source)


def deepfocus_focus(new: np.ndarray, shared: np.ndarray, source: np.ndarray) -> np.ndarray:
    import torch
    from deepfocus.focus import focus_additional_token_initialization
    from deepfocus.vocab_helper import NewToken, OverlappingToken, TokenClass

    def token(id: int) -> TokenClass:
        return TokenClass(str(id), id, str(id), str(id), str(id), str(id), True)

    known = {
        str(id): OverlappingToken([token(id)], token(id), torch.from_numpy(row), torch.from_numpy(shared[id]))
        for id, row in enumerate(source)
    }
    missing = {str(id): NewToken(token(id), torch.from_numpy(row)) for id, row in enumerate(new)}
    rows = torch.zeros(len(new), source.shape[1])
    found: np.ndarray = focus_additional_token_initialization(known, missing, rows).numpy()
    return found


def ofa_by_definition(new: np.ndarray, shared: np.ndarray, source: np.ndarray) -> np.ndarray:
    rows = []
    for vector in new:
        cosines = shared @ vector / np.linalg.norm(shared, axis=1) / np.linalg.norm(vector)
        nearest = np.argsort(-cosines)[:NEIGHBOURS]
        weights = np.exp(cosines[nearest] / TEMPERATURE)
        rows.append(weights @ source[nearest] / weights.sum())
    return np.array(rows)


RELEXIFY: dict[str, Rows] = {"ofa": ofa, "focus": focus, "omp": omp}
PEERS: dict[str, Rows] = {"ofa": ofa_by_definition, "focus": deepfocus_focus, "omp": mergekit_omp}

if __name__ == "__main__":
    main()
