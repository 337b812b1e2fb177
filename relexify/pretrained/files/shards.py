"""Find the files that transformers loads as the weights of a model, and check that it reads them correctly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from relexify.errors import InputError
from relexify.storage.json import read_json
from relexify.storage.tensor_files import expected_size, read_header

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

__all__ = ["check_number_formats", "check_shards", "differing_shapes", "find_shards", "parameter_name"]

_SINGLE, _INDEX, _TORCH_INDEX = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin.index.json"
"""The same names as in `transformers.utils`; they are repeated because that import takes a second."""
_NUMBER_FORMATS = ("F16", "BF16", "F32", "F64")


def find_shards(folder: Path) -> list[Path]:
    """Return the safetensors file with all weights, or the files listed in the index; an empty list without either.

    If several files contain the same parameter, transformers loads the last one.

    Raises:
        InputError: The index is damaged, or names a file outside the folder.
    """
    single = folder / _SINGLE
    return [single] if single.is_file() else _indexed(folder / _INDEX)


def check_shards(folder: Path) -> None:
    """Validate that the files with the weights are in the folder and complete, before any of them is read.

    Raises:
        InputError: As for `find_shards`, or a file is missing or truncated.
    """
    for file in find_shards(folder):
        if not file.exists():
            raise InputError(f"{file} is missing: copy or download it again, or write the folder again")
        size, expected = file.stat().st_size, expected_size(file)
        if size < expected:
            raise InputError(
                f"{file} is truncated: it has {size:,} bytes, but at least {expected:,} are expected; copy or download "
                "it again, or write the folder again"
            )
    _indexed(folder / _TORCH_INDEX)


def check_number_formats(folder: Path, model: PreTrainedModel) -> None:
    """Validate that the weights of a model are in number formats that transformers loads without loss.

    transformers silently converts integers, complex numbers (only their real parts are kept), and 8-bit floats. The
    scale of 8-bit floats is elsewhere in the file; it is ignored unless the config describes the format.

    Raises:
        InputError: A parameter is in another format.
    """
    parameters = {name for name, parameter in model.named_parameters() if parameter.is_floating_point()}
    is_described = getattr(model.config, "quantization_config", None) is not None
    for file in find_shards(folder):
        for name, entry in read_header(file)[0].items():
            dtype = entry["dtype"]
            is_readable = dtype in _NUMBER_FORMATS or (dtype.startswith("F8") and is_described)
            if is_readable or {name, f"{model.base_model_prefix}.{name}"}.isdisjoint(parameters):
                continue
            raise InputError(
                f"{file} has {name} as {dtype}, but weights must be floating-point numbers of 16 bits or more: give "
                "the model as it was before quantisation"
            )


def differing_shapes(model: PreTrainedModel, folder: Path) -> list[str]:
    """Return a description of each tensor whose shape in the safetensors files of a folder differs from the model."""
    tensors, found = model.state_dict(), []
    for path in find_shards(folder):
        for name, entry in read_header(path)[0].items():
            parameter = parameter_name(model, name, tensors)
            if parameter is not None and list(tensors[parameter].shape) != entry["shape"]:
                stored, described = (_by(shape) for shape in (entry["shape"], tensors[parameter].shape))
                found.append(f"{name} is {stored} in {path.name}, but {described} according to the config")
    return found


def parameter_name(model: PreTrainedModel, name: str, tensors: Mapping[str, torch.Tensor]) -> str | None:
    """Return the parameter that transformers loads a tensor of a file into; None if it ignores the tensor.

    If a checkpoint was saved without a head, as for GPT-2, its names may lack the prefix of the base model.
    """
    prefix = f"{model.base_model_prefix}."
    return next((each for each in (name, prefix + name, name.removeprefix(prefix)) if each in tensors), None)


def _by(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "a single number"


def _indexed(index_file: Path) -> list[Path]:
    if not index_file.is_file():
        return []
    index = read_json(index_file)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    names = set(map(str, shards.values())) if isinstance(shards, dict) else {"\0"}
    for name in names:
        if "\0" in name:
            raise InputError(
                f"{index_file} is damaged: it does not name a file for each parameter; copy or download it again"
            )
        if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
            raise InputError(
                f"{index_file} names {name[:100]!r}, which is outside its folder: give a folder with the whole model"
            )
    return [index_file.parent / name for name in sorted(names)]
