"""relexify gives a pretrained language model a new language.

    import relexify as rx

    source, target = rx.WordVectors.load("cc.en.300.bin"), rx.WordVectors.load("cc.sw.300.bin")
    rotation = rx.align(source, target, rx.BilingualLexicon.load("en-sw.tsv"))
    tokenizer = rx.train_tokenizer("swahili.txt", like="gpt2", vocab_size=50_000)
    mixture = rx.wechsel(old_tokenizer, tokenizer, source.rotated(rotation), target)
    graft = rx.graft(model, tokenizer, mixture, seed=0)
    graft.save("gpt2-swahili")

Only what is listed in `__all__` is public. Names are imported at first use, so that reading a dictionary does not load
torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from relexify.methods.registry import METHODS
from relexify.pretrained.kinds import MODEL_KINDS
from relexify.version import __version__

if TYPE_CHECKING:
    from relexify.errors import (
        EvidenceError,
        GraftError,
        InputError,
        MissingExtra,
        OutputError,
        RelexifyError,
        TrainingError,
        VocabularyError,
    )
    from relexify.evidence.alignment import Rotation, align
    from relexify.evidence.alignment.unsupervised import AdversarialTraining, FoundMap, align_unsupervised
    from relexify.evidence.bitext import (
        Bitext,
        WordAlignmentOptions,
        align_bitext,
        aligned_counts,
        encode_bitext,
        read_links,
        symmetrise,
    )
    from relexify.evidence.lexicon import BilingualLexicon, count_words, package_frequencies, vector_frequencies
    from relexify.evidence.vectors import (
        SubwordVectors,
        VectorTraining,
        WordVectors,
        subwords_from_ngrams,
        subwords_from_words,
        train_vectors,
    )
    from relexify.grafting import Graft, graft
    from relexify.methods.blend import blended
    from relexify.methods.copying import neutral, shared, special
    from relexify.methods.focus import focus
    from relexify.methods.fvt import fvt
    from relexify.methods.ramen import aligned_tokens, ramen, ramen_random, ramen_vectors
    from relexify.methods.random import random
    from relexify.methods.shuffle import shuffle
    from relexify.methods.trans_tokens import trans_tokens
    from relexify.methods.translations import translations
    from relexify.methods.wechsel import vector_neighbours, wechsel
    from relexify.mixture import Fallback, Mixture, Origin, PrecomputedRows, blend, first_of
    from relexify.pretrained.loading import load_model, load_tokenizer
    from relexify.pretrained.tokenizers import train_joint_tokenizer, train_tokenizer
    from relexify.recipes.compare.run import run_comparison
    from relexify.recipes.recipe import Recipe, read_recipe
    from relexify.recipes.run import run_recipe
    from relexify.reports import Comparison, plot_curves
    from relexify.scoring import Score, bits_per_byte, bits_per_byte_of_words, bits_per_word, language_model_scores
    from relexify.storage.files import Provenance
    from relexify.systems.bilingual.folder import BilingualBundle
    from relexify.systems.bilingual.model import BilingualModel
    from relexify.systems.bilingual.training import train_bilingual
    from relexify.systems.compression.compress import compressed
    from relexify.systems.compression.model import expanded
    from relexify.systems.compression.options import Compression
    from relexify.systems.transfer.options import Transfer
    from relexify.systems.transfer.run import TransferResult, run_transfer
    from relexify.systems.trelm.embedding import tokens_in_embedding_space
    from relexify.systems.trelm.model.building import with_trilayer
    from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
    from relexify.systems.trelm.options import Trelm
    from relexify.systems.trelm.run import TrelmResult, run_trelm
    from relexify.text import Corpus
    from relexify.tokens import TokenForm, Vocabulary, vocabulary_of
    from relexify.training.curve import Curve, Measurement
    from relexify.training.plan import Stage, Training
    from relexify.training.result import TrainingResult
    from relexify.training.run import train

__all__ = [
    "AdversarialTraining",
    "BilingualBundle",
    "BilingualLexicon",
    "BilingualModel",
    "Bitext",
    "Comparison",
    "Compression",
    "Corpus",
    "Curve",
    "EvidenceError",
    "Fallback",
    "FoundMap",
    "Graft",
    "GraftError",
    "InputError",
    "Measurement",
    "MissingExtra",
    "Mixture",
    "Origin",
    "OutputError",
    "PrecomputedRows",
    "Provenance",
    "Recipe",
    "RelexifyError",
    "Rotation",
    "Score",
    "Stage",
    "SubwordVectors",
    "TokenForm",
    "Training",
    "TrainingError",
    "TrainingResult",
    "Transfer",
    "TransferResult",
    "Trelm",
    "TrelmResult",
    "TriLayerForMaskedLM",
    "VectorTraining",
    "Vocabulary",
    "VocabularyError",
    "WordAlignmentOptions",
    "WordVectors",
    "__version__",
    "align",
    "align_bitext",
    "align_unsupervised",
    "aligned_counts",
    "aligned_tokens",
    "bits_per_byte",
    "bits_per_byte_of_words",
    "bits_per_word",
    "blend",
    "blended",
    "compressed",
    "count_words",
    "encode_bitext",
    "expanded",
    "first_of",
    "focus",
    "fvt",
    "graft",
    "language_model_scores",
    "load_model",
    "load_tokenizer",
    "neutral",
    "package_frequencies",
    "plot_curves",
    "ramen",
    "ramen_random",
    "ramen_vectors",
    "random",
    "read_links",
    "read_recipe",
    "run_comparison",
    "run_recipe",
    "run_transfer",
    "run_trelm",
    "shared",
    "shuffle",
    "special",
    "subwords_from_ngrams",
    "subwords_from_words",
    "symmetrise",
    "tokens_in_embedding_space",
    "train",
    "train_bilingual",
    "train_joint_tokenizer",
    "train_tokenizer",
    "train_vectors",
    "trans_tokens",
    "translations",
    "vector_frequencies",
    "vector_neighbours",
    "vocabulary_of",
    "wechsel",
    "with_trilayer",
]

_MODULES = {
    "EvidenceError": "relexify.errors",
    "GraftError": "relexify.errors",
    "InputError": "relexify.errors",
    "MissingExtra": "relexify.errors",
    "OutputError": "relexify.errors",
    "RelexifyError": "relexify.errors",
    "TrainingError": "relexify.errors",
    "VocabularyError": "relexify.errors",
    "Rotation": "relexify.evidence.alignment",
    "align": "relexify.evidence.alignment",
    "AdversarialTraining": "relexify.evidence.alignment.unsupervised",
    "FoundMap": "relexify.evidence.alignment.unsupervised",
    "align_unsupervised": "relexify.evidence.alignment.unsupervised",
    "WordAlignmentOptions": "relexify.evidence.bitext",
    "Bitext": "relexify.evidence.bitext",
    "align_bitext": "relexify.evidence.bitext",
    "aligned_counts": "relexify.evidence.bitext",
    "encode_bitext": "relexify.evidence.bitext",
    "read_links": "relexify.evidence.bitext",
    "symmetrise": "relexify.evidence.bitext",
    "BilingualLexicon": "relexify.evidence.lexicon",
    "count_words": "relexify.evidence.lexicon",
    "package_frequencies": "relexify.evidence.lexicon",
    "vector_frequencies": "relexify.evidence.lexicon",
    "SubwordVectors": "relexify.evidence.vectors",
    "VectorTraining": "relexify.evidence.vectors",
    "WordVectors": "relexify.evidence.vectors",
    "subwords_from_ngrams": "relexify.evidence.vectors",
    "subwords_from_words": "relexify.evidence.vectors",
    "train_vectors": "relexify.evidence.vectors",
    "Graft": "relexify.grafting",
    "graft": "relexify.grafting",
    "aligned_tokens": "relexify.methods.ramen",
    "blended": "relexify.methods.blend",
    "focus": "relexify.methods.focus",
    "fvt": "relexify.methods.fvt",
    "neutral": "relexify.methods.copying",
    "ramen": "relexify.methods.ramen",
    "ramen_random": "relexify.methods.ramen",
    "ramen_vectors": "relexify.methods.ramen",
    "random": "relexify.methods.random",
    "shared": "relexify.methods.copying",
    "shuffle": "relexify.methods.shuffle",
    "special": "relexify.methods.copying",
    "trans_tokens": "relexify.methods.trans_tokens",
    "translations": "relexify.methods.translations",
    "vector_neighbours": "relexify.methods.wechsel",
    "wechsel": "relexify.methods.wechsel",
    "Fallback": "relexify.mixture",
    "Mixture": "relexify.mixture",
    "Origin": "relexify.mixture",
    "PrecomputedRows": "relexify.mixture",
    "blend": "relexify.mixture",
    "first_of": "relexify.mixture",
    "load_model": "relexify.pretrained.loading",
    "load_tokenizer": "relexify.pretrained.loading",
    "train_joint_tokenizer": "relexify.pretrained.tokenizers",
    "train_tokenizer": "relexify.pretrained.tokenizers",
    "Recipe": "relexify.recipes.recipe",
    "read_recipe": "relexify.recipes.recipe",
    "run_comparison": "relexify.recipes.compare.run",
    "run_recipe": "relexify.recipes.run",
    "Comparison": "relexify.reports",
    "plot_curves": "relexify.reports",
    "Score": "relexify.scoring",
    "bits_per_byte": "relexify.scoring",
    "bits_per_byte_of_words": "relexify.scoring",
    "bits_per_word": "relexify.scoring",
    "language_model_scores": "relexify.scoring",
    "Provenance": "relexify.storage.files",
    "BilingualBundle": "relexify.systems.bilingual.folder",
    "BilingualModel": "relexify.systems.bilingual.model",
    "train_bilingual": "relexify.systems.bilingual.training",
    "compressed": "relexify.systems.compression.compress",
    "expanded": "relexify.systems.compression.model",
    "Compression": "relexify.systems.compression.options",
    "Transfer": "relexify.systems.transfer.options",
    "TransferResult": "relexify.systems.transfer.run",
    "run_transfer": "relexify.systems.transfer.run",
    "with_trilayer": "relexify.systems.trelm.model.building",
    "TriLayerForMaskedLM": "relexify.systems.trelm.model.heads",
    "Trelm": "relexify.systems.trelm.options",
    "TrelmResult": "relexify.systems.trelm.run",
    "run_trelm": "relexify.systems.trelm.run",
    "tokens_in_embedding_space": "relexify.systems.trelm.embedding",
    "Corpus": "relexify.text",
    "TokenForm": "relexify.tokens",
    "Vocabulary": "relexify.tokens",
    "vocabulary_of": "relexify.tokens",
    "Curve": "relexify.training.curve",
    "Measurement": "relexify.training.curve",
    "Stage": "relexify.training.plan",
    "Training": "relexify.training.plan",
    "TrainingResult": "relexify.training.result",
    "train": "relexify.training.run",
}


# The one place that knows who extends whom: lower packages hold registries, upper ones add to them.
MODEL_KINDS.search(
    "relexify.systems.bilingual.kind", "relexify.systems.compression.kind", "relexify.systems.trelm.kind"
)
METHODS.search("relexify.methods", "relexify.systems.trelm.method")


def __getattr__(name: str) -> Any:
    """Import a public name at first use."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'relexify' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
