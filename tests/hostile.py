"""Pickles that do something when they are loaded."""

from __future__ import annotations

import os
from pathlib import Path


class MakeFolder:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.folder),)
