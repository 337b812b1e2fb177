"""Geometry of embeddings: the variance on their main axes, and the similarity of hidden states in every layer.

    r_p          = Σ_{i ≤ p} σ_i / Σ_i σ_i                      σ_i: eigenvalues of the covariance of the rows
    S_inter(l)   = E_{i ≠ j} cos(h_i, h_j)                      two positions with different tokens, layer l
    S_intra(l)   = E_i E_{j1 ≠ j2} cos(h_{j1}, h_{j2})          two positions with the same token i

(Sections 4.4 and 4.5 of the paper on sub-embeddings, after Ethayarajh 2019 and Cai et al. 2021.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relexify.errors import EvidenceError

__all__ = ["LayerSimilarities", "Principal", "layer_similarities", "principal_components"]


@dataclass(frozen=True)
class Principal:
    """Rows of an embedding on its main axes.

    Attributes:
        points: [n × p], the axis of most variance first.
        ratios: The share of the variance that lies on each axis [p].
    """

    points: np.ndarray
    ratios: np.ndarray

    @property
    def explained(self) -> float:
        """r_p, the share of the variance that all of them show."""
        return float(self.ratios.sum())


@dataclass(frozen=True)
class LayerSimilarities:
    """Mean cosines of hidden states, one for each layer; the first is what goes into the first layer.

    Attributes:
        inter: Of different tokens.
        intra: Of the same token at different positions.
        positions: Number of positions.
    """

    inter: tuple[float, ...]
    intra: tuple[float, ...]
    positions: int


def principal_components(rows: np.ndarray, count: int = 3) -> Principal:
    """Return the main axes of an embedding (PCA), by the eigenvectors of its covariance.

    Args:
        rows: [N × d].
        count: p, at most d.
    """
    rows = np.asarray(rows, dtype=np.float32)
    centred = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    covariance = (centred.T @ centred).astype(np.float64) / max(1, len(rows) - 1)
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(values)[::-1][:count]
    axes = vectors[:, order]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])  # else their signs are by chance
    total = max(float(values.clip(min=0).sum()), 1e-30)
    return Principal(centred @ axes.astype(np.float32), values[order].clip(min=0) / total)


def layer_similarities(
    model: Any, windows: Sequence[Sequence[int]], *, before: Sequence[int] = (), after: Sequence[int] = ()
) -> LayerSimilarities:
    """Return how similar hidden states are, layer by layer; every pair of positions counts, none is sampled.

    Args:
        model: A transformers model; it is called with `output_hidden_states=True`.
        windows: Tokens of pieces of text, each of any length; all positions of all windows are compared.
        before: Special tokens before each window, such as [CLS], which the model reads and which are not compared.
        after: Special tokens after each window.

    Raises:
        EvidenceError: The text has fewer than two different tokens.
    """
    import torch

    ids = np.concatenate([np.asarray(window) for window in windows]) if len(windows) else np.zeros(0, dtype=np.int64)
    if len(np.unique(ids)) < 2:
        raise EvidenceError("the text has fewer than two different tokens: give more of it")
    sums: list[list[np.ndarray]] = []
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for window in windows:
            inputs = torch.tensor([[*before, *window, *after]], device=model.device)
            states = model(input_ids=inputs, output_hidden_states=True).hidden_states
            text = slice(len(before), len(before) + len(window))
            sums.append([state[0, text].float().cpu().numpy() for state in states])
    model.train(was_training)
    layers = [np.concatenate(parts) for parts in zip(*sums, strict=True)]
    pairs = [_mean_cosines(layer, ids) for layer in layers]
    return LayerSimilarities(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), len(ids))


def _mean_cosines(states: np.ndarray, ids: np.ndarray) -> tuple[float, float]:
    """Return the mean cosine of positions with different tokens, and of those with the same one, averaged over tokens.

    With unit vectors u, Σ_{a ≠ b} u_a · u_b = |Σ u|² - n, so no pair is computed.
    """
    wide = states.astype(np.float64)
    units = wide / np.linalg.norm(wide, axis=1, keepdims=True).clip(min=1e-30)
    _, token, counts = np.unique(ids, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), units.shape[1]))
    np.add.at(sums, token, units)
    same = np.einsum("td,td->t", sums, sums)
    different_pairs = float(len(ids)) ** 2 - float((counts.astype(np.float64) ** 2).sum())
    total = sums.sum(axis=0)
    inter = float((total @ total - same.sum()) / different_pairs)
    often = counts > 1
    if not often.any():
        return inter, float("nan")
    intra = (same[often] - counts[often]) / (counts[often] * (counts[often] - 1.0))
    return inter, float(intra.mean())
