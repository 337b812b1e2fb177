"""Which files of a folder transformers loads as the weights of a model."""

from __future__ import annotations

from pathlib import Path, PurePath

from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, WEIGHTS_INDEX_NAME

from relexify.errors import InputError
from relexify.storage.json import read_json

__all__ = ["check_shards", "find_shards"]


def find_shards(folder: Path) -> list[Path]:
    """Return the safetensors file with all weights, or those that the index names; none if there is neither.

    Of a parameter that several files have, transformers loads the last one.

    Raises:
        InputError: The index is damaged, or names a file outside the folder, which is not part of the model.
    """
    single = folder / SAFE_WEIGHTS_NAME
    return [single] if single.is_file() else _indexed(folder / SAFE_WEIGHTS_INDEX_NAME)


def check_shards(folder: Path) -> None:
    """Validate, before any of them is read, that the files with the weights are in the folder; raises as above."""
    find_shards(folder)
    _indexed(folder / WEIGHTS_INDEX_NAME)


def _indexed(index_file: Path) -> list[Path]:
    if not index_file.is_file():
        return []
    index = read_json(index_file)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    names = set(map(str, shards.values())) if isinstance(shards, dict) else {"\0"}
    for name in names:
        if "\0" in name:
            raise InputError(f"{index_file} is damaged: it does not name a file for each parameter; get it again")
        if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
            raise InputError(f"{index_file} names {name[:100]!r}, which is not in its folder: give the whole model")
    return [index_file.parent / name for name in sorted(names)]
