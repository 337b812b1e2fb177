"""The weight files of a model: compute their sha256, and write files in which only some tensors differ.

A grafted model has the inner parameters of its source. Files of the source that contain a lexical tensor are rewritten,
and all others are hard-linked, so time and memory depend on the size of the vocabulary, not on that of the model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from transformers import PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from relexify.pretrained.files.shards import find_shards, parameter_name
from relexify.pretrained.kinds import kind_of_folder
from relexify.pretrained.names import resolve
from relexify.pretrained.parameters.lexical import count_rows, lexical_axes
from relexify.pretrained.runtime.quiet import save_model
from relexify.storage.files import sha256_of, write_file
from relexify.storage.fingerprint import fingerprint
from relexify.storage.tensor_files import TensorBytes, link_or_copy, read_header, rewrite_tensors

__all__ = ["bytes_to_write", "find_file", "identify_weights", "save_with_links", "sha256_of_weights"]

HASHED_BYTES = 4e9
"""Up to this size, parameters are hashed for the record even if nothing else reads them: about ten seconds."""

_DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def save_with_links(model: PreTrainedModel, folder: Path, source: str | Path, *, changed: Collection[str]) -> bool:
    """Write the same as `save_pretrained`, but link to the files of another model in which nothing changes.

    Args:
        model: The model to write.
        folder: An empty folder.
        source: The model that it was made from, as for `load_model`; its files contain the unchanged tensors.
        changed: Names of the parameters and buffers that differ, including the input embedding and all names of tied
            tensors.

    Returns:
        Whether the model was written. Nothing is written if the source has no safetensors files on this machine, or if
        a changed tensor has another name or format there than in the model.
    """
    files = _find_files(source)
    if files is None:
        return False
    tensors = model.state_dict()
    parameters = {name: parameter_name(model, name, tensors) for name in files.shapes}
    replaced = {name: tensors[parameter] for name, parameter in parameters.items() if parameter in changed}
    stored = {tensor.data_ptr(): name for name, tensor in replaced.items()}
    needed = [tensors[name] for name in changed if name in tensors]
    if any(tensor.data_ptr() not in stored or tensor.dtype not in _DTYPES for tensor in needed):
        return False
    # Tensors for the source vocabulary that the model does not load, such as a dropped head, must not be kept.
    rows = files.shapes[stored[model.get_input_embeddings().weight.data_ptr()]][0]
    dropped = {name for name, shape in files.shapes.items() if parameters[name] is None and rows in shape}

    save_model(model, folder, weights={})  # only the configs
    values = {}
    for name, tensor in replaced.items():
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)  # numpy has no bfloat16
        values[name] = TensorBytes(_DTYPES[tensor.dtype], tuple(tensor.shape), flat.numpy().data)
    for path in files.paths:
        if {*replaced, *dropped}.isdisjoint(read_header(path)[0]):
            link_or_copy(path, folder / path.name)
        else:
            rewrite_tensors(path, folder / path.name, values, dropped=dropped)
    if files.index is not None:
        index = _updated_index(files.index, [folder / path.name for path in files.paths], model)
        write_file(folder / SAFE_WEIGHTS_INDEX_NAME, json.dumps(index, indent=2, sort_keys=True) + "\n")
    return True


def bytes_to_write(model: PreTrainedModel, source: str | Path, *, rows: int) -> float:
    """Return the approximate size on disk of a model with another vocabulary, without files that can be linked.

    Args:
        model: The source model.
        source: Its name, as for `load_model`.
        rows: Size of the other vocabulary.
    """
    axes, files = lexical_axes(model), _find_files(source)
    lexical = sum(parameter.nbytes for name, parameter in model.named_parameters() if name in axes)
    is_linked = files is not None and files.index is not None  # a single file is rewritten
    inner = 0 if is_linked else model.get_memory_footprint() - lexical
    return float(inner + lexical * rows / count_rows(model))


def identify_weights(source: str | Path, model: PreTrainedModel, *, is_read: bool) -> str | None:
    """Return a hash of the weights of a model, for the record: `sha256_of_weights`, or else a hash of the parameters.

    Args:
        source: As for `load_model`.
        model: The model that was loaded from it.
        is_read: Whether the parameters were read anyway. If not, those of a large model are not read for the hash.

    Returns:
        The hash, or None for a large model if its weights would have to be read.
    """
    if is_read or model.get_memory_footprint() <= HASHED_BYTES:
        return sha256_of_weights(source) or fingerprint(model)
    return sha256_of_weights(source, read=False)


def sha256_of_weights(source: str | Path, *, read: bool = True) -> str | None:
    """Return the sha256 of the safetensors file of a model; for several files, that of the output of `sha256sum`.

    Args:
        source: As for `load_model`.
        read: Whether to read files whose names do not contain their sha256.

    Returns:
        The hash, or None if there are no such files on this machine, or if they would have to be read.
    """
    files = _find_files(source)
    if files is None:
        return None
    stored = [_stored_sha256(path) for path in files.paths]
    if not read and None in stored:
        return None
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(lambda path, digest: digest or sha256_of(path), files.paths, stored))
    if len(digests) == 1:
        return digests[0]
    listed = "".join(f"{digest}  {path.name}\n" for digest, path in zip(digests, files.paths, strict=True))
    return hashlib.sha256(listed.encode()).hexdigest()


def find_file(model: str, file: str) -> Path | None:
    """Return a file of a model: in a folder, or in the Hub's cache; None if it is not there.

    Args:
        model: The folder or Hub name, as `resolve` returns it.
        file: The name of the file.
    """
    if Path(model).is_dir():
        path = Path(model) / file
        return path if path.is_file() else None
    cached = try_to_load_from_cache(model, file)
    return Path(cached) if isinstance(cached, str) else None


def _stored_sha256(path: Path) -> str | None:
    """Return the sha256 by which the Hub's cache names a file; for large models, computing it takes minutes."""
    stored = path.resolve()
    is_named = stored.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", stored.name)
    return stored.name if is_named else None


@dataclass(frozen=True)
class _Files:
    """The safetensors files of a model, the shape of each tensor, and the index if there are several files."""

    paths: list[Path]
    shapes: Mapping[str, tuple[int, ...]]
    index: Mapping[str, Any] | None


def _find_files(source: str | Path) -> _Files | None:
    name = resolve(source)
    if kind_of_folder(name) is not None:  # such models may be saved in another form
        return None
    main_file = find_file(name, SAFE_WEIGHTS_NAME) or find_file(name, SAFE_WEIGHTS_INDEX_NAME)
    if main_file is None:
        return None
    paths = find_shards(main_file.parent)
    if any(path.parent != main_file.parent for path in paths):  # files in different folders may have the same name
        return None
    index = None if main_file.name == SAFE_WEIGHTS_NAME else json.loads(main_file.read_text(encoding="utf-8"))
    shapes = {key: tuple(entry["shape"]) for path in paths for key, entry in read_header(path)[0].items()}
    return _Files(paths, shapes, index)


def _updated_index(index: Mapping[str, Any], paths: list[Path], model: PreTrainedModel) -> dict[str, Any]:
    headers = {path.name: read_header(path)[0] for path in paths}
    offsets = [entry["data_offsets"] for header in headers.values() for entry in header.values()]
    metadata = {**index.get("metadata", {}), "total_size": sum(end - begin for begin, end in offsets)}
    if "total_parameters" in metadata:
        metadata["total_parameters"] = model.num_parameters()
    return {
        **index,
        "metadata": metadata,
        "weight_map": {name: file for name, file in index["weight_map"].items() if name in headers[file]},
    }
