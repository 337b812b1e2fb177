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

from relexify.errors import InputError
from relexify.evidence.alignment import Rotation
from relexify.grafting import MIXTURE_FILE
from relexify.mixture import Mixture
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.cache import cache_folder
from relexify.storage.files import write_folder
from relexify.version import __version__

__all__ = ["kept_file", "kept_mixture", "kept_tokenizer", "step_name"]

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def step_name(kind: str, **inputs: Any) -> str:
    """A short name that changes whenever an input does."""
    text = json.dumps({"kind": kind, "version": __version__, **inputs}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def kept_file(
    kind: str,
    name: str,
    load: Callable[[Path], Result],
    make: Callable[[], Result],
    save: Callable[[Result, Path], Any],
) -> Result:
    """Load a step's result from the cache, or make and keep it; what cannot be read is made anew."""
    path = cache_folder() / kind / f"{name}.safetensors"
    found = _kept(kind, path, load)
    if found is not None:
        return found
    save(make(), path)
    return load(path)


def kept_tokenizer(name: str, make: Callable[[], Any]) -> Any:
    """The same for a tokenizer, which is a folder."""
    path = cache_folder() / "tokenizers" / name
    found = _kept("tokenizer", path, load_tokenizer)
    if found is not None:
        return found
    tokenizer = make()
    with write_folder(path, internal=True) as folder:
        save_tokenizer(tokenizer, folder)
    return load_tokenizer(path)


def kept_mixture(name: str, make: Callable[[], tuple[Mixture, Rotation | None]]) -> tuple[Mixture, Rotation | None]:
    """The same for a mixture and the alignment it rests on, if it does."""
    path = cache_folder() / "mixtures" / name
    found = _kept("mixture", path, _load_mixture)
    if found is not None:
        return found
    mixture, rotation = make()
    with write_folder(path, internal=True) as folder:
        mixture.save(folder / MIXTURE_FILE)
        if rotation is not None:
            rotation.save(folder / _ROTATION)
    return mixture, rotation


def _load_mixture(path: Path) -> tuple[Mixture, Rotation | None]:
    rotation = path / _ROTATION
    return Mixture.load(path / MIXTURE_FILE), Rotation.load(rotation) if rotation.exists() else None


_ROTATION = "rotation.safetensors"


def _kept(kind: str, path: Path, load: Callable[[Path], Result]) -> Result | None:
    if not path.exists():
        return None
    try:
        found = load(path)
    except InputError as error:
        logger.warning("%s: what an earlier run kept is damaged, and made anew (%s)", kind, error)
        return None
    logger.info("%s: kept from an earlier run (%s)", kind, path)
    return found
