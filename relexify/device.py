"""The device to compute on: whether a name is one, what `auto` stands for, and whether there is a GPU.

torch is imported only to look for a GPU that there may be.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import runpy
import sys
from pathlib import Path

from relexify.errors import InputError

__all__ = ["AUTO", "has_cuda", "reason_without_cuda", "resolve_device", "validate_device"]

AUTO = "auto"
"""Stands for CUDA if there is a GPU, and for the CPU otherwise."""


def validate_device(name: str) -> None:
    """Reject a name that is not a device, and CUDA if torch certainly lacks it; torch is not imported.

    Raises:
        InputError: It is neither `auto` nor a device of torch that computes, or it is not available.
    """
    if not re.fullmatch(rf"{AUTO}|(cpu|cuda|mps)(:\d+)?", name):
        raise InputError(f"`device={name}` is not a device to compute on: use cpu, cuda or {AUTO}")
    if name.startswith("cuda") and (reason := reason_without_cuda()):
        raise InputError(f"`device={name}` is not available, since {reason}: use cpu")


def resolve_device(name: str) -> str:
    """Return the device of torch that a name stands for.

    Raises:
        InputError: As `validate_device`; or torch does not find the device.
    """
    if name == AUTO:
        return "cuda" if has_cuda() else "cpu"
    if name == "cpu":
        return name
    validate_device(name)
    import torch

    device = torch.device(name)
    available = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= available[device.type]:
        raise InputError(f"`device={name}` is not available: torch finds {available[device.type]} of its kind; use cpu")
    return name


def has_cuda() -> bool:
    """Return whether torch can compute on a GPU; torch is imported only if it may have one."""
    if "torch" not in sys.modules and reason_without_cuda():
        return False
    import torch

    return torch.cuda.is_available()


def reason_without_cuda() -> str:
    """Return why torch cannot find a GPU, or an empty string if this is not certain without importing torch.

    Only torch can confirm that there is a GPU. Device files and nvidia-smi are missing in some containers with a GPU,
    and a query to the driver would initialise it in this process, after which forked processes could not use it.
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
