"""Word alignment with eflomal (Östling and Tiedemann, 2016). It draws samples, so two runs differ in a few links."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import numpy as np

from relexify.errors import EvidenceError, InputError, importing
from relexify.evidence.bitext.encoding import EncodedBitext, Side
from relexify.evidence.bitext.links import DirectedLinks, Links, parse_links
from relexify.progress import count_of, track

__all__ = ["LONGEST", "align_bitext", "import_eflomal"]

LONGEST = 1000
"""Maximum number of tokens of a sentence; longer sentences are not aligned. eflomal accepts at most 1,023."""

logger = logging.getLogger(__name__)


def import_eflomal() -> ModuleType:
    """Import the package eflomal.

    Raises:
        MissingExtra: It is not installed.
    """
    with importing("eflomal", "aligning parallel text", "alignment"):
        import eflomal
    module: ModuleType = eflomal
    return module


def align_bitext(pairs: EncodedBitext) -> DirectedLinks:
    """Align the tokens of every pair, in both directions.

    Lines with an empty side or with more than `LONGEST` tokens get no links.

    Raises:
        MissingExtra: The package eflomal is not installed.
        EvidenceError: No pair can be aligned, or eflomal fails.
    """
    eflomal = import_eflomal()
    lengths = np.stack([pairs.source.lengths, pairs.target.lengths])
    complete, short = (lengths > 0).all(axis=0), (lengths <= LONGEST).all(axis=0)
    lines = np.flatnonzero(complete & short)
    if not len(lines):
        raise EvidenceError(
            f"none of the {len(pairs)} lines of parallel text has from 1 to {LONGEST} tokens on both sides: check that "
            "these are the right files, with one sentence per line"
        )
    if long := int((complete & ~short).sum()):
        pairs_are = count_of(long, "pair is", "pairs are")
        logger.warning("%s not aligned, because one side has more than %d tokens", pairs_are, LONGEST)
    with TemporaryDirectory(prefix="relexify-") as folder, track("aligning with eflomal", None):
        forward, reverse = Path(folder) / "forward", Path(folder) / "reverse"
        source, target = _as_numbers(pairs.source, lines), _as_numbers(pairs.target, lines)
        try:
            eflomal.Aligner().align(source, target, str(forward), str(reverse), quiet=True)
            return DirectedLinks(_read(forward, lines), _read(reverse, lines))
        except (InputError, OSError, RuntimeError) as error:
            raise EvidenceError(
                f"eflomal ended without links for all {len(lines)} pairs ({error}): check that there is space in "
                f"{Path(folder).parent}, or align the text with another tool and give its links (`alignment`)"
            ) from error


def _as_numbers(side: Side, lines: np.ndarray) -> Iterator[str]:
    """Yield each line as token ids, because eflomal would convert the tokens themselves to lower case."""
    for line in lines:
        start, end = side.units[side.lines[line]], side.units[side.lines[line + 1]]
        yield " ".join(map(str, side.ids[start:end].tolist()))


def _read(path: Path, lines: np.ndarray) -> Links:
    links = parse_links(path, expected=len(lines))
    return Links(lines[links.line].astype(np.int32), links.source, links.target)
