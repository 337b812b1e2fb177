"""What was measured along the phases of TreLM: bits per word after each of them, BLEU of both directions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from relexify.scoring import Score
from relexify.systems.trelm.pair_batches import Direction
from relexify.training.curve import Curve
from relexify.training.job import notes_of
from relexify.training.result import CURVE_FILE

__all__ = ["phase_scores", "phases_of", "trelm_scores"]


def trelm_scores(output: str | Path) -> tuple[Score, ...]:
    """What was measured on a model of TreLM: bits per word, first at its end, and BLEU of both directions.

    Raises:
        InputError: The folder's curve is missing or damaged.
    """
    notes = notes_of(output)
    if "trelm" not in notes:
        return ()
    told = notes["trelm"]
    earlier = (Score(**each) for each in (*told["phases"], *told["translation"]))
    return (*phase_scores(output, told["until"]), *earlier)


def phase_scores(folder: str | Path, phase: str) -> tuple[Score, ...]:
    """Bits per word of every language that a phase was measured on.

    Args:
        folder: What the phase wrote.
        phase: What it is called.

    Raises:
        InputError: The folder's curve is missing or damaged.
    """
    notes = notes_of(folder)
    chosen = Curve.load(Path(folder) / CURVE_FILE).at(notes["training"]["selected_step"])
    measured = notes["held_out"]
    by_language = chosen.by_language or dict.fromkeys(measured, chosen.bits_per_byte)
    return tuple(
        Score(
            f"masked tokens of {language}, {phase}",
            "bits per word",
            by_language[language] * text["bytes"] / text["tokens"],
            False,
            text["tokens"],
        )
        for language, text in measured.items()
    )


def phases_of(work: Path) -> list[dict[str, Any]]:
    """The scores of the phases before the last one, as notes hold them."""
    names = ("commonality", *get_args(Direction))
    return [asdict(score) for name in names for score in phase_scores(work / name, name)]
