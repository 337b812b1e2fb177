"""Parallel text: readers, word alignment and counts of aligned tokens."""

from relexify.evidence.bitext.bitext import Bitext
from relexify.evidence.bitext.counting import aligned_counts
from relexify.evidence.bitext.eflomal import align_bitext, eflomal_module
from relexify.evidence.bitext.encoding import EncodedBitext, Side, Units, encode_bitext, looks_swapped
from relexify.evidence.bitext.links import DirectedLinks, Links
from relexify.evidence.bitext.options import Aligning, check_aligning
from relexify.evidence.bitext.pharaoh import parse_links, read_links
from relexify.evidence.bitext.symmetrisation import Symmetrisation, symmetrise

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
