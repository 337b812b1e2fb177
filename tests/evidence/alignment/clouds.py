"""Clouds of vectors that differ from their mirror images: clusters of unequal size and width, unequal axes."""

from __future__ import annotations

import numpy as np

from relexify.evidence.alignment.unsupervised.spaces import random_rotation
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import WordVectors


def cloud(words: int, width: int, seed: int, clusters: int = 12) -> np.ndarray:
    random = np.random.default_rng(seed)
    axes = 1 / np.sqrt(1 + 4 * np.arange(width) / width)
    centres = 1.5 * random.normal(size=(clusters, width)) * axes
    sizes = 1 / np.arange(1, clusters + 1)
    member = random.choice(clusters, size=words, p=sizes / sizes.sum())
    spread = random.uniform(0.3, 1.0, size=clusters)[member, None]
    return centres[member] + spread * random.normal(size=(words, width)) * axes


def turned(words: int, width: int, seed: int, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A cloud, the same one rotated with noise and in another order of frequency, and where each word went."""
    random = np.random.default_rng(seed + 1000)
    source = cloud(words, width, seed)
    target = source @ random_rotation(width, random) + noise * source.std() * random.normal(size=source.shape)
    order = np.argsort(np.arange(words) * np.exp(0.3 * random.normal(size=words)))
    return source, target[order], np.argsort(order)


def words_of(matrix: np.ndarray, prefix: str) -> WordVectors:
    return WordVectors([f"{prefix}{row}" for row in range(len(matrix))], matrix.astype(np.float32))


def dictionary(truth: np.ndarray) -> BilingualLexicon:
    """The dictionary of two turned clouds."""
    return BilingualLexicon(tuple((f"s{row}", f"t{position}") for row, position in enumerate(truth)))
