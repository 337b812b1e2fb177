"""Where finished steps and unpacked models are kept."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Where finished steps are kept: `$RELEXIFY_CACHE`, or `relexify` in the user's cache folder."""
    if folder := os.environ.get("RELEXIFY_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "relexify"
