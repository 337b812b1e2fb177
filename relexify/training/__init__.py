"""Training a grafted model on: stages, text packed once, checkpoints that a killed run goes on from."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relexify.training.bilingual import train_bilingual
    from relexify.training.curve import Curve, Measurement
    from relexify.training.packing import PackedText, pack
    from relexify.training.plan import PLANS, RAMEN, Plan, Stage, Training, plan_stages
    from relexify.training.run import TrainingResult, finished_training, is_trained, train
    from relexify.training.trelm_phases import combine_directions, train_commonality, train_direction, train_specific

__all__ = [
    "PLANS",
    "RAMEN",
    "Curve",
    "Measurement",
    "PackedText",
    "Plan",
    "Stage",
    "Training",
    "TrainingResult",
    "combine_directions",
    "finished_training",
    "is_trained",
    "pack",
    "plan_stages",
    "train",
    "train_bilingual",
    "train_commonality",
    "train_direction",
    "train_specific",
]


def __getattr__(name: str) -> Any:
    """Import a public name at first use, so that reading a plan does not cost the import of torch."""
    if name in __all__:
        for module in ("plan", "curve", "packing", "run", "bilingual", "trelm_phases"):
            found = vars(import_module(f"relexify.training.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module 'relexify.training' has no attribute {name!r}")
