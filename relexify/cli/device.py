"""Which device a verb computes on."""

from __future__ import annotations

from relexify.errors import InputError

__all__ = ["chosen_device"]


def chosen_device(name: str) -> str:
    """`auto` as what there is, and any other device as it is.

    Raises:
        InputError: torch knows no such device, or does not see it.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"--device {name!r} is none that torch knows: use cpu, cuda or auto") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"--device {name} was asked for, but torch sees no GPU: use --device cpu")
    return name
