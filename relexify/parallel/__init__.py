"""Parallel text: pairs of sentences that say the same, and which of their tokens correspond."""

from relexify.parallel.bitext import Bitext
from relexify.parallel.counting import aligned_counts
from relexify.parallel.eflomal_alignment import align_bitext, eflomal_module
from relexify.parallel.encoding import EncodedBitext, Side, Units, encode_bitext, looks_swapped
from relexify.parallel.links import DirectedLinks, Links
from relexify.parallel.options import Aligning, check_aligning
from relexify.parallel.pharaoh import parse_links, read_links
from relexify.parallel.symmetrisation import Symmetrisation, symmetrise

__all__ = [
    "Aligning",
    "Bitext",
    "DirectedLinks",
    "EncodedBitext",
    "Links",
    "Side",
    "Symmetrisation",
    "Units",
    "align_bitext",
    "aligned_counts",
    "check_aligning",
    "eflomal_module",
    "encode_bitext",
    "looks_swapped",
    "parse_links",
    "read_links",
    "symmetrise",
]
