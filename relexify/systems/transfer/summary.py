"""The result of a transfer for people: origins of the embeddings, the vector alignment, scores before training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relexify.mixture import Fallback
from relexify.steps import ResultTable
from relexify.storage.work import read_notes

if TYPE_CHECKING:
    from pathlib import Path

    from relexify.evidence.alignment import Rotation
    from relexify.grafting import Graft
    from relexify.systems.transfer.run import TransferResult

__all__ = ["alignment_precision", "summarise_rotation", "summarise_transfer"]

NOISE = 0.005
"""Precision at 1 below which aligned vectors are useless."""

_ORIGINS = {
    "special": "special tokens, copied by role",
    "copied": "copied",
    "mixed": "mixed from evidence",
    "pieces": "mean of source pieces",
    "precomputed": "computed by the method, not mixed",
}


def summarise_transfer(result: TransferResult) -> list[ResultTable | str]:
    """Return where the embeddings come from, the quality of the vector alignment, and the scores before training."""
    summary = _summarise_origins(result.graft)
    if result.rotation is not None:
        summary += summarise_rotation(result.rotation)
    if result.scores:
        rows = [[name, f"{value:.3f}"] for name, value in result.scores.items()]
        summary.append(ResultTable("Before training (lower is better)", [["initialisation", "bits per byte"], *rows]))
    return summary


def alignment_precision(output: Path) -> dict[str, float]:
    """Return the precision at 1 of the vector alignment that a transfer in a folder rests on, if it was measured."""
    quality = (read_notes(output).get("alignment") or {}).get("quality")
    return {} if quality is None else {"P@1 of the vectors": quality["precision"]}


def summarise_rotation(rotation: Rotation) -> list[ResultTable | str]:
    """Return how well the vectors of two languages were aligned, with a warning if they are useless."""
    rows = [["measure", "value"], ["word pairs used", f"{rotation.pairs_used:,} ({rotation.coverage:.1%})"]]
    quality = rotation.quality
    if quality is None:
        return [ResultTable("Alignment of the word vectors", rows)]
    rows += [
        ["held-out words", f"{quality.words:,}"],
        ["precision at 1", f"{quality.precision:.1%}"],
        ["precision at 1 with CSLS", f"{quality.csls_precision:.1%}"],
    ]
    summary: list[ResultTable | str] = [ResultTable("Alignment of the word vectors", rows)]
    if max(quality.precision, quality.csls_precision) < NOISE:
        summary.append(
            "The aligned vectors find almost no translations, so mixtures based on them are mostly noise: use more "
            "text in both languages, on similar topics, or other vectors (--source-vectors, --target-vectors)."
        )
    return summary


def _summarise_origins(graft: Graft) -> list[ResultTable | str]:
    origins = graft.report.origins
    total = max(1, sum(origins.values()))
    fallback = "mean of the source rows" if graft.mixture.fallback is Fallback.MEAN else "random"
    names = {**_ORIGINS, "none": f"no evidence ({fallback})"}
    rows = [
        [name, f"{origins[origin]:,}", f"{origins[origin] / total:.1%}"]
        for origin, name in names.items()
        if origin in origins
    ]
    summary: list[ResultTable | str] = [
        ResultTable("Origin of the target embeddings", [["tokens", "count", "share"], *rows])
    ]
    # A method that has no evidence at all, such as a baseline, is meant to be like that.
    if total / 2 < origins["none"] < total - origins["special"]:
        summary.append(
            "There is no evidence for most tokens: give more evidence, or use --method blend, which combines all types."
        )
    return summary
