"""Derive what a training's options leave open from the model, the size of a step and the amount of text.

All constants of relexify's own plan are here; whoever changes one raises `TRAININGS` in `storage/revisions.py`. The
rates were found with SmolLM2-135M-Instruct (width 576, embeddings with a root mean square of 0.083) and steps of 64 ×
512 tokens, those of encoders with all-MiniLM-L6-v2 (width 384, 0.037) and steps of 256 × 128. The rules carry them over
to other models, steps and texts; of these, smaller steps on less text and a smaller decoder have been tested.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from relexify.errors import InputError
from relexify.pretrained.architecture import architecture_of, hidden_width
from relexify.progress import ONCE
from relexify.training.options import (
    ADAM,
    FULL_STATE,
    LOOKAHEAD,
    MUON,
    OWN_PLAN,
    PAPERS_RATE,
    Optimiser,
    Stage,
    Training,
)
from relexify.training.plan import PLANS
from relexify.training.protocol import JointModel, lexical_parameter_names

__all__ = [
    "RateInputs",
    "Rates",
    "choose_average",
    "choose_optimiser",
    "derive_rates",
    "fill_in_options",
    "fit_batch_to_text",
    "rate_inputs",
    "stage_rates",
]

INNER_RATE = 4e-3
"""Peak learning rate of inner matrices (Muon), at the width and the tokens per step below."""
INNER_WIDTH, WIDTH_POWER = 576, -0.5
"""An update has a root mean square of 0.2 times the rate in every matrix (`muon.py`), while weights have one of about
1/√width. A rate in proportion to 1/√width changes weights by the same share in models of any width."""
ADAM_SHARE = 0.5
"""Learning rate of inner matrices if they are trained with AdamW, relative to that of Muon."""
MUON_PAYS_FROM = 16
"""Fewest tokens per step, as a multiple of the model's width, for which inner matrices are trained with Muon. Its
updates cost about 4.5 × width / tokens per step as many operations as the step itself, which is then a quarter more at
most; in smaller steps, AdamW is used."""
EMBEDDING_RATE, SMALLEST_ROWS = 0.12, 2.0
"""Peak learning rate of the embeddings (AdamW) as a share of their root mean square, at the tokens per step below. Rows
of a trained model have about `SMALLEST_ROWS` / √width; random rows are smaller, but have to get that far."""
MASKED_SHARE, SMALLEST_MASKED_ROWS = 0.25, 0.7
"""For encoders: the rate of their inner parameters relative to that of decoders, and `SMALLEST_ROWS`. With the rates of
decoders, all-MiniLM-L6-v2 predicted masked tokens worse, and was worse to fine-tune."""
OWN_BETA1 = 0.8
"""β1 of AdamW, beside Muon and alone."""
AVERAGED_SHARE = 0.04
"""Share of the steps that the moving average of the weights is over. The average scores better than the weights while
the learning rate is high, and as well as them at the end."""
AVERAGED_PARAMETERS = 1_000_000_000
"""Most parameters of a model whose weights are averaged by default; an average takes four bytes for each."""
OTHER_SHARE = 1.25
"""Learning rate of norms, biases and position embeddings (AdamW), relative to that of inner matrices with Muon."""
TOKENS_PER_STEP, TOKENS_POWER, SMALL_STEPS_POWER = 32_768, 0.5, 0.75
"""Rates grow with the square root of the tokens per step, because the noise of a gradient falls with it. In smaller
steps than these, the rate of the embeddings falls faster: most rows then have only a few tokens in a step."""
MOST_EPOCHS = 2.0
"""Times that a text is seen at most, unless requested otherwise. On 2 to 55 MB of text, with steps of 8 to 64 sequences
and a quarter to all of these rates, scores on held-out text nearly always became worse when the text was seen for the
third time (docs/results/plans.md has all runs)."""
LEAST_BATCH = 8
"""Sequences that a step has at least, however little text there is."""
PATIENCE = 4
"""Scores without a better one after which training stops if a text is seen more often nevertheless."""

Options = TypeVar("Options", Stage, Training)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RateInputs:
    """The quantities that learning rates are derived from.

    Attributes:
        width: Width of the hidden states.
        embedding_rms: Root mean square of the embeddings, over all parameters with rows of tokens.
        tokens_per_step: Tokens per step.
        is_masked: Whether the model predicts masked tokens, as encoders do.
    """

    width: int
    embedding_rms: float
    tokens_per_step: int
    is_masked: bool = False


@dataclass(frozen=True)
class Rates:
    """Peak learning rates.

    Attributes:
        inner: Rate of inner matrices (Muon or AdamW).
        embeddings: Rate of embedding, head and output bias (AdamW).
        others: Rate of norms, biases and position embeddings (AdamW).
    """

    inner: float
    embeddings: float
    others: float


def rate_inputs(model: PreTrainedModel, training: Training) -> RateInputs:
    """Measure what the learning rates of a model are derived from, before it is trained."""
    lexical = lexical_parameter_names(model)
    embeddings = [each for name, each in model.named_parameters() if name in lexical and each.ndim > 1]
    squares = sum(float(each.detach().float().square().sum(dtype=torch.float64)) for each in embeddings)
    rms = math.sqrt(squares / max(1, sum(each.numel() for each in embeddings)))
    member = model.loss_members()[0] if isinstance(model, JointModel) else model  # all members predict the same
    is_masked = architecture_of(member) == "encoder"
    return RateInputs(hidden_width(model), rms, training.tokens_per_step, is_masked)


def choose_optimiser(training: Training, width: int) -> Optimiser:
    """Return the optimiser of a training without stages: the given one, or that of its plan.

    Adapters are trained with AdamW, and so are inner matrices in relexify's own plan if steps are so small that Muon
    would slow them down.

    Args:
        training: The options.
        width: Width of the hidden states.
    """
    if training.optimiser is not None:
        return training.optimiser
    is_small = training.plan == OWN_PLAN and training.tokens_per_step < MUON_PAYS_FROM * width
    return ADAM if training.lora_rank or is_small else PLANS[training.plan].optimiser


def choose_average(training: Training, parameters: int) -> float:
    """Return the decay of the average of the weights: the given one, or that of the plan; 0 for no average.

    By default, large models have none, because an average takes as much memory as the weights, nor have trainings with
    moments in 8 bits or inner parameters in bfloat16. With adapters or Lookahead it was not measured.

    Args:
        training: The options.
        parameters: Number of parameters of the model.
    """
    if training.average is not None:
        return training.average
    is_full = training.optimiser_state == FULL_STATE and training.inner_precision == "float32"
    steps = AVERAGED_SHARE * training.steps
    if not _is_own(training) or training.lora_rank or not is_full or parameters > AVERAGED_PARAMETERS or steps < 2:
        return 0.0
    return 1 - 1 / steps


def derive_rates(inputs: RateInputs, optimiser: Optimiser = MUON) -> Rates:
    """Return the learning rates of relexify's own plan.

    They are rounded to three digits, so that they are the same on every machine.
    """
    size = inputs.tokens_per_step / TOKENS_PER_STEP
    inner = INNER_RATE * (inputs.width / INNER_WIDTH) ** WIDTH_POWER * size**TOKENS_POWER
    inner *= 1.0 if optimiser == MUON else ADAM_SHARE
    inner *= MASKED_SHARE if inputs.is_masked else 1.0
    smallest = SMALLEST_MASKED_ROWS if inputs.is_masked else SMALLEST_ROWS
    rows = max(inputs.embedding_rms, smallest / math.sqrt(inputs.width))
    # For steps of less than TOKENS_PER_STEP tokens (size < 1), the minimum is the power with the larger exponent.
    embeddings = EMBEDDING_RATE * rows * min(size**TOKENS_POWER, size**SMALL_STEPS_POWER)
    return _make_rates(float(f"{inner:.2e}"), float(f"{embeddings:.2e}"), optimiser)


def stage_rates(stage: Stage) -> Rates:
    """Return the rates of a stage whose options have been filled in."""
    inner = stage.learning_rate or PAPERS_RATE
    return _make_rates(inner, stage.embedding_learning_rate or inner, stage.optimiser)


def fit_batch_to_text(training: Training, sequences: int | None, processes: int) -> Training:
    """Return a training with as many sequences per step as the text suffices for; what changes is logged.

    A model learns more from the same text in many small steps than in few large ones, and gets worse from text that it
    has seen too often. So the sequences of a step are halved until the text is seen at most `most_epochs` times.

    Args:
        training: The options, validated.
        sequences: Number of different sequences of the text; None if it is not known.
        processes: Number of processes that share the sequences of a step; the batch does not depend on it, so that a
            run can be resumed with another number.

    Raises:
        InputError: `most_epochs` is given, but it is not known how often the text is seen; or there are more processes
            than sequences in a step, or they do not divide it.
    """
    is_own = training.plan == OWN_PLAN and not training.stages
    most = MOST_EPOCHS if training.most_epochs is None and is_own else training.most_epochs
    if sequences is None:
        if training.most_epochs is not None:
            raise InputError("`most_epochs` is for a model that is trained on the text of one language: leave it out")
        return training
    batch, micro_batch = training.batch, training.micro_batch
    while most and training.steps * batch > most * sequences and batch >= 2 * LEAST_BATCH:
        batch //= 2
    epochs = training.steps * batch / sequences
    if batch < training.batch:
        if batch % processes:
            raise InputError(
                f"so little text needs steps of {batch} sequences, which {processes} processes cannot share equally: "
                "use fewer of them, or set `most_epochs` to the number of times that the text may be seen"
            )
        if micro_batch is not None:
            micro_batch = None if micro_batch >= batch else math.gcd(micro_batch, batch)
        logger.info(
            "steps have %d sequences instead of %d, so that the text is seen %.1f times instead of %.1f: a model gets "
            "worse from text that it has seen too often (`most_epochs` sets another limit)",
            batch,
            training.batch,
            epochs,
            training.steps * training.batch / sequences,
            extra=ONCE,
        )
    elif epochs < 1:
        logger.info("%.2g%% of the text is seen", 100 * epochs, extra=ONCE)
    else:
        logger.info("the text is seen %.3g times", epochs, extra=ONCE)
    training = replace(training, batch=batch, micro_batch=micro_batch)
    if most and epochs > most and is_own and training.patience is None and training.keep_best is None:
        logger.info(
            "training stops after %d scores without a better one, and the best model is kept; %d steps, in which the "
            "text is seen %g times, should do better (`patience` or `keep_best` decides otherwise)",
            PATIENCE,
            max(1, round(most * sequences / batch)),
            most,
            extra=ONCE,
        )
        training = replace(training, patience=PATIENCE, keep_best=True)
    return training


def fill_in_options(training: Training, model: PreTrainedModel) -> Training:
    """Return a training whose options are all given; what was derived is logged.

    Args:
        training: The options, validated, with as many sequences per step as it will have.
        model: The model before training.
    """
    average = choose_average(training, sum(each.numel() for each in model.parameters()))
    if average and training.average is None:
        logger.info(
            "scores and result are those of a moving average of the weights over about %d steps (`average=0`: none)",
            round(1 / (1 - average)),
            extra=ONCE,
        )
    training = replace(training, average=average)
    if training.stages:
        stages = tuple(_fill_in_rates(stage, stage.optimiser == MUON, model, training) for stage in training.stages)
        return replace(training, stages=stages)
    is_own, optimiser = _is_own(training), choose_optimiser(training, hidden_width(model))
    if is_own and training.optimiser is None and optimiser == ADAM and not training.lora_rank:
        logger.info(
            "steps of so few tokens are too small for the optimiser Muon, so AdamW trains the inner matrices too",
            extra=ONCE,
        )
    has_rates = optimiser == MUON or (is_own and optimiser == ADAM)
    filled = _fill_in_rates(replace(training, optimiser=optimiser), has_rates, model, training)
    if is_own and not training.lora_rank and training.beta1 is None:
        filled = replace(filled, beta1=OWN_BETA1)
    return filled


def _is_own(training: Training) -> bool:
    """Whether relexify's own plan decides what is left open; Lookahead keeps the options of its paper."""
    return training.plan == OWN_PLAN and not training.stages and training.optimiser != LOOKAHEAD


