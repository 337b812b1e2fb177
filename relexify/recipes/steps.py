"""Finished steps are kept, so that a killed or repeated run goes on where it can.

A step is named by what goes into it (contents, not paths), so that the same text and options find the same result.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from relexify.artifacts import write_folder
from relexify.grafting import cache_folder
from relexify.grafting.loading import load_tokenizer

__all__ = ["kept_file", "kept_tokenizer", "step_name"]

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def step_name(kind: str, **inputs: Any) -> str:
    """A short name that changes whenever an input does."""
    text = json.dumps({"kind": kind, **inputs}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def kept_file(
    kind: str,
    name: str,
    load: Callable[[Path], Result],
    make: Callable[[], Result],
    save: Callable[[Result, Path], Any],
) -> Result:
    """Load a step's result from the cache, or make and keep it."""
    path = cache_folder() / kind / f"{name}.safetensors"
    if path.exists():
        logger.info("%s: kept from an earlier run (%s)", kind, path)
        return load(path)
    save(make(), path)
    return load(path)


def kept_tokenizer(name: str, make: Callable[[], Any]) -> Any:
    """The same for a tokenizer, which is a folder."""
    path = cache_folder() / "tokenizers" / name
    if not path.exists():
        tokenizer = make()
        with write_folder(path) as folder:
            tokenizer.save_pretrained(folder)
    else:
        logger.info("tokenizer: kept from an earlier run (%s)", path)
    return load_tokenizer(path)
