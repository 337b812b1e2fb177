"""Whether a name is one of the Hub's, and whether the Hub can be asked."""

from __future__ import annotations

from pathlib import Path

from relexify.errors import InputError

__all__ = ["check_name", "must_be_local", "own_code_message"]

_PATIENCE = 5.0  # seconds


def check_name(name: str | Path) -> None:
    """Refuse what is neither a folder here nor the name of something on the Hub.

    Raises:
        InputError: It is a file, or a path that leads nowhere.
    """
    path, text = Path(name), str(name)
    if path.exists() and not path.is_dir():
        raise InputError(f"{name} is a file: give the folder of the model that it belongs to")
    is_path = isinstance(name, Path) or text.count("/") > 1 or text.startswith((".", "/", "~")) or "\\" in text
    if is_path and not path.is_dir():
        raise InputError(f"there is no folder {name}: check the path")


def must_be_local(name: str | Path) -> bool:
    """Whether a model can only come from this machine: it is a folder, or the Hub is out of reach.

    Asking once spares the half minute of retries that the Hub's client makes when there is no network.
    """
    return Path(name).is_dir() or not _hub_answers()


def own_code_message(name: str | Path, error: Exception) -> str | None:
    """Return what to report if transformers raised `error` because a model needs code of its own, else None."""
    if "trust_remote_code" not in str(error):
        return None
    return (
        f"{name} needs Python code of its own, which relexify does not run: "
        "give a model whose architecture is part of transformers"
    )


def _hub_answers() -> bool:
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception:  # of httpx, httpx2 or requests, by the version of huggingface_hub
        return False
    return True
