"""Resolve the name of a model: a folder, a Hub name, or a packaged model.

Neither torch nor transformers is imported, so that an unknown name is rejected immediately.
"""

from __future__ import annotations

import difflib
import functools
from pathlib import Path
from typing import Literal

from relexify.errors import InputError
from relexify.pretrained.files.packaged import PACKAGED, unpacked

__all__ = ["check_name", "must_be_local", "resolve", "unknown_name"]

_HUB_TIMEOUT = 5.0  # seconds
_FILES = {"model": ("config.json",), "tokenizer": ("tokenizer.json", "tokenizer*", "vocab*", "*.model")}
"""Patterns of files that identify a folder with a model or a tokenizer, the usual one first."""


def check_name(name: str, what: Literal["model", "tokenizer"] = "model") -> str:
    """Validate that a model exists, as far as this is possible without a download, and return its name.

    Args:
        name: The name.
        what: The object that will be loaded; a folder with a tokenizer need not contain a model.

    Raises:
        InputError: As for `resolve`, or the folder has no model or tokenizer, or the name is not on this machine and
            the Hub cannot be reached.
    """
    if name in PACKAGED:  # such a name is never a folder
        return name
    folder = Path(resolve(name))
    if folder.is_dir():
        patterns = _FILES[what]
        if not any(file for pattern in patterns for file in folder.glob(pattern)):
            raise InputError(
                f"the folder {name} holds no {what}, because it has no {patterns[0]}: give another folder or name"
            )
    elif not _is_cached(name, what) and must_be_local(name):
        raise InputError(unknown_name(what, name))
    return name


def resolve(name: str | Path) -> str:
    """Return the folder or Hub name that `from_pretrained` understands.

    Raises:
        InputError: The name is a file, a path that does not exist, or a packaged model whose package is not installed.
    """
    if str(name) in PACKAGED:
        return str(unpacked(str(name)))
    path, text = Path(name), str(name)
    if path.exists() and not path.is_dir():
        raise InputError(f"{name} is a file: give the folder of the model that it belongs to")
    is_path = isinstance(name, Path) or text.count("/") > 1 or text.startswith((".", "/", "~")) or "\\" in text
    if is_path and not path.is_dir():
        raise InputError(f"there is no folder {name}: check the path")
    return text


def must_be_local(name: str | Path) -> bool:
    """Return whether a model can only be loaded from this machine: it is a folder, or the Hub cannot be reached.

    Without this check, the Hub's client would retry for half a minute if there is no network.
    """
    if Path(name).is_dir():
        return True
    from huggingface_hub import constants  # imported here and below, because folders do not need it

    return constants.HF_HUB_OFFLINE or not _hub_answers(constants.ENDPOINT)


def unknown_name(what: str, name: str | Path, reason: str | None = None) -> str:
    """Return the error message for a name that does not exist; it suggests a similar name.

    Args:
        what: The object that was to be loaded, such as `"model"`.
        name: The name that the user gave.
        reason: The answer of the Hub; None if it cannot be reached.
    """
    existing = [*PACKAGED, *(config.parent.name for config in Path().glob("*/config.json"))]
    similar = difflib.get_close_matches(str(name).lower(), existing, n=1)
    if reason is None:
        where = "on this machine, neither as a folder nor in the Hub's cache, and the Hub cannot be reached"
        advice = "check the name, or the network"
    else:
        where = f"here as a folder, and the Hub does not have it ({reason})"
        advice = "check the name"
    if similar:
        advice = f"did you mean {similar[0]!r}?"
    return f"there is no {what} {str(name)!r} {where}: {advice}"


def _is_cached(name: str, what: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    files = ("config.json", *(["tokenizer.json", "tokenizer_config.json"] if what == "tokenizer" else []))
    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)
    except ValueError:  # not a valid Hub name
        return False


@functools.cache  # because a run loads several models and tokenizers
def _hub_answers(endpoint: str) -> bool:
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint, timeout=_HUB_TIMEOUT)
    except Exception:  # from httpx, httpx2 or requests, depending on the version of huggingface_hub
        return False
    return True
