"""Models of our own around those of transformers."""

from relexify.models.biaffine import BiaffineConfig, BiaffineOutput, BiaffineParser
from relexify.models.clustered_codes import clustered_codes
from relexify.models.compressed import compressed_class, expanded, is_compressed, lexical_names
from relexify.models.compressing import Compression, CompressionReport, compressed
from relexify.models.factored_head import FactoredHead
from relexify.models.sub_codes import digit_codes, smallest_base
from relexify.models.sub_embedding import SubEmbedding

__all__ = [
    "BiaffineConfig",
    "BiaffineOutput",
    "BiaffineParser",
    "Compression",
    "CompressionReport",
    "FactoredHead",
    "SubEmbedding",
    "clustered_codes",
    "compressed",
    "compressed_class",
    "digit_codes",
    "expanded",
    "is_compressed",
    "lexical_names",
    "smallest_base",
]
