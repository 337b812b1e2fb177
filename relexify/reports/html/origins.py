"""Where the embeddings of a model come from: of all tokens, by script, and by position in the vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from relexify.mixture import Mixture, Origin
from relexify.reports.html.atlas import readable_token, script_of
from relexify.reports.html.elements import legend, stacked_bars
from relexify.systems.transfer.assessment.start import Start

__all__ = ["show_origins"]

_ORIGINS = {
    "special": "special tokens",
    "copied": "copied",
    "mixed": "mixed",
    "pieces": "pieces",
    "precomputed": "computed by the method",
    "none": "no evidence",
}
_EXPLAINED = {
    "special": "the embedding of the special token with the same role",
    "copied": "the row of the same source token, unchanged",
    "mixed": "a weighted mean of source tokens that the evidence says are related",
    "pieces": "the mean of the source tokens that spell it",
    "precomputed": "neither copied nor mixed; relexify methods says how",
    "none": "drawn at random, or the mean of all rows",
}
"""A description of the embedding of a token with this origin."""
_BANDS = (1_000, 4_000, 16_000, 64_000)
"""Ends of the bands of the vocabulary, whose first tokens are the most frequent."""
_SCRIPTS = 8
"""Scripts that are shown; the others are one group."""


def show_origins(mixture: Mixture, start: Start | None) -> str:
    """Return the tokens of a model by the origin of their rows, as bars with a legend.

    Args:
        mixture: The mixture of the model.
        start: The transfer that it comes from, if there was one; its text gets a bar of its own.
    """
    origins = np.array([origin.name.lower() for origin in Origin])[mixture.origin]
    rows: dict[str, Mapping[str, float]] = {"all tokens": Counter(origins.tolist())}
    if start is not None and start.text is not None and start.text.origins:
        rows["sample of the text"] = start.text.origins
    scripts, bands = _by_script(mixture, origins), _by_position(origins)
    used = {part for row in rows.values() for part, size in row.items() if size}
    return (
        stacked_bars(rows, _ORIGINS)
        + legend({part: (_ORIGINS[part], about) for part, about in _EXPLAINED.items() if part in used})
        + f"<h3>By script</h3>{stacked_bars(scripts, _ORIGINS)}"
        + f"<h3>By position in the vocabulary, frequent tokens first</h3>{stacked_bars(bands, _ORIGINS)}"
    )


def _by_script(mixture: Mixture, origins: np.ndarray) -> dict[str, Mapping[str, float]]:
    """Count the tokens by script, the most frequent scripts first, and origin."""
    counts: dict[str, Counter[str]] = {}
    for token, origin in zip(mixture.target_tokens, origins, strict=True):
        script = script_of(readable_token(token, mixture.target_spelling)) if origin != "special" else "special tokens"
        counts.setdefault(script, Counter())[origin] += 1
    frequent = sorted(counts, key=lambda script: -counts[script].total())
    shown: dict[str, Mapping[str, float]] = {script: counts[script] for script in frequent[:_SCRIPTS]}
    if len(frequent) > _SCRIPTS:
        shown["other scripts"] = sum((counts[script] for script in frequent[_SCRIPTS:]), Counter())
    return shown


def _by_position(origins: np.ndarray) -> dict[str, Mapping[str, float]]:
    """Count the tokens by band of the vocabulary and origin."""
    bands: dict[str, Mapping[str, float]] = {}
    start = 0
    for end in (*(end for end in _BANDS if end < len(origins)), len(origins)):
        bands[f"{start + 1:,} to {end:,}"] = Counter(origins[start:end].tolist())
        start = end
    return bands
