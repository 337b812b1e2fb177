"""Geometry of embeddings and hidden states: variance on main axes, similarity by layer, and the neighbours of a word.

    r_p          = Σ_{i ≤ p} σ_i / Σ_i σ_i                      σ_i: eigenvalues of the covariance of the rows
    S_inter(l)   = E_{i ≠ j} cos(h_i, h_j)                      two positions with different tokens, layer l
    S_intra(l)   = E_i E_{j1 ≠ j2} cos(h_{j1}, h_{j2})          two positions with the same token i

(Sections 4.4 and 4.5 of the paper on sub-embeddings, after Ethayarajh 2019 and Cai et al. 2021. The neighbours of a
word are those of Appendix A of TreLM; how far embeddings move is a question of WECHSEL's first version, 5.4.1.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import EvidenceError
from relexify.neighbours import normalise_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = [
    "EmbeddingChange",
    "HiddenStates",
    "LayerSimilarities",
    "Neighbourhood",
    "Principal",
    "embedding_changes",
    "hidden_states",
    "layer_similarities",
    "neighbourhood",
    "principal_components",
]


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
class EmbeddingChange:
    """How far the embeddings of consecutive tokens have moved.

    Attributes:
        first: The id of the first token.
        last: The id of the last token.
        cosine: Mean cosine of an embedding with what it was before.
        distance: Mean distance from there, relative to the length that it had.
    """

    first: int
    last: int
    cosine: float
    distance: float


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """The states of a text in every layer of a model.

    Attributes:
        ids: The tokens of all positions [positions].
        layers: States [positions × d], one array for each layer; the first is what goes into the first layer.
    """

    ids: np.ndarray
    layers: tuple[np.ndarray, ...]

    def most_frequent(self, among: np.ndarray, count: int) -> list[int]:
        """Return the most frequent tokens of the text.

        Args:
            among: Whether each token may be chosen [tokens].
            count: The largest number of tokens to return.
        """
        tokens, counts = np.unique(self.ids[among[self.ids]], return_counts=True)
        return [int(token) for token in tokens[np.argsort(-counts, kind="stable")[:count]]]


@dataclass(frozen=True)
class LayerSimilarities:
    """Mean cosines of hidden states, one for each layer; the first is what goes into the first layer.

    Attributes:
        inter: Mean cosine of different tokens.
        intra: Mean cosine of the same token at different positions.
        positions: Number of positions.
    """

    inter: tuple[float, ...]
    intra: tuple[float, ...]
    positions: int


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """A word and the words nearest to it in a space.

    Attributes:
        cosines: Cosines of the word with all others [n - 1].
        words: The word itself, then its neighbours, the nearest first.
        points: These words on their two main axes [words × 2].
    """

    cosines: np.ndarray
    words: tuple[str, ...]
    points: np.ndarray


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


def embedding_changes(before: np.ndarray, after: np.ndarray, *, groups: int = 10) -> list[EmbeddingChange]:
    """Return how far embeddings have moved, in the order of the vocabulary.

    A BPE numbers its tokens in the order of its merges, so the first groups have the early merges. Tokens whose
    embedding was zero are left out.

    Args:
        before: [tokens × width].
        after: The same tokens, after training [tokens × width].
        groups: Number of groups of about the same size.

    Raises:
        EvidenceError: The two have different shapes.
    """
    if before.shape != after.shape:
        raise EvidenceError(
            f"embeddings are {list(before.shape)} before and {list(after.shape)} after: give two states of one model"
        )
    lengths = np.linalg.norm(before, axis=1)
    distances = np.linalg.norm(after - before, axis=1)
    cosines = (normalise_rows(before) * normalise_rows(after)).sum(axis=1)
    changes = []
    for ids in np.array_split(np.arange(len(before)), min(groups, len(before))):
        kept = ids[lengths[ids] > 0]
        if len(kept):
            distance = float((distances[kept] / lengths[kept]).mean())
            changes.append(EmbeddingChange(int(ids[0]), int(ids[-1]), float(cosines[kept].mean()), distance))
    return changes


def hidden_states(
    model: PreTrainedModel, windows: Sequence[Sequence[int]], *, before: Sequence[int] = (), after: Sequence[int] = ()
) -> HiddenStates:
    """Run a model on text, and return the states of all positions in all layers.

    Args:
        model: It is called with `output_hidden_states=True`.
        windows: Tokens of pieces of text, each of any length.
        before: Special tokens before each window, such as [CLS], which the model reads, and whose states are left out.
        after: Special tokens after each window.

    Raises:
        EvidenceError: The text has fewer than two different tokens.
    """
    import torch

    from relexify.pretrained.runtime.runnable import evaluating

    ids = np.concatenate([np.asarray(window) for window in windows]) if len(windows) else np.zeros(0, dtype=np.int64)
    if len(np.unique(ids)) < 2:
        raise EvidenceError("the text has fewer than two different tokens: give more of it")
    found: list[list[np.ndarray]] = []
    with evaluating(model), torch.inference_mode():
        for window in windows:
            inputs = torch.tensor([[*before, *window, *after]], device=model.device)
            states = model(input_ids=inputs, output_hidden_states=True).hidden_states
            text = slice(len(before), len(before) + len(window))
            found.append([state[0, text].float().cpu().numpy() for state in states])
    return HiddenStates(ids, tuple(np.concatenate(parts) for parts in zip(*found, strict=True)))


def layer_similarities(states: HiddenStates) -> LayerSimilarities:
    """Return how similar hidden states are, layer by layer; every pair of positions counts, none is sampled."""
    pairs = [_mean_cosines(layer, states.ids) for layer in states.layers]
    return LayerSimilarities(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), len(states.ids))


def neighbourhood(rows: np.ndarray, words: Sequence[str], index: int, count: int = 50) -> Neighbourhood:
    """Return the neighbours of a word, and how similar it is to all others.

    Args:
        rows: Vectors [n × d].
        words: The word of each vector [n].
        index: Row of the word.
        count: Number of neighbours.
    """
    units = normalise_rows(np.asarray(rows, dtype=np.float32))
    cosines = units @ units[index]
    order = np.argsort(-cosines, kind="stable")
    shown = np.concatenate([[index], order[order != index][:count]])
    return Neighbourhood(
        np.delete(cosines, index),
        tuple(words[each] for each in shown),
        principal_components(np.asarray(rows)[shown], 2).points,
    )


def _mean_cosines(states: np.ndarray, ids: np.ndarray) -> tuple[float, float]:
    """Return the mean cosine of positions with different tokens, and of those with the same one, averaged over tokens.

    With unit vectors u, Σ_{a ≠ b} u_a · u_b = |Σ u|² - Σ |u|², so no pair is computed. A state of zeros has a cosine of
    0 with every state, itself included.
    """
    wide = states.astype(np.float64)
    units = wide / np.linalg.norm(wide, axis=1, keepdims=True).clip(min=1e-30)
    _, token, counts = np.unique(ids, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), units.shape[1]))
    np.add.at(sums, token, units)
    same = np.einsum("td,td->t", sums, sums)
    squares = np.bincount(token, np.einsum("nd,nd->n", units, units))
    different_pairs = float(len(ids)) ** 2 - float((counts.astype(np.float64) ** 2).sum())
    total = sums.sum(axis=0)
    inter = float((total @ total - same.sum()) / different_pairs)
    often = counts > 1
    if not often.any():
        return inter, float("nan")
    intra = (same[often] - squares[often]) / (counts[often] * (counts[often] - 1.0))
    return inter, float(intra.mean())
