"""Derive what a training's options leave open from the model, the size of a step and the amount of text.

All constants of relexify's own plan are here. The rates were found with SmolLM2-135M (width 576, embeddings with a root
mean square of 0.083) and steps of 64 × 512 tokens; the rules carry them over to other models, steps and texts.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from relexify.training.plan import MUON, OWN_PLAN, PAPERS_RATE, PLANS, Stage, Training
from relexify.training.protocol import lexical_parameter_names

__all__ = ["Measures", "Rates", "derive_rates", "measure", "settle", "stage_rates"]

INNER_RATE = 4e-3
"""Peak learning rate of inner matrices (Muon), at the width and the tokens per step below."""
INNER_WIDTH, WIDTH_POWER = 576, -0.5
"""An update has a root mean square of 0.2 times the rate in every matrix (`engine/muon.py`), while weights have one of
about 1/√width. A rate in proportion to 1/√width changes weights by the same share in models of any width."""
EMBEDDING_RATE = 0.06
"""Peak learning rate of the embeddings (AdamW) as a share of their root mean square, at the tokens per step below."""
OTHER_SHARE = 1 / 8
"""Learning rate of norms, biases and position embeddings (AdamW), as a share of that of inner matrices."""
TOKENS_PER_STEP, TOKENS_POWER = 32_768, 0.5
"""Rates grow with the square root of the tokens per step: the noise of a gradient falls with it."""
REPEATED_FROM = 4.0
"""Times that a text can be seen as if it was new each time (Muennighoff et al., 2023)."""
REPETITION_POWER = 0.0
"""Beyond that, rates are multiplied by (times seen / `REPEATED_FROM`) to this power."""
PATIENCE = 4
"""Scores without a better one after which training stops if a text is seen more often than that."""

Options = TypeVar("Options", Stage, Training)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measures:
    """What rates follow from.

    Attributes:
        width: Width of the hidden states.
        embedding_rms: Root mean square of the embeddings, over all parameters with rows of tokens.
        tokens_per_step: Tokens per step.
        epochs: Number of times that the text is seen.
    """

    width: int
    embedding_rms: float
    tokens_per_step: int
    epochs: float


@dataclass(frozen=True)
class Rates:
    """Peak learning rates.

    Attributes:
        inner: Of inner matrices (Muon).
        embeddings: Of embedding, head and output bias (AdamW).
    """

    inner: float
    embeddings: float

    @property
    def others(self) -> float:
        """Of norms, biases and position embeddings (AdamW)."""
        return OTHER_SHARE * self.inner


def measure(model: PreTrainedModel, training: Training, epochs: float) -> Measures:
    """Return what rates follow from.

    Args:
        model: The model before training.
        training: The options.
        epochs: Number of times that the text is seen.
    """
    lexical = lexical_parameter_names(model)
    embeddings = [each for name, each in model.named_parameters() if name in lexical and each.ndim > 1]
    squares = sum(float(each.detach().float().square().sum(dtype=torch.float64)) for each in embeddings)
    rms = math.sqrt(squares / max(1, sum(each.numel() for each in embeddings)))
    width = getattr(model.config.get_text_config(), "hidden_size", None) or embeddings[0].shape[-1]
    return Measures(int(width), rms, training.tokens_per_step, epochs)


def derive_rates(measures: Measures) -> Rates:
    """Return the learning rates of relexify's own plan.

    They are rounded to three digits, so that they are the same on every machine.
    """
    common = (measures.tokens_per_step / TOKENS_PER_STEP) ** TOKENS_POWER
    common *= max(1.0, measures.epochs / REPEATED_FROM) ** REPETITION_POWER
    inner = INNER_RATE * (measures.width / INNER_WIDTH) ** WIDTH_POWER * common
    embeddings = EMBEDDING_RATE * measures.embedding_rms * common
    return Rates(float(f"{inner:.2e}"), float(f"{embeddings:.2e}"))


def stage_rates(stage: Stage) -> Rates:
    """Return the rates of a stage whose options have been settled."""
    inner = stage.learning_rate or PAPERS_RATE
    return Rates(inner, stage.embedding_learning_rate or inner)


def settle(training: Training, model: PreTrainedModel, epochs: float) -> Training:
    """Return a training whose options are all given; what was derived is logged.

    Args:
        training: The options, validated.
        model: The model before training.
        epochs: Number of times that the text is seen.
    """
    if training.stages:
        stages = tuple(_settle_rates(stage, model, training, epochs) for stage in training.stages)
        return replace(training, stages=stages)
    settled = replace(training, optimiser=training.optimiser or PLANS[training.plan].optimiser)
    settled = _settle_rates(settled, model, training, epochs)
    is_repeated = training.plan == OWN_PLAN and epochs > REPEATED_FROM
    if is_repeated and training.patience is None and training.keep_best is None:
        logger.info(
            "the text is seen %.1f times: training stops after %d scores without a better one, and the best model is "
            "kept (set patience or keep_best to decide otherwise)",
            epochs,
            PATIENCE,
        )
        settled = replace(settled, patience=PATIENCE, keep_best=True)
    return settled


def _settle_rates(options: Options, model: PreTrainedModel, training: Training, epochs: float) -> Options:
    if options.optimiser != MUON:
        return replace(options, learning_rate=options.learning_rate or PAPERS_RATE)
    if options.learning_rate is not None and options.embedding_learning_rate is not None:
        return options
    measures = measure(model, training, epochs)
    derived = derive_rates(measures)
    rates = Rates(options.learning_rate or derived.inner, options.embedding_learning_rate or derived.embeddings)
    logger.info(
        "learning rates: %.2e for inner matrices (Muon), %.2e for embeddings and %.2e for the rest (AdamW), because of "
        "width %d, embeddings with a root mean square of %.3f, %d tokens per step, and text that is seen %.2f times",
        rates.inner,
        rates.embeddings,
        rates.others,
        measures.width,
        measures.embedding_rms,
        measures.tokens_per_step,
        measures.epochs,
    )
    return replace(options, learning_rate=rates.inner, embedding_learning_rate=rates.embeddings)
