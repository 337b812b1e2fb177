"""The table `[bilingual]` of a recipe: how two languages are trained together, with RAMEN's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from relexify.storage.fingerprint import content_of
from relexify.text import Corpus, TextOption
from relexify.training.options import LOOKAHEAD, Training

__all__ = ["RAMEN", "BilingualOptions"]

RAMEN = Training(
    plan="direct",
    batch=64,
    length=256,
    learning_rate=1e-4,
    warmup=0.027,  # 4,000 of the paper's 150,000 steps
    schedule="inverse_sqrt",
    optimiser=LOOKAHEAD,
    # The paper does not report these: no decay, and Adam's usual constants.
    weight_decay=0.0,
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-8,
)
"""The settings of RAMEN's base models (section 3.3), with fewer steps."""


@dataclass(frozen=True)
class BilingualOptions:
    """Options for joining a model and its transferred copy, and for training both languages together.

    Attributes:
        languages: Names of the source and the target language.
        source_corpus: Text in the source language; default: `source_corpus` of `[transfer]`.
        source_held_out: Text in the source language to score on; default: one line in 100 of its text.
        training: How both languages are trained.
    """

    languages: tuple[str, ...] = ("source", "target")
    source_corpus: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    source_held_out: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    training: Training = RAMEN
