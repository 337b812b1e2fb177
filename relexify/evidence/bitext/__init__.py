"""Parallel text: files, word alignment, and counts of aligned tokens.

options.py          options: how to read, align and count parallel text
bitext.py           `Bitext`: pairs of sentences, read as often as needed
files.py            the formats of files: two columns, two files of equal length, json lines
encoding.py         tokenize both sides; detect swapped languages
eflomal.py          word alignment in both directions
links.py            `Links`: which tokens or words correspond; read their files
symmetrisation.py   combine the two directions
aligned_tokens.py   all of this in one call: counts of aligned tokens, with word alignments from the cache
overlap.py          find pairs that are also in text to score on
"""

from relexify.evidence.bitext.aligned_tokens import aligned_counts
from relexify.evidence.bitext.bitext import Bitext
from relexify.evidence.bitext.eflomal import align_bitext, import_eflomal
from relexify.evidence.bitext.encoding import EncodedBitext, Side, encode_bitext, looks_swapped
from relexify.evidence.bitext.links import DirectedLinks, Links, parse_links, read_links
from relexify.evidence.bitext.options import WordAlignmentOptions, validate_word_alignment
from relexify.evidence.bitext.overlap import find_overlap, report_overlap
from relexify.evidence.bitext.symmetrisation import symmetrise

__all__ = [
    "Bitext",
    "DirectedLinks",
    "EncodedBitext",
    "Links",
    "Side",
    "WordAlignmentOptions",
    "align_bitext",
    "aligned_counts",
    "encode_bitext",
    "find_overlap",
    "import_eflomal",
    "looks_swapped",
    "parse_links",
    "read_links",
    "report_overlap",
    "symmetrise",
    "validate_word_alignment",
]
