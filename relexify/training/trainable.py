"""Validate, before any work, that a model can be trained as requested."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from transformers import PreTrainedModel

from relexify.errors import GraftError, InputError, MissingExtra
from relexify.pretrained.architecture import architecture_of, saved_class, usable_length
from relexify.pretrained.loading import load_config, meta_model
from relexify.pretrained.parameters.heads import has_head
from relexify.training.engine.adapters import import_peft
from relexify.training.engine.freezing import trained_names
from relexify.training.options import FULL_STATE, MUON, Training
from relexify.training.plan import plan_stages
from relexify.training.protocol import lexical_parameter_names

__all__ = [
    "check_halves",
    "check_head",
    "check_language_model",
    "check_stages",
    "check_trainable",
    "check_trainable_name",
]


def check_head(name: str | Path) -> None:
    """Validate that a model was saved with a head, before `relexify train`, which can add one, trains it.

    Raises:
        InputError: There is no such model, or it has no head.
    """
    config = load_config(name)
    if not has_head(config):
        raise InputError(
            f"{name} is a {saved_class(config)}, without a language-modelling head: pass --add-head to add an "
            "untrained one"
        )


def check_trainable_name(name: str | Path, training: Training) -> None:
    """Validate that a model, or a graft of it, can be trained as requested; only its config is read.

    Args:
        name: As for `load_model`.
        training: The options.

    Raises:
        InputError: There is no such model, or it cannot be trained as requested.
    """
    check_trainable(meta_model(name), training)


def check_trainable(model: PreTrainedModel, training: Training) -> None:
    """Validate that a model can be trained as requested.

    Args:
        model: The model; it may be on the meta device.
        training: The options.

    Raises:
        InputError: The model is neither decoder nor masked language model, the sequences are too long for it, a stage
            trains nothing, or the model cannot save memory as requested.
    """
    check_language_model(model, training)
    if training.checkpoint_activations and not model.supports_gradient_checkpointing:
        raise InputError(
            f"{type(model).__name__} cannot compute activations again: leave out `checkpoint_activations`, and "
            "take a smaller `micro_batch`"
        )
    check_stages(model, training)


def check_language_model(model: PreTrainedModel, training: Training) -> None:
    """Validate that a model is a language model that takes sequences of the requested length.

    Raises:
        InputError: It is neither decoder nor masked language model, or the sequences are too long for it.
    """
    kind = architecture_of(model)
    if kind not in ("decoder", "encoder"):
        reason = "has no language-modelling head" if kind == "headless" else "is an encoder-decoder"
        raise InputError(
            f"{type(model).__name__} {reason}: only decoders (CLM) and masked language models (MLM) can be trained"
        )
    longest = usable_length(model)
    if longest is not None and training.length > longest:
        raise InputError(
            f"`length={training.length}` is more than the {longest} tokens that {type(model).__name__} can take: "
            f"give {longest} or less"
        )


def check_stages(model: PreTrainedModel, training: Training) -> None:
    """Validate that every stage trains some parameter of a model, with an optimiser that can train it.

    Raises:
        InputError: One does not.
        MissingExtra: A package is not installed that the training needs.
    """
    for stage in plan_stages(training):
        trained_names(model, stage.trains)  # raises an error now, and not after hours of earlier stages
        if stage.optimiser == MUON or stage.embedding_learning_rate is not None:
            try:
                lexical_parameter_names(model)
            except GraftError as error:
                raise InputError(
                    f"Muon and a learning rate of embeddings need to know which parameters belong to the vocabulary "
                    f"({error}): choose the plan direct"
                ) from error
    if training.lora_rank:
        import_peft()
    if training.optimiser_state != FULL_STATE and importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtra("bitsandbytes", f"`optimiser_state={training.optimiser_state}`", "bitsandbytes")


def check_halves(training: Training, devices: int) -> None:
    """Validate that batches can be cut in two halves, on each device and in each micro-batch.

    The halves are two languages, or the two objectives of sentence pairs.

    Raises:
        InputError: They cannot.
    """
    for name, size in (("batch", training.batch), ("micro_batch", training.micro_batch)):
        if size is not None and size % 2:
            raise InputError(f"`{name}={size}` is odd, and a batch has two equal halves: give an even number")
    if training.micro_batch is None and (training.batch // devices) % 2:
        raise InputError(
            f"a batch of {training.batch} leaves {training.batch // devices} sequences to each of {devices} devices, "
            "and each needs two equal halves: give a batch that is a multiple of twice as many"
        )
