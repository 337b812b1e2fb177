"""Training with FSDP, which distributes the parameters of a model over devices: what it requires, and its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from relexify.errors import InputError
from relexify.storage.runs.claims import restart_advice
from relexify.training.engine.trainer import StageTrainer
from relexify.training.options import FULL_STATE, Stage, Training

__all__ = ["check_checkpoint", "check_distribution", "unwrap"]


def check_distribution(trainer: StageTrainer, stage: Stage, training: Training) -> None:
    """Validate that a model can be trained as requested if FSDP distributes it.

    Raises:
        InputError: It cannot.
    """
    if not trainer.is_fsdp_enabled:
        return
    if stage.embedding_learning_rate is not None and not trainer.accelerator.is_fsdp2:
        raise InputError(
            "Muon and separate learning rates need the parameters as they are, but FSDP 1 makes one flat parameter "
            "of many: set fsdp_version to 2, or choose the plan direct"
        )
    if training.keep_rows:
        raise InputError("rows cannot be kept in a model that FSDP distributes: leave out `keep_rows`, or FSDP")
    if training.lora_rank:
        raise InputError("adapters cannot be merged into a model that FSDP distributes: leave out `lora_rank`, or FSDP")
    if training.optimiser_state != FULL_STATE:
        raise InputError(
            f"FSDP cannot distribute the moments of bitsandbytes (`optimiser_state={training.optimiser_state}`): "
            "leave it out, or FSDP"
        )
    if training.inner_precision == "bfloat16":
        raise InputError(
            "FSDP needs all parameters in one number format: set `inner_precision=float32`, and let accelerate "
            "choose the format of FSDP"
        )


def check_checkpoint(checkpoint: Path | None, trainer: StageTrainer) -> None:
    """Validate that a checkpoint was written with FSDP if and only if FSDP distributes the model now.

    Raises:
        InputError: It was not.
    """
    if checkpoint is None:
        return
    was_sharded = any(checkpoint.glob("pytorch_model_fsdp*"))
    if was_sharded and not trainer.is_fsdp_enabled:
        raise InputError(
            f"{checkpoint} was written with FSDP, which distributes parts of the model: start the command with FSDP, "
            "with any number of processes (one: torchrun --nproc-per-node 1), or "
            f"{restart_advice(checkpoint.parents[1])}"
        )
    if trainer.is_fsdp_enabled and not was_sharded:
        raise InputError(
            f"{checkpoint} was written without FSDP, so it holds the whole model: start the command without FSDP, with "
            f"any number of processes, or {restart_advice(checkpoint.parents[1])}"
        )


def unwrap(model: PreTrainedModel, trainer: StageTrainer) -> tuple[PreTrainedModel, dict[str, Any] | None]:
    """Return the model, and its parameters if FSDP distributes it."""
    if not trainer.is_fsdp_enabled:
        return model, None
    weights = trainer.accelerator.get_state_dict(trainer.model)
    return trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False), weights
