"""Arrays with metadata, as one safetensors file.

numpy is imported only inside the functions: the command line imports this package before it prints help.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from relexify.errors import InputError
from relexify.storage.files import atomic_file
from relexify.storage.json import parse_json
from relexify.storage.tensor_files import read_header

if TYPE_CHECKING:
    import numpy as np

__all__ = ["load_arrays", "save_arrays"]

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1",
}  # fmt: skip
"""Types of numpy, by the names of types in safetensors."""


def save_arrays(path: str | Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> Path:
    """Write arrays and metadata (plain data for json) as one safetensors file; equal content gives equal bytes."""
    import numpy as np
    from safetensors.numpy import save_file

    text = json.dumps(metadata, ensure_ascii=False, sort_keys=True)
    # File names with bytes that are not UTF-8 are escaped as in JSON.
    header = {"relexify": text.encode("utf-8", "backslashreplace").decode()}
    tensors = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    with atomic_file(path) as beside:
        save_file(tensors, beside, metadata=header)
    return Path(path)


def load_arrays(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the metadata that `save_arrays` wrote; the metadata must have the given `kind`.

    The arrays are read-only memory maps, so only the used parts are read.

    Raises:
        InputError: The file is missing, damaged, or of another kind.
    """
    import numpy as np

    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file: give a {kind} saved by relexify")
    try:
        with safe_open(path, framework="numpy") as stream:
            metadata = parse_json((stream.metadata() or {}).get("relexify", "{}"))
        header, begin = read_header(path)
        arrays = {}
        for name, entry in header.items():
            dtype, shape, start = _DTYPES[entry["dtype"]], tuple(entry["shape"]), begin + entry["data_offsets"][0]
            arrays[name] = np.zeros(shape, dtype) if 0 in shape else np.memmap(path, dtype, "r", start, shape)
    except (SafetensorError, OSError, ValueError, KeyError, struct.error) as error:
        raise InputError(f"{path} is not a readable safetensors file ({error}): write it again") from error
    if not isinstance(metadata, dict):
        raise InputError(f"{path} has metadata that is not an object: write it again")
    if metadata.get("kind") != kind:
        found = metadata.get("kind") or "an unknown kind of safetensors file"
        raise InputError(f"{path} holds {found}, but {kind} is expected: give another file")
    return arrays, metadata
