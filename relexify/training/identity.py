"""What tells one training from another: all that its result depends on."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.storage.checkpoints import find_checkpoint
from relexify.storage.fingerprint import describe
from relexify.storage.work import RUN_FILE, claim_folder
from relexify.training.plan import Stage, Training

__all__ = ["claim_work", "digest_of", "identity_of"]

logger = logging.getLogger(__name__)


def identity_of(subject: Mapping[str, Any], training: Training, stages: tuple[Stage, ...]) -> dict[str, Any]:
    """All that the result depends on; not the devices, which may change when a run goes on.

    Args:
        subject: What model and text are: `TrainingJob.identity`.
        training: How it is trained.
        stages: Those of the training.
    """
    names = (
        "batch", "length", "weight_decay", "beta1", "beta2", "epsilon", "clip", "masking", "seed", "micro_batch",
        "patience", "keep_best", "lookahead_steps", "lookahead_alpha",
    )  # fmt: skip
    return {
        **describe(subject),
        "stages": [asdict(stage) for stage in stages],
        **{name: getattr(training, name) for name in names},
        "precision": training.precision,
        "evaluate_every": (training.evaluate_every or max(1, training.steps // 20)) if training.selects_best else None,
    }


def digest_of(run: dict[str, Any]) -> str:
    """An identity in one word."""
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def claim_work(work: Path, run: dict[str, Any], overwrite: bool) -> None:
    """Make sure that the folder for checkpoints is this run's.

    Raises:
        InputError: It is another run's, and may not be overwritten.
    """
    try:
        claim_folder(work, run)
        for stage in sorted(work.glob("*/")) if overwrite else ():
            find_checkpoint(stage)  # where all are damaged, beginning anew is what was asked for
    except InputError as error:
        if not overwrite or not (work / RUN_FILE).exists():
            raise
        logger.warning("%s; it is removed", str(error).partition(";")[0])
        shutil.rmtree(work)
        claim_folder(work, run)
