"""What TreLM is told: texts, objective, and how each phase is trained."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from relexify.errors import InputError
from relexify.evidence.bitext import WordAlignmentOptions, validate_word_alignment
from relexify.steps import ModelName
from relexify.text import TextInput
from relexify.training.plan import Training

__all__ = ["COMMONALITY", "SPECIFIC", "TRANSFER", "Direction", "Objective", "Trelm", "check_objective", "check_trelm"]

Objective = Literal["cdlm", "tlm", "brlm"]
"""CdLM writes the translation; TLM fills gaps in a sentence and its translation, written one after the other; BRLM
fills them from the last state of the word that the gap is aligned to."""
Direction = Literal["source-to-target", "target-to-source"]

COMMONALITY = Training(
    steps=20_000, batch=128, length=511, learning_rate=3e-5, beta2=0.999, epsilon=1e-8, weight_decay=0.01
)
"""Section 4.1; of the paper's 512 tokens one is the placeholder [P]."""
TRANSFER = COMMONALITY
"""The same, for each of the two directions."""
SPECIFIC = replace(COMMONALITY, steps=80_000, learning_rate=2e-5, warmup=0.0)
"""The paper gives an initial rate here and a peak above, hence no warm-up."""


@dataclass(frozen=True)
class Trelm:
    """How a masked language model goes over to another language.

    Attributes:
        languages: What the model's language and the new one are called.
        source_corpus: Text in the model's language.
        source_held_out: Text in the model's language to measure on; where none is given, a part of it is kept aside.
        bitext: Sentences in the model's language and their translations.
        alignment: A ready alignment of it; eflomal aligns it if not given.
        aligning: How parallel text is read; its symmetrisation, smoothing and min_count have no meaning here.
        test_bitext: Other pairs, to measure translations on at the end of transfer training.
        vocabularies: `joint`: the model has one vocabulary for both languages. `separate`: it has that of the new
            language, the model that it came from has its own, and each language keeps its vocabulary and word
            embeddings; there are no language embeddings then.
        source_model: The model that it came from, for separate vocabularies; in a recipe with `[transfer]` it is known.
        objective: What is learnt from pairs: `cdlm`, or `tlm` or `brlm` in its place.
        trilayer: Whether there is a TRILayer; without it, the objective is `tlm` or `brlm`.
        until: The last phase: `specific`, or `commonality` to stop after the first one, as the paper's Table 5 does.
        embedding_size: Width of the word embeddings, where it is not the model's.
        next_sentence: Ask for next sentences in the last phase; where the model can, if not said.
        source_words: How sacrebleu cuts the model's language into words: `13a`, `char`, …
        target_words: The same of the new language.
        commonality: How both languages are trained together.
        transfer: How each direction is trained.
        specific: How the new language is trained at the end.
        seed: Of the language embeddings; that of texts and masks is each training's own.
    """

    languages: tuple[str, ...] = ("source", "target")
    source_corpus: TextInput | None = None
    source_held_out: TextInput | None = None
    bitext: TextInput | None = None
    alignment: Path | None = None
    aligning: WordAlignmentOptions = field(default_factory=WordAlignmentOptions)
    test_bitext: TextInput | None = None
    vocabularies: Literal["joint", "separate"] = "joint"
    source_model: ModelName | None = None
    objective: str = "cdlm"
    trilayer: bool = True
    until: Literal["commonality", "specific"] = "specific"
    embedding_size: int | None = None
    next_sentence: bool | None = None
    source_words: str = "13a"
    target_words: str = "13a"
    commonality: Training = COMMONALITY
    transfer: Training = TRANSFER
    specific: Training = SPECIFIC
    seed: int = 0


def check_trelm(options: Trelm) -> None:
    """Refuse what cannot be, before any work is done.

    Raises:
        InputError: A text is missing, or an option has an impossible value.
    """
    for name in ("source_corpus", *(() if options.until == "commonality" else ("bitext",))):
        if getattr(options, name) is None:
            raise InputError(f"TreLM lacks {name}: give it with --{name.replace('_', '-')}, or in [trelm] of a recipe")
    if len(options.languages) != 2 or len(set(options.languages)) != 2:
        raise InputError(f"the languages are called {list(options.languages)}: give two different names")
    check_objective(options.objective)
    if options.objective == "cdlm" and not options.trilayer:
        raise InputError("CdLM asks for a TRILayer: take the objective tlm or brlm without one")
    if options.until not in ("commonality", "specific"):
        raise InputError(f"there is no phase {options.until!r} to stop after: choose commonality or specific")
    _check_vocabularies(options)
    validate_word_alignment(options.aligning)
    if options.alignment is None and options.aligning.units == "words":
        raise InputError('units = "words" is for a ready alignment: give it with --alignment, or leave units out')
    for name in ("commonality", "transfer", "specific"):
        if getattr(options, name).stages:
            raise InputError(f"[trelm.{name}] has stages, but a phase of TreLM is one: give its steps")


def check_objective(objective: str) -> None:
    """Refuse an objective that there is not.

    Raises:
        InputError: There is no such objective.
    """
    if objective not in get_args(Objective):
        raise InputError(f"there is no objective {objective!r}: choose one of {', '.join(get_args(Objective))}")


def _check_vocabularies(options: Trelm) -> None:
    if options.vocabularies not in ("joint", "separate"):
        raise InputError(f"there are no {options.vocabularies!r} vocabularies: choose joint or separate")
    if options.vocabularies == "joint" and options.source_model is not None:
        raise InputError("source_model is for separate vocabularies: leave it out, or choose vocabularies = separate")
    if options.vocabularies == "separate" and options.embedding_size is not None:
        raise InputError("embedding_size is for a joint vocabulary: leave it out where each language has its own")
