"""The options of a training, and of its stages.

A stage names what it trains; everything else stays bit-identical. Each stage has its own Trainer run, with its own
optimiser and schedule, because a run whose frozen parameters change halfway cannot be resumed.
"""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from relexify.errors import (
    LARGEST_SEED,
    InputError,
    MissingExtra,
    check_choices,
    check_number,
    check_positive,
    one_of,
)
from relexify.pretrained.runtime.precision import Precision
from relexify.steps import INHERITED
from relexify.storage.fingerprint import NO_EFFECT, content_of
from relexify.text import Corpus, TextOption

__all__ = ["Optimiser", "PlanName", "Stage", "Training", "check_stage", "check_training"]

EVERYTHING, EMBEDDINGS, INNER = "everything", "embeddings", "inner"
PlanName = Literal["relexify", "direct", "embeddings-first", "embeddings-only"]
Schedule = Literal["linear", "cosine", "constant", "inverse_sqrt"]
Optimiser = Literal["adamw", "lookahead", "muon"]
InnerPrecision = Literal["float32", "bfloat16"]
OptimiserState = Literal["float32", "8-bit", "paged", "paged-8-bit"]
LoraVariant = Literal["lora", "rslora", "dora"]
Reporter = Literal["tensorboard", "wandb", "trackio"]
OWN_PLAN: Final = "relexify"
DECAYING: tuple[Schedule, ...] = ("linear", "cosine")
ADAM: Final = "adamw"
LOOKAHEAD: Final = "lookahead"
MUON: Final = "muon"
FULL_STATE: Final = "float32"
LORA: Final = "lora"
RSLORA: Final = "rslora"
DORA: Final = "dora"
LEAST_INTERVAL = 10
"""Steps between two scores in a short run; scoring takes as long as many steps there."""
PAPERS_RATE = 5e-4
"""Learning rate of AdamW if none is given (Minixhofer et al. 2022, Table 6)."""
PAPERS_BETA1 = 0.9
"""β1 of AdamW if none is given (same table)."""

_POSITIVE = (
    "steps", "batch", "length", "micro_batch", "evaluate_every", "save_every", "patience", "held_out_bytes",
    "lookahead_steps", "lora_rank",
)  # fmt: skip
_LARGEST = {"batch": 2**20, "length": 2**20, "held_out_bytes": 2**40}


@dataclass(frozen=True)
class Stage:
    """A part of a training, with its own trained parameters, optimiser and schedule.

    Attributes:
        name: Its name in messages and folders.
        steps: Optimiser steps.
        trains: `"everything"`, `"embeddings"` (all that has one entry per token: embedding, head, output bias),
            `"inner"` (all the rest), or a regular expression that is searched for in the names of parameters.
        learning_rate: Peak learning rate of all parameters but the embeddings; default: derived from the model and the
            tokens per step in the plan `relexify` and with `muon` (`rates.py`), and 5e-4 otherwise.
        embedding_learning_rate: Peak learning rate of the embeddings; default: derived in the same way, or
            `learning_rate`.
        warmup_steps: Steps in which the rate rises from zero to the peak.
        schedule: The learning rate after the warm-up. With `inverse_sqrt`, it is sqrt(w / s) of the peak at step s
            after w steps of warm-up.
        final_rate: Learning rate at the end of `linear` and `cosine`, as a share of the peak; default: 0.
        optimiser: `adamw`, `lookahead` around it, or `muon` for inner matrices and `adamw` for all other parameters.
    """

    name: str
    steps: int
    trains: str = EVERYTHING
    learning_rate: float | None = field(default=None, metadata=INHERITED)
    embedding_learning_rate: float | None = field(default=None, metadata=INHERITED)
    warmup_steps: int = 0
    schedule: Schedule = field(default="linear", metadata=INHERITED)
    final_rate: float | None = field(default=None, metadata=INHERITED)
    optimiser: Optimiser = field(default=ADAM, metadata=INHERITED)


