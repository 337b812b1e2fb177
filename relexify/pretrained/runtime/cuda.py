"""Check whether there is a GPU; torch is imported only if there may be one."""

from __future__ import annotations

import ctypes
import importlib.util
import runpy
import sys
from pathlib import Path

__all__ = ["has_cuda", "reason_without_cuda"]


def has_cuda() -> bool:
    """Return whether torch can compute on a GPU; torch is imported only if there may be one."""
    if "torch" not in sys.modules and reason_without_cuda():
        return False
    import torch

    return torch.cuda.is_available()


def reason_without_cuda() -> str:
    """Return why torch cannot find a GPU, or an empty string if only importing torch can tell.

    Only torch can confirm that there is a GPU. Some containers with a GPU have neither device files nor nvidia-smi. A
    query to the driver would initialise it in this process, and forked processes could then not use it.
    """
    spec = importlib.util.find_spec("torch")
    file = None if spec is None or spec.origin is None else Path(spec.origin).with_name("version.py")
    if file is None or not file.is_file():
        return ""
    build = runpy.run_path(str(file))  # the file only assigns a few constants
    if build.get("hip"):
        return ""
    if not build.get("cuda"):
        return f"torch {build['__version__']} was built without it"
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "no NVIDIA driver is installed"
    return ""
