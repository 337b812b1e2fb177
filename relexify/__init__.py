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

if TYPE_CHECKING:
    from relexify.adversarial import AdversarialTraining, FoundMap, align_unsupervised, tokens_in_embedding_space
    from relexify.artifacts import Provenance
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
    from relexify.grafting import Graft, graft, load_model, load_tokenizer, train_joint_tokenizer, train_tokenizer
    from relexify.lexicon import BilingualLexicon, count_words, package_frequencies, vector_frequencies
    from relexify.methods import (
        aligned_tokens,
        blended,
        focus,
        fvt,
        neutral,
        ramen,
        ramen_random,
        ramen_vectors,
        random,
        shared,
        shuffle,
        special,
        trans_tokens,
        translations,
        vector_neighbours,
        wechsel,
    )
    from relexify.mixture import Fallback, Mixture, Origin, ReadyRows, blend, first_of
    from relexify.models import (
        Bilingual,
        BilingualModel,
        Compression,
        TriLayerForMaskedLM,
        compressed,
        expanded,
        with_trilayer,
    )
    from relexify.parallel import (
        Aligning,
        Bitext,
        align_bitext,
        aligned_counts,
        encode_bitext,
        read_links,
        symmetrise,
    )
    from relexify.recipes import (
        RecipeFile,
        Transfer,
        TransferResult,
        Trelm,
        TrelmResult,
        read_recipe,
        run_comparison,
        run_recipe,
        run_transfer,
        run_trelm,
    )
    from relexify.reports import Comparison, plot_curves
    from relexify.scoring import Score, bits_per_byte, bits_per_byte_of_words, bits_per_word, language_model_scores
    from relexify.text import Corpus
    from relexify.tokens import (
        SubwordVectors,
        TokenForm,
        Vocabulary,
        subwords_from_ngrams,
        subwords_from_words,
        vocabulary_of,
    )
    from relexify.training import Curve, Measurement, Stage, Training, TrainingResult, train, train_bilingual
    from relexify.vectors import Rotation, VectorTraining, WordVectors, align, train_vectors

__version__ = "0.1.0"

__all__ = [
    "AdversarialTraining",
    "Aligning",
    "Bilingual",
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
    "Provenance",
    "ReadyRows",
    "RecipeFile",
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

_ROOMS = (
    "errors", "artifacts", "text", "lexicon", "vectors", "tokens", "parallel", "mixture", "methods", "adversarial",
    "grafting", "scoring", "models", "training", "reports", "recipes",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name at first use, from the lowest room that has it."""
    if name in __all__:
        for room in _ROOMS:
            module = import_module(f"relexify.{room}")
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'relexify' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
