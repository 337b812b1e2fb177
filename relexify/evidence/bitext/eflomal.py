"""Align parallel text with eflomal (Östling and Tiedemann, 2016), which samples: two runs differ in a few links."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from relexify.errors import EvidenceError, InputError, MissingExtra
from relexify.evidence.bitext.encoding import EncodedBitext, Side
from relexify.evidence.bitext.links import DirectedLinks, Links
from relexify.evidence.bitext.pharaoh import parse_links
from relexify.progress import track

__all__ = ["LONGEST", "align_bitext", "import_eflomal"]

LONGEST = 1000
"""Tokens of the longest sentence that is aligned; eflomal takes no more than 1,023."""

logger = logging.getLogger(__name__)


def import_eflomal() -> Any:
    """The package eflomal.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import eflomal
    except ImportError as error:
        raise MissingExtra("eflomal", "aligning parallel text", "alignment") from error
    return eflomal


def align_bitext(pairs: EncodedBitext) -> DirectedLinks:
    """Align the tokens of every pair, in both directions.

    Lines with an empty side or with more than `LONGEST` tokens get no links.

    Raises:
        MissingExtra: The package eflomal is not installed.
        EvidenceError: No pair can be aligned, or eflomal fails.
    """
    eflomal = import_eflomal()
    lines = _alignable(pairs)
    with TemporaryDirectory(prefix="relexify-") as folder, track("aligning with eflomal", None):
        files = [Path(folder) / name for name in ("forward", "reverse")]
        sides = _spelled(pairs.source, lines), _spelled(pairs.target, lines)
        try:
            eflomal.Aligner().align(*sides, *(str(file) for file in files), quiet=True)
            forward, reverse = (_read(file, lines) for file in files)
        except (InputError, OSError, RuntimeError) as error:
            raise EvidenceError(
                f"eflomal ended without an alignment of all {len(lines)} pairs ({error}): is there room in "
                f"{Path(folder).parent}? Else align the text otherwise and give --alignment"
            ) from error
    return DirectedLinks(forward, reverse)


def _alignable(pairs: EncodedBitext) -> np.ndarray:
    """The lines that eflomal takes, int64 [n]."""
    lengths = np.stack([pairs.source.lengths, pairs.target.lengths])
    complete, short = (lengths > 0).all(axis=0), (lengths <= LONGEST).all(axis=0)
    lines = np.flatnonzero(complete & short)
    if not len(lines):
        raise EvidenceError(
            f"none of the {len(pairs)} lines of parallel text has tokens on both sides: are these the right files?"
        )
    if long := int((complete & ~short).sum()):
        logger.warning("%d pairs have more than %d tokens and are left out of the alignment", long, LONGEST)
    return lines


def _spelled(side: Side, lines: np.ndarray) -> Iterator[str]:
    """Ids in place of tokens: eflomal would lower the case of letters."""
    for line in lines:
        start, end = side.units[side.lines[line]], side.units[side.lines[line + 1]]
        yield " ".join(map(str, side.ids[start:end].tolist()))


def _read(path: Path, lines: np.ndarray) -> Links:
    links = parse_links(path, expected=len(lines))
    return Links(lines[links.line].astype(np.int32), links.source, links.target)
