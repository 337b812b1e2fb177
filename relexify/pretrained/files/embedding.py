"""Read the input embedding of a model folder without the rest of the model and, for most models, without torch."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from relexify.errors import InputError, first_line
from relexify.pretrained.files.shards import find_shards
from relexify.pretrained.kinds import kind_of_folder, read_config_file
from relexify.storage.tensor_files import read_header

__all__ = ["read_embedding"]

_EMBEDDING = re.compile(r"embed|wte|shared")
"""One of these is part of the name of every input embedding in transformers."""


def read_embedding(folder: Path) -> np.ndarray | None:
    """Read the input embedding of a model folder, [rows × width] float32.

    Returns:
        The embedding, or None if it is not stored as one tensor.

    Raises:
        InputError: The file is damaged.
    """
    if kind_of_folder(folder) is not None:  # such models may compute their embedding
        return None
    file = None
    try:
        shapes: dict[str, tuple[Path, list[int]]] = {}
        for file in find_shards(folder):  # if several files contain a parameter, the last one is used
            with safe_open(file, framework="np") as stream:
                shapes |= {name: (file, stream.get_slice(name).get_shape()) for name in stream.keys()}  # noqa: SIM118
        rows = read_config_file(folder).get("vocab_size")
        names = [name for name, (_, shape) in shapes.items() if len(shape) == 2 and shape[0] == rows]
        if len(names) != 1 or not _EMBEDDING.search(names[0]):
            # An untied head has the same shape, so the model is needed to distinguish them.
            from relexify.pretrained.parameters.lexical import embedding_names

            names = sorted(embedding_names(folder).intersection(shapes))  # the files contain only one of tied tensors
        return _read(shapes[names[0]][0], names[0]) if names else None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file} is damaged ({first_line(error)}): write it again") from error


def _read(file: Path, name: str) -> np.ndarray:
    entries, start = read_header(file)
    entry = entries[name]
    if entry["dtype"] != "BF16":
        with safe_open(file, framework="np") as stream:
            return np.asarray(stream.get_tensor(name), np.float32)
    # NumPy has no bfloat16. Its 16 bits are the upper half of a float32.
    first, last = entry["data_offsets"]
    halves = np.fromfile(file, "<u2", (last - first) // 2, offset=start + first)
    return (halves.astype("<u4") << 16).view("<f4").reshape(entry["shape"])
