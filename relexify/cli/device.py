"""The device that a verb computes on."""

from __future__ import annotations

from relexify.errors import InputError

__all__ = ["chosen_device"]


def chosen_device(name: str) -> str:
    """Return the device to use; `auto` is a GPU if there is one.

    Raises:
        InputError: torch does not know the device, or it is not available.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"--device {name!r} is not a device: use cpu, cuda or auto") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"--device {name} is not available: torch finds no GPU; use --device cpu")
    return name
