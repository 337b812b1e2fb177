"""Models of our own around those of transformers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relexify.models.biaffine import BiaffineConfig, BiaffineOutput, BiaffineParser
    from relexify.models.bilingual import BilingualConfig, BilingualModel
    from relexify.models.bilingual_folder import Bilingual, exported, load_bilingual_model, load_speaker
    from relexify.models.clustering import clustered_codes
    from relexify.models.compressed_model import compressed_class, expanded, is_compressed, lexical_names
    from relexify.models.compressing import CompressionReport, compressed
    from relexify.models.compression_options import Compression
    from relexify.models.factored_head import FactoredHead
    from relexify.models.sub_codes import digit_codes, smallest_base
    from relexify.models.sub_embedding import SubEmbedding
    from relexify.models.trilayer import TriLayerForMaskedLM, TriLayerModel, TriLayerOutput
    from relexify.models.trilayer_building import with_trilayer
    from relexify.models.trilayer_combining import combined, half_pattern
    from relexify.models.trilayer_config import TriLayerConfig
    from relexify.models.trilayer_folder import check_fits, export_language, load_tokenizers, save_tokenizers
    from relexify.models.trilayer_vocabularies import one_language

_PLACES = {
    "BiaffineConfig": "biaffine",
    "BiaffineOutput": "biaffine",
    "BiaffineParser": "biaffine",
    "Bilingual": "bilingual_folder",
    "BilingualConfig": "bilingual",
    "BilingualModel": "bilingual",
    "Compression": "compression_options",
    "CompressionReport": "compressing",
    "FactoredHead": "factored_head",
    "SubEmbedding": "sub_embedding",
    "TriLayerConfig": "trilayer_config",
    "TriLayerForMaskedLM": "trilayer",
    "TriLayerModel": "trilayer",
    "TriLayerOutput": "trilayer",
    "check_fits": "trilayer_folder",
    "clustered_codes": "clustering",
    "combined": "trilayer_combining",
    "compressed": "compressing",
    "compressed_class": "compressed_model",
    "digit_codes": "sub_codes",
    "expanded": "compressed_model",
    "export_language": "trilayer_folder",
    "exported": "bilingual_folder",
    "half_pattern": "trilayer_combining",
    "is_compressed": "compressed_model",
    "lexical_names": "compressed_model",
    "load_bilingual_model": "bilingual_folder",
    "load_speaker": "bilingual_folder",
    "load_tokenizers": "trilayer_folder",
    "one_language": "trilayer_vocabularies",
    "save_tokenizers": "trilayer_folder",
    "smallest_base": "sub_codes",
    "with_trilayer": "trilayer_building",
}

__all__ = [
    "BiaffineConfig",
    "BiaffineOutput",
    "BiaffineParser",
    "Bilingual",
    "BilingualConfig",
    "BilingualModel",
    "Compression",
    "CompressionReport",
    "FactoredHead",
    "SubEmbedding",
    "TriLayerConfig",
    "TriLayerForMaskedLM",
    "TriLayerModel",
    "TriLayerOutput",
    "check_fits",
    "clustered_codes",
    "combined",
    "compressed",
    "compressed_class",
    "digit_codes",
    "expanded",
    "export_language",
    "exported",
    "half_pattern",
    "is_compressed",
    "lexical_names",
    "load_bilingual_model",
    "load_speaker",
    "load_tokenizers",
    "one_language",
    "save_tokenizers",
    "smallest_base",
    "with_trilayer",
]


def __getattr__(name: str) -> Any:
    """Import a public name at first use, so that options can be read without the import of torch."""
    if name in _PLACES:
        return getattr(import_module(f"relexify.models.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'relexify.models' has no attribute {name!r}")
