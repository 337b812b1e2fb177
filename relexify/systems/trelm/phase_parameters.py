"""Which parameters a phase of TreLM trains (section 3.3)."""

from __future__ import annotations

from typing import Literal

from relexify.systems.trelm.model.combining import half_pattern
from relexify.systems.trelm.model.trilayer import TriLayerForMaskedLM

__all__ = ["Phase", "phase_pattern"]

Phase = Literal["commonality", "source-to-target", "target-to-source", "specific", "specific with next sentences"]

_FOLLOWS = r"model\.backbone\.pooler\.|next_sentence\."
_SOURCE = r"model\.source_words\.|head\.source_decoder\."


def phase_pattern(model: TriLayerForMaskedLM, phase: Phase) -> str:
    """A regular expression for the parameters that a phase trains: those that are not frozen and that its text reaches.

    With a vocabulary for each language, the source language's is left as it is once no text of that language comes.
    """
    if phase == "commonality":  # "only the embeddings and TRILayer are updated"
        inside = "|".join(
            (r"backbone\.embeddings", "language_embeddings", "source_words", "placeholder", "widening", "trilayer")
        )
        return rf"^model\.({inside})(\.|$)|^head\.(narrowing|decoder|source_decoder)\."
    if phase == "specific":
        return f"^(?!{_FOLLOWS}|{_SOURCE})"
    if phase == "specific with next sentences":
        return f"^(?!{_SOURCE})"
    half = half_pattern(model, "lower" if phase == "source-to-target" else "upper").removeprefix("^")
    # Nothing is written in the source language on the way from it.
    unasked = r"|head\.source_decoder\." if phase == "source-to-target" else ""
    return f"^(?!{half}|{_FOLLOWS}{unasked})"