@dataclass(frozen=True)
class Training:
    """Training options. Learning rates follow from model and text; other defaults are those of WECHSEL (Table 6).

    Attributes:
        steps: Optimiser steps of all stages together.
        batch: Sequences per step, over all devices; fewer if `most_epochs` requires it.
        length: Tokens per sequence.
        learning_rate: Peak learning rate; with `muon`, of inner matrices. Default: 5e-4; with `muon`, derived from
            model and text.
        embedding_learning_rate: Peak learning rate of the embeddings, with `muon`; default: derived from model and
            text.
        plan: The stages of the training. `relexify` is our own plan, the others come from papers.
        stages: Your own stages instead of a plan; `steps` is then their sum.
        warmup: Share of all steps in which the learning rate rises; default: set by the plan.
        schedule: The learning rate after the warm-up.
        final_rate: Learning rate at the end of `linear` and `cosine`, as a share of the peak; default: set by the plan.
        optimiser: `adamw`, `lookahead` around it, or `muon` for inner matrices and `adamw` for all other parameters;
            default: set by the plan.
        lookahead_steps: k of Lookahead: steps of Adam between two updates of the slow weights.
        lookahead_alpha: α of Lookahead: how far the slow weights move towards the fast ones.
        average: Decay of a moving average of the weights, such as 0.99, which is scored and kept instead of the
            weights; 0 for none. Default: in the plan `relexify`, over about 4 % of the steps, and 0 for models of more
            than a billion parameters, with adapters, Lookahead, `inner_precision` or `optimiser_state`, and for fewer
            than 50 steps; 0 in other plans.
        weight_decay: Weight decay of all parameters but biases and norms.
        beta1: β1 of Adam; default: 0.9, or 0.8 in the plan `relexify` without adapters.
        beta2: β2 of Adam.
        epsilon: ε of Adam.
        clip: Largest norm of the gradient.
        dropout: Train with the dropout of the model's config. Without it, an encoder learns to predict masked tokens
            better; the config keeps the rates for fine-tuning.
        masking: Share of the tokens that a masked language model has to predict.
        source_corpus: Text in the first language of a model with two, so that it is not forgotten; both languages are
            then scored.
        source_held_out: Text in that language to score on; default: one line in 100 of `source_corpus`.
        source_share: Share of the sequences that are taken from `source_corpus`; with 0, that language is only scored.
        keep_rows: Keep the rows of the tokens that the model had before its vocabulary was extended, bit for bit. Only
            the rows of added tokens and inner parameters are trained.
        most_epochs: Largest number of passes over the text: if it is exceeded, the batch is halved repeatedly, down to
            8. Default: 2 in the plan `relexify`, otherwise no limit.
        micro_batch: Sequences per forward pass; gradients are accumulated over the batch. Default: the batch of each
            device at once.
        evaluate_every: Steps between two scores on held-out text; default: a twentieth of all steps, at least ten, or a
            quarter of a short run. It is also scored before the first step, after a tenth of all steps and after the
            last.
        held_out_bytes: Bytes of held-out text to score on; default: 400,000 with CUDA and 8,192 without.
        snapshots: Steps at which the model is scored and also kept, in `snapshots/step-N` of the output.
        patience: Stop after this many scores without a better one; default: never.
        keep_best: Keep the model with the best score instead of the last one; default: only with `patience`.
        save_every: Steps between two checkpoints; default: as many as take about 3 % of the time, and with several
            processes one for each score.
        precision: Number format of computations. `auto` is `bfloat16` (mixed precision) if the GPU supports it, and
            `float32` otherwise.
        inner_precision: Number format of inner parameters during training. `bfloat16` halves the memory of these
            parameters, their gradients and the state of their optimiser, but rounds their updates and all computations.
        optimiser_state: How AdamW keeps its two moments: in `8-bit`, a quarter of the memory; `paged`, moved between
            GPU and host as needed; or `paged-8-bit`. All but `float32` need the package bitsandbytes.
        lora_rank: Rank of low-rank adapters (LoRA) for inner matrices; all other parameters but the embeddings are
            frozen. Default: no adapters.
        lora_variant: `lora`; `rslora`, which divides by the square root of the rank, so that high ranks learn as fast;
            or `dora`, which also trains the norm of each row of a matrix.
        lora_alpha: Adapters are multiplied by `lora_alpha / lora_rank`, in `rslora` by `lora_alpha / √lora_rank`;
            default: twice the rank, and 8 in `rslora`.
        lora_merged: Merge the adapters into the model at the end. Otherwise they are written to `adapters` in the
            output, for the package peft.
        checkpoint_activations: Compute activations again in the backward pass: less memory, about a third more time.
        compile: Compile the layers of the model; default: on a GPU, from 100 steps on.
        report_to: Where to log losses, scores and rates; default: TensorBoard, if it is installed.
        seed: Random seed of the order of the text, of masks and of dropout.
    """

    steps: int = 1_000
    batch: int = 64
    length: int = 512
    learning_rate: float | None = None
    embedding_learning_rate: float | None = None
    plan: PlanName = OWN_PLAN
    stages: tuple[Stage, ...] = ()
    warmup: float | None = None
    schedule: Schedule = "linear"
    final_rate: float | None = None
    optimiser: Optimiser | None = None
    lookahead_steps: int = 5
    lookahead_alpha: float = 0.5
    average: float | None = None
    weight_decay: float = 0.01
    beta1: float | None = None
    beta2: float = 0.98
    epsilon: float = 1e-6
    clip: float = 1.0
    dropout: bool = True
    masking: float = 0.15
    source_corpus: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    source_held_out: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    source_share: float = 0.25
    keep_rows: bool = False
    most_epochs: float | None = None
    micro_batch: int | None = None
    evaluate_every: int | None = None
    held_out_bytes: int | None = None
    snapshots: tuple[int, ...] = ()
    patience: int | None = None
    keep_best: bool | None = None
    save_every: int | None = field(default=None, metadata=NO_EFFECT)
    precision: Precision = "auto"
    inner_precision: InnerPrecision = "float32"
    optimiser_state: OptimiserState = FULL_STATE
    lora_rank: int | None = None
    lora_variant: LoraVariant = LORA
    lora_alpha: float | None = None
    lora_merged: bool = True
    checkpoint_activations: bool = field(default=False, metadata=NO_EFFECT)
    compile: bool | None = field(default=None, metadata=NO_EFFECT)
    report_to: tuple[Reporter, ...] | None = field(default=None, metadata=NO_EFFECT)
    seed: int = 0

    @property
    def tokens_per_step(self) -> int:
        """Tokens seen in one step."""
        return self.batch * self.length

    @property
    def evaluation_interval(self) -> int:
        """Steps between two scores on held-out text."""
        return self.evaluate_every or max(self.steps // 20, min(LEAST_INTERVAL, -(-self.steps // 4)))

    @property
    def selects_best(self) -> bool:
        """Whether the model with the best score is kept instead of the last one."""
        return self.patience is not None if self.keep_best is None else self.keep_best

    def updated(self, **values: Any) -> Training:
        """Return this training with the values that a recipe has; with stages, `steps` is their sum.

        Raises:
            InputError: The values have stages and another number of steps.
        """
        if stages := values.get("stages"):
            total = sum(stage.steps for stage in stages)
            if values.get("steps", total) != total:
                raise InputError(
                    f"steps is {values['steps']}, but the stages have {total} steps together: leave steps out, or "
                    "change the stages"
                )
            values["steps"] = total
        return replace(self, **values)


def check_training(training: Training) -> None:  # noqa: PLR0912 (one check after the other)
    """Validate the options of a training, apart from its stages.

    Raises:
        InputError: An option has an impossible value.
        MissingExtra: TensorBoard is not installed.
    """
    # The plan does not matter to a training with stages of its own.
    check_choices(replace(training, plan=OWN_PLAN) if training.stages else training)
    for name in _POSITIVE:
        check_number(name, getattr(training, name), most=_LARGEST.get(name, 2**31 - 1))
    if training.length < 8:
        raise InputError(f"`length={training.length}` is too short to learn from: give 8 or more")
    for name in ("warmup", "masking", "source_share"):
        share = getattr(training, name)
        if share is not None and not 0 <= share <= 1:
            raise InputError(f"`{name}={share}` is not a share: give a number from 0 to 1")
    if training.masking == 0:
        raise InputError("`masking=0` leaves a masked language model nothing to learn: give a share such as 0.15")
    if training.source_share == 1:
        raise InputError("`source_share=1` leaves no text of the target language: give a share such as 0.25")
    if training.source_held_out is not None and training.source_corpus is None:
        raise InputError("`source_held_out` is given without text of the same language: give `source_corpus`")
    if training.micro_batch and training.batch % training.micro_batch:
        raise InputError(
            f"a batch of {training.batch} cannot be cut into parts of {training.micro_batch}: "
            "give a number that divides it (`micro_batch`)"
        )
    for name in ("weight_decay", "beta1", "beta2", "epsilon", "clip"):
        value, limit = getattr(training, name), 1 if name.startswith("beta") else math.inf
        if (value is not None and not 0 <= value < limit) or (name == "clip" and value == 0):
            raise InputError(f"`{name}={value}` is not possible: see the defaults for what is usual")
    check_positive("most_epochs", training.most_epochs)
    check_positive("lookahead_alpha", training.lookahead_alpha, 1)
    if training.average is not None and not 0 <= training.average < 1:
        raise InputError(f"`average={training.average}` is not a decay: give 0 for no average, or a number below 1")
    check_positive("lora_alpha", training.lora_alpha)
    if training.lora_variant != LORA and not training.lora_rank:
        raise InputError(f"`lora_variant={training.lora_variant}` has no effect without adapters: give `lora_rank`")
    if training.lora_rank and training.snapshots:
        raise InputError("snapshots cannot be taken of a model with adapters: leave out `snapshots` or `lora_rank`")
    if training.snapshots and not 0 < min(training.snapshots) <= max(training.snapshots) < training.steps:
        raise InputError(
            f"`snapshots={list(training.snapshots)}` are not all between the first and the last of {training.steps} "
            "steps: the model at the start and at the end is there anyway"
        )
    check_number("seed", training.seed, 0, LARGEST_SEED)
    for name in training.report_to or ():
        if name not in get_args(Reporter):
            raise InputError(f"training cannot report to {name!r}: choose {one_of(get_args(Reporter))}")
        if importlib.util.find_spec(name) is None:
            if name == "tensorboard":
                raise MissingExtra(name, "writing a log for TensorBoard", name)
            raise InputError(f"reporting to {name} needs the package {name}: pip install {name}")


def check_stage(stage: Stage) -> None:
    """Validate a stage.

    Raises:
        InputError: A field has an impossible value.
    """
    if not re.fullmatch(r"\w[\w.+-]*", stage.name):
        raise InputError(f"a stage is called {stage.name!r}, which names no folder: use letters, digits, '-' and '.'")
    if stage.steps < 1:
        raise InputError(f"the stage {stage.name!r} has {stage.steps} steps: give 1 or more")
    for name in ("learning_rate", "embedding_learning_rate"):
        check_positive(name, getattr(stage, name), 1)
    check_choices(stage)
    if stage.final_rate is not None and not 0 <= stage.final_rate < 1:
        raise InputError(f"`final_rate={stage.final_rate}` is not a share of the peak: give 0 or more, and less than 1")
    if stage.final_rate and stage.schedule not in DECAYING:
        raise InputError(f"`final_rate` has no effect with the schedule {stage.schedule}: leave it out")
    if stage.embedding_learning_rate is not None and stage.optimiser == LOOKAHEAD:
        raise InputError(
            f"`embedding_learning_rate={stage.embedding_learning_rate}` has no effect with the optimiser "
            f"{LOOKAHEAD}, which has one rate for all parameters: leave it out, or choose {ADAM} or {MUON}"
        )
    if not 0 <= stage.warmup_steps <= stage.steps:
        raise InputError(f"the stage {stage.name!r} warms up for {stage.warmup_steps} of its {stage.steps} steps")
    try:
        re.compile(stage.trains)
    except re.error as error:
        raise InputError(
            f"the stage {stage.name!r} trains {stage.trains!r}, which is neither {EVERYTHING}, {EMBEDDINGS} nor "
            f"{INNER}, nor a regular expression ({error})"
        ) from error
