"""The license of a model, if its model card is available on this machine."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import metadata_load, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from relexify.pretrained.files.packaged import PACKAGED

__all__ = ["known_license"]


def known_license(name: str) -> str | None:
    """Return the license in the model card of a model, such as `apache-2.0`.

    Args:
        name: As for `load_model`.

    Returns:
        The license, or None if there is no model card on this machine, or it names none.
    """
    if name in PACKAGED:
        return PACKAGED[name].license
    card: object = Path(name) / "README.md"
    if not Path(name).is_dir():
        try:
            card = try_to_load_from_cache(name, "README.md")
        except HFValidationError:
            return None
    if not isinstance(card, str | Path) or not Path(card).is_file():
        return None
    try:
        metadata = metadata_load(card) or {}
    except Exception:  # a damaged card
        return None
    license = metadata.get("license")
    return license if isinstance(license, str) else None
