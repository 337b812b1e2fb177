"""The options of TreLM: its texts, its objective, and how each phase is trained."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from relexify.errors import InputError, check_choice, check_choices
from relexify.evidence.bitext import Bitext, WordAlignmentOptions, validate_word_alignment
from relexify.steps import ModelName
from relexify.storage.fingerprint import BY_CONTENT, content_of
from relexify.storage.notes import finished_run, output_notes
from relexify.storage.runs.work import WorkFolder
from relexify.text import Corpus, TextOption
from relexify.training.options import ADAM, Training
from relexify.training.plan import plan_stages

__all__ = [
    "COMMONALITY",
    "SPECIFIC",
    "TRANSFER",
    "Direction",
    "Objective",
    "Trelm",
    "Weighting",
    "check_objective",
    "check_trelm",
    "check_trelm_output",
    "trelm_inputs",
]

Objective = Literal["cdlm", "tlm", "brlm"]
"""The objective of transfer training on a sentence pair. CdLM predicts the translation from the sentence. TLM
concatenates both sentences and predicts masked tokens. BRLM does the same, but predicts each masked token from the last
state of the token that it is aligned to."""
Weighting = Literal["objectives", "tokens"]
"""What has equal weight in transfer training: the mean losses of sentence pairs and of masked sentences, or all tokens
of both, as in the paper's sum L_ULM. CdLM has a label for every token, and MLM for one in seven, so most of that sum
comes from CdLM."""
Direction = Literal["source-to-target", "target-to-source"]
"""The translation directions of the two models of transfer training (Algorithm 1). The position of a direction is the
index of its input language: `get_args(Direction)[0]` reads language 0."""

COMMONALITY = Training(
    plan="direct",
    optimiser=ADAM,
    steps=20_000,
    batch=128,
    length=511,
    learning_rate=3e-5,
    warmup=0.1,
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-8,
    weight_decay=0.01,
)
"""Section 4.1; one of the paper's 512 tokens is the placeholder [P]."""
TRANSFER = COMMONALITY
"""For each of the two directions."""
SPECIFIC = replace(COMMONALITY, steps=80_000, learning_rate=2e-5, warmup=0.0)
"""No warm-up, because the paper gives an initial rate for this phase, and a peak rate for the others."""


@dataclass(frozen=True)
class Trelm:
    """Options of TreLM, which transfers a masked language model to another language in three phases.

    Attributes:
        languages: Names of the source language and of the target language.
        source_corpus: Text in the source language.
        source_held_out: Text in the source language to score on; default: one line in 100 of its text.
        bitext: Parallel text, the source language first. Required unless `until` is `commonality`.
        alignment: File with a word alignment of the parallel text; default: computed by eflomal.
        aligning: How parallel text is read and its words are aligned; `symmetrisation`, `smoothing` and `min_count`
            have no effect here.
        test_bitext: Other parallel text, to score translations on.
        vocabularies: `joint`: one vocabulary for both languages. `separate`: each language keeps its own vocabulary and
            word embeddings, and there are no language embeddings (section 6.3, CdLM*).
        source_model: With separate vocabularies, the model that the target model was transferred from; default: the
            recipe's model, after `[transfer]`.
        objective: The objective on sentence pairs.
        weighting: What has equal weight: with `objectives`, the mean losses of sentence pairs and of masked sentences;
            with `tokens`, all tokens of both, as in the paper.
        trilayer: Add a TRILayer. Without one, the objective must be `tlm` or `brlm`.
        until: The last phase; `commonality` stops after the first one, as in the paper's Table 5.
        embedding_size: Width of the word embeddings; default: as in the model.
        next_sentence: Predict next sentences in the last phase; default: if the model has the head.
        source_words: How sacrebleu splits the source language into words: `13a`, `char`, …
        target_words: How sacrebleu splits the target language into words.
        commonality: How both languages are trained together.
        transfer: How each direction is trained.
        specific: How the target language is trained at the end.
        seed: Random seed of the language embeddings; each training has its own seed.
    """

    languages: tuple[str, ...] = ("source", "target")
    source_corpus: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    source_held_out: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    bitext: TextOption | None = field(default=None, metadata=content_of(Bitext.open))
    alignment: Path | None = None
    aligning: WordAlignmentOptions = field(default_factory=WordAlignmentOptions)
    test_bitext: TextOption | None = field(default=None, metadata=content_of(Bitext.open))
    vocabularies: Literal["joint", "separate"] = "joint"
    source_model: ModelName | None = field(default=None, metadata=BY_CONTENT)
    objective: Objective = "cdlm"
    weighting: Weighting = "objectives"
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
    """Validate the options alone, without opening files or models.

    Raises:
        InputError: A text is missing, or an option has an impossible value.
    """
    needed = ("source_corpus",) if options.until == "commonality" else ("source_corpus", "bitext")
    for name in needed:
        if getattr(options, name) is None:
            raise InputError(f"TreLM needs `{name}`: give it (in a recipe, in [trelm])")
    if len(options.languages) != 2 or len(set(options.languages)) != 2:
        raise InputError(f"the languages are called {list(options.languages)}: give two different names")
    check_choices(options)
    if options.objective == "cdlm" and not options.trilayer:
        raise InputError("CdLM needs a TRILayer: choose the objective tlm or brlm without one")
    if options.vocabularies == "joint" and options.source_model is not None:
        raise InputError("`source_model` is for separate vocabularies: leave it out, or choose `vocabularies=separate`")
    if options.vocabularies == "separate" and options.embedding_size is not None:
        raise InputError("`embedding_size` is for a joint vocabulary: leave it out where each language has its own")
    validate_word_alignment(options.aligning)
    if options.alignment is None and options.aligning.units == "words":
        raise InputError(
            "`aligning.units=words` is for a given word alignment: add it (`alignment=FILE`), or leave it out"
        )
    for name in ("commonality", "transfer", "specific"):
        if getattr(options, name).stages:
            raise InputError(f"[trelm.{name}] has stages, but a phase of TreLM is one: give its steps")
        plan_stages(getattr(options, name))


def check_trelm_output(work: WorkFolder, options: Trelm) -> None:
    """Validate, before model and text are read, that a run can write its output.

    If the notes of an existing output have the same options, it may be the result of the same run, and is accepted
    here. Whether it really is also depends on model and text, which are compared later.

    Args:
        work: The work folder of the run.
        options: Its options, validated.

    Raises:
        OutputError: The output exists and may not be replaced, or cannot be written.
    """
    existing = output_notes(work.output).get("trelm") or {}
    requested = {"languages": list(options.languages), "objective": options.objective, "until": options.until}
    is_same = requested == {name: existing.get(name) for name in requested}
    if work.overwrite or not is_same or finished_run(work.output, "trelm") is None:
        work.check()


def check_objective(objective: str) -> None:
    """Validate the name of an objective.

    Raises:
        InputError: There is no such objective.
    """
    check_choice("objective", objective, get_args(Objective))


def trelm_inputs(options: Trelm) -> tuple[TextOption | None, ...]:
    """Return the files and folders that the options name, which an output must not replace."""
    texts = (options.source_corpus, options.source_held_out, options.bitext, options.test_bitext)
    return (options.source_model, options.alignment, *texts)