def _make_rates(inner: float, embeddings: float, optimiser: Optimiser) -> Rates:
    return Rates(inner, embeddings, others=OTHER_SHARE * inner if optimiser == MUON else inner)


def _fill_in_rates(options: Options, has_rates: bool, model: PreTrainedModel, training: Training) -> Options:
    """Fill in the learning rates: those of relexify's own plan if `has_rates`, else the papers' rate for everything."""
    if not has_rates:
        return replace(options, learning_rate=options.learning_rate or PAPERS_RATE)
    if options.learning_rate is not None and options.embedding_learning_rate is not None:
        return options
    inputs, optimiser = rate_inputs(model, training), options.optimiser or MUON
    derived = derive_rates(inputs, optimiser)
    rates = _make_rates(
        options.learning_rate or derived.inner, options.embedding_learning_rate or derived.embeddings, optimiser
    )
    logger.info(
        "learning rates: %.2e for inner matrices (optimiser %s), %.2e for embeddings, %.2e for the rest",
        rates.inner,
        "Muon" if optimiser == MUON else "AdamW",
        rates.embeddings,
        rates.others,
        extra=ONCE,
    )
    logger.debug("rates that were not given follow from %s", inputs)
    return replace(options, learning_rate=rates.inner, embedding_learning_rate=rates.embeddings)
