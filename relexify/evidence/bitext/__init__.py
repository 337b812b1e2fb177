"""Parallel text: files, word alignment, and counts of aligned tokens."""

from relexify.evidence.bitext.aligned_tokens import aligned_counts
from relexify.evidence.bitext.bitext import Bitext
from relexify.evidence.bitext.eflomal import align_bitext, import_eflomal
from relexify.evidence.bitext.encoding import EncodedBitext, Side, Units, encode_bitext, looks_swapped
from relexify.evidence.bitext.links import DirectedLinks, Links, parse_links, read_links
from relexify.evidence.bitext.options import WordAlignmentOptions, validate_word_alignment
from relexify.evidence.bitext.overlap import find_overlap
from relexify.evidence.bitext.symmetrisation import Symmetrisation, symmetrise

__all__ = [
    "Bitext",
    "DirectedLinks",
    "EncodedBitext",
    "Links",
    "Side",
    "Symmetrisation",
    "Units",
    "WordAlignmentOptions",
    "align_bitext",
    "aligned_counts",
    "encode_bitext",
    "find_overlap",
    "import_eflomal",
    "looks_swapped",
    "parse_links",
    "read_links",
    "symmetrise",
    "validate_word_alignment",
]
