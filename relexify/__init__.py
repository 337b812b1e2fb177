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
        blended,
        fvt,
        neutral,
        random,
        shared,
        shuffle,
        special,
        translations,
        vector_neighbours,
        wechsel,
    )
    from relexify.mixture import Mixture, Origin, ReadyRows, blend, first_of
    from relexify.recipes import (
        RecipeFile,
        Transfer,
        TransferResult,
        read_recipe,
        run_comparison,
        run_recipe,
        run_transfer,
    )
    from relexify.reports import Comparison, plot_curves
    from relexify.scoring import Score, bits_per_byte, language_model_scores
    from relexify.text import Corpus
    from relexify.tokens import (
        SubwordVectors,
        TokenForm,
        Vocabulary,
        subwords_from_ngrams,
        subwords_from_words,
        vocabulary_of,
    )
    from relexify.training import Curve, Measurement, Stage, Training, TrainingResult, train
    from relexify.vectors import Rotation, VectorTraining, WordVectors, align, train_vectors

__version__ = "0.1.0"

__all__ = [
    "AdversarialTraining",
    "BilingualLexicon",
    "Comparison",
    "Corpus",
    "Curve",
    "EvidenceError",
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
    "VectorTraining",
    "Vocabulary",
    "VocabularyError",
    "WordVectors",
    "__version__",
    "align",
    "align_unsupervised",
    "bits_per_byte",
    "blend",
    "blended",
    "count_words",
    "first_of",
    "fvt",
    "graft",
    "language_model_scores",
    "load_model",
    "load_tokenizer",
    "neutral",
    "package_frequencies",
    "plot_curves",
    "random",
    "read_recipe",
    "run_comparison",
    "run_recipe",
    "run_transfer",
    "shared",
    "shuffle",
    "special",
    "subwords_from_ngrams",
    "subwords_from_words",
    "tokens_in_embedding_space",
    "train",
    "train_joint_tokenizer",
    "train_tokenizer",
    "train_vectors",
    "translations",
    "vector_frequencies",
    "vector_neighbours",
    "vocabulary_of",
    "wechsel",
]

_ROOMS = (
    "errors", "artifacts", "text", "lexicon", "vectors", "tokens", "mixture", "methods", "adversarial", "grafting",
    "scoring", "training", "reports", "recipes",
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
