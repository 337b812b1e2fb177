"""What the name of a model means: a folder, a Hub name, or a package.

Neither torch nor transformers is imported, so that an unknown name is rejected at once.
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
"""Files that show what a folder holds, as patterns, the usual one first."""


def check_name(name: str, what: Literal["model", "tokenizer"] = "model") -> str:
    """Return the name of a model, after validating that there is one, as far as that can be known without a download.

    Args:
        name: The name.
        what: What will be loaded from it; a folder with a tokenizer need not hold a model.

    Raises:
        InputError: As for `resolve`, or it is a folder without a model, or neither on this machine nor within reach.
    """
    if name in PACKAGED:  # never read as a folder
        return name
    folder = Path(resolve(name))
    if folder.is_dir():
        patterns = _FILES[what]
        if not any(found for pattern in patterns for found in folder.glob(pattern)):
            raise InputError(
                f"the folder {name} holds no {what}, since it has no {patterns[0]}: give another folder or name"
            )
    elif not _is_cached(name, what) and must_be_local(name):
        raise InputError(unknown_name(what, name))
    return name


def resolve(name: str | Path) -> str:
    """Return the folder or Hub name that `from_pretrained` understands.

    Raises:
        InputError: It is a file, a path that does not exist, or a packaged model whose package is not installed.
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

    Checking first saves the half minute of retries that the Hub's client makes without a network.
    """
    if Path(name).is_dir():
        return True
    from huggingface_hub import constants  # here and below, because folders need not wait for it

    return constants.HF_HUB_OFFLINE or not _hub_answers(constants.ENDPOINT)


def unknown_name(what: str, name: str | Path, reason: str | None = None) -> str:
    """Return the message that there is no model of a name; it suggests a similar one.

    Args:
        what: What was to be loaded, such as `"model"`.
        name: Its name.
        reason: What the Hub answers; None if it cannot be reached.
    """
    known = [*PACKAGED, *(config.parent.name for config in Path().glob("*/config.json"))]
    close = difflib.get_close_matches(str(name).lower(), known, n=1)
    if reason is None:
        found = "on this machine, neither as a folder nor in the Hub's cache, and the Hub cannot be reached"
        advice = "check the name, or the network"
    else:
        found, advice = f"here as a folder, and the Hub does not have it ({reason})", "check the name"
    if close:
        advice = f"did you mean {close[0]!r}?"
    return f"there is no {what} {str(name)!r} {found}: {advice}"


def _is_cached(name: str, what: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    files = ("config.json", *(["tokenizer.json", "tokenizer_config.json"] if what == "tokenizer" else []))
    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)
    except ValueError:  # the Hub has no such names
        return False


@functools.cache  # a run loads several models and tokenizers
def _hub_answers(endpoint: str) -> bool:
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint, timeout=_HUB_TIMEOUT)
    except Exception:  # of httpx, httpx2 or requests, depending on the version of huggingface_hub
        return False
    return True
