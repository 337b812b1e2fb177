"""Options of word alignment, and of counting the aligned tokens."""

from __future__ import annotations

from dataclasses import dataclass

from relexify.errors import InputError, check_choices
from relexify.evidence.bitext.encoding import Units
from relexify.evidence.bitext.files import FIELDS
from relexify.evidence.bitext.symmetrisation import Symmetrisation

__all__ = ["WordAlignmentOptions", "validate_word_alignment"]


@dataclass(frozen=True)
class WordAlignmentOptions:
    """How parallel text is read, its words are aligned, and the aligned tokens are counted.

    Attributes:
        symmetrisation: How the two directions of a word alignment are combined.
        units: What the links of a word alignment count: `tokens` of the two tokenizers, or `words` separated by white
            space.
        fields: For json lines: the fields with the two sentences, the source language first.
        swapped: The parallel text and its word alignment have the target language first.
        most_pairs: Largest number of lines that are aligned, evenly spread over the text.
        smoothing: Added to the count of every pair of tokens that occurs.
        min_count: Pairs of tokens with a lower count are left out.
    """

    symmetrisation: Symmetrisation = "grow-diag-final-and"
    units: Units = "tokens"
    fields: tuple[str, str] = FIELDS
    swapped: bool = False
    most_pairs: int = 2_000_000
    smoothing: float = 0.0
    min_count: float = 1.0


def validate_word_alignment(options: WordAlignmentOptions) -> None:
    """Validate the options.

    Raises:
        InputError: An option has an impossible value.
    """
    check_choices(options, before="aligning.")
    if len(options.fields) != 2:
        raise InputError(f"{len(options.fields)} fields are named: parallel text has two sides, so name two")
    if options.most_pairs < 1:
        raise InputError(f"`aligning.most_pairs={options.most_pairs}` is not possible: give 1 or more")
    for name in ("smoothing", "min_count"):
        if not 0 <= getattr(options, name) < float("inf"):
            raise InputError(f"`aligning.{name}={getattr(options, name)}` is not possible: give 0 or more")
