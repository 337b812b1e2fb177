"""Use transformers without its progress bars and messages: relexify prints nothing, or its own progress bars.

transformers shows bars such as "Loading weights" and "Writing model shards" when it loads and saves models. Progress
bars of downloads from the Hub are not affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel
from transformers.utils import logging as transformers_logging

__all__ = ["quiet_transformers", "save_model"]


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide the progress bars of transformers and its messages below level ERROR; restore its settings at the end."""
    level = transformers_logging.get_verbosity()
    hook = transformers_logging.set_tqdm_hook(
        lambda factory, positional, named: transformers_logging.EmptyTqdm(*positional, **named)
    )
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        transformers_logging.set_tqdm_hook(hook)


def save_model(model: PreTrainedModel, folder: str | Path, *, weights: dict[str, Any] | None = None) -> None:
    """Write config and weights of a model into a folder.

    Args:
        model: The model.
        folder: The folder.
        weights: The parameters to write instead of the model's own, for example if these are distributed over devices.
    """
    with quiet_transformers():
        model.save_pretrained(folder, state_dict=weights)
