"""Fingerprints: one name for everything that a result depends on, by content.

Two runs with the same fingerprint give the same result, so a cached or finished result is found by it. Every field of
a dataclass counts, so that a new option cannot be forgotten; an exception is marked where the field is defined:

    @dataclass(frozen=True)
    class Options:
        vocab_size: int = 32_000
        model: str = field(default="gpt2", metadata=BY_CONTENT)    # a folder counts by its files, a name as it is
        corpus: Any = field(default=None, metadata=content_of(Corpus.open))     # counts by what it opens
        device: str = field(default="cpu", metadata=NO_EFFECT)     # does not affect the result
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from relexify.storage.files import sha256_of

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import DataclassInstance

__all__ = ["BY_CONTENT", "NO_EFFECT", "content_of", "describe", "fingerprint"]

_KEY = "fingerprint"
_NO_CONTENT = ("_name_or_path", "architectures", "dtype", "transformers_version")
"""Entries of a config that say where, by what or how a model was saved; tensors have their own dtype."""

NO_EFFECT: Mapping[str, str] = MappingProxyType({_KEY: "ignore"})
"""Metadata of a dataclass field that does not affect the result, such as a device or an output path."""
BY_CONTENT: Mapping[str, str] = MappingProxyType({_KEY: "content"})
"""Metadata of a dataclass field with names of files or folders as text: those that exist count by their content."""


def content_of(open: Callable[[Any], object]) -> Mapping[str, Any]:
    """Return the metadata of a dataclass field whose value counts by what it stands for.

    Args:
        open: Turns a value of the field that is not None, such as the name of a corpus, into something with a
            fingerprint.
    """
    return MappingProxyType({_KEY: open})


def fingerprint(value: object) -> str:
    """Return the sha256 of a value by content, in hex.

    Args:
        value: Plain data, dataclasses, paths, arrays, models with their configs, tokenizers, anything with a method
            `fingerprint()`, and lists and mappings of these.

    Raises:
        TypeError: The value, or a part of it, is of a type without a defined content.
    """
    text = json.dumps(describe(value), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def describe(value: object) -> Any:  # noqa: PLR0911
    """Return the value that `fingerprint` hashes, as plain data.

    Large contents are hashes, everything else is readable. A run writes this next to its unfinished work, so that a
    message can name the option that differs.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Path):
        return _file_content(value)
    if callable(own := getattr(value, "fingerprint", None)):
        return own()
    # A config of transformers, which newer versions make a dataclass.
    if hasattr(value, "to_diff_dict") and callable(as_dict := getattr(value, "to_dict", None)):
        return _config_content(as_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return _dataclass_content(value)
    if isinstance(value, Mapping):
        return {str(key): describe(each) for key, each in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((describe(each) for each in value), key=json.dumps)
    if isinstance(value, list | tuple):
        return [describe(each) for each in value]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    numpy = sys.modules.get("numpy")  # imported, if the value is one of its objects
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _array_content(value)
    return _foreign_content(value)


def _dataclass_content(value: DataclassInstance) -> dict[str, Any]:
    """Describe the fields of a dataclass, each as its metadata says."""
    found = {}
    for entry in fields(value):
        part, rule = getattr(value, entry.name), entry.metadata.get(_KEY)
        if rule == "ignore":
            continue
        if callable(rule) and part is not None:
            part = rule(part)
        found[entry.name] = _named_content(part) if rule == "content" else describe(part)
    return found


def _named_content(value: object) -> Any:
    """Describe a name of a file or folder, or a list or mapping of such names."""
    if isinstance(value, str):
        return _file_content(Path(value).expanduser(), otherwise=value)
    if isinstance(value, list | tuple):
        return [_named_content(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _named_content(each) for key, each in value.items()}
    return describe(value)


def _file_content(path: Path, otherwise: str | None = None) -> str:
    return sha256_of(path) if path.exists() else otherwise or str(path)


def _array_content(array: np.ndarray) -> dict[str, Any]:
    import numpy as np

    data = np.ascontiguousarray(array)
    digest = hashlib.sha256(data.view(np.uint8).data if data.size else b"").hexdigest()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest}


def _foreign_content(value: Any) -> Any:
    """Describe a tensor, model or tokenizer by duck typing, because this package does not import torch."""
    if hasattr(value, "state_dict"):
        # The same weights are another model with another activation function, or with other generation options.
        settings = [getattr(value, name, None) for name in ("config", "generation_config")]
        state = _state_content(value.state_dict())
        return state if settings == [None, None] else [state, *map(describe, settings)]
    if hasattr(value, "backend_tokenizer"):
        return {
            "tokenizer": hashlib.sha256(value.backend_tokenizer.to_str().encode()).hexdigest(),
            "special": {role: str(token) for role, token in value.special_tokens_map.items()},
            "chat_template": value.chat_template,
            "padding_side": value.padding_side,
            "truncation_side": value.truncation_side,
            "length": value.model_max_length,
        }
    if hasattr(value, "detach"):
        torch = sys.modules["torch"]  # imported, since there is a tensor
        content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        return {"dtype": str(value.dtype), "shape": list(value.shape), "sha256": hashlib.sha256(content).hexdigest()}
    raise TypeError(f"{type(value).__name__} has no fingerprint: give it a method fingerprint(), or mark the field")


def _config_content(value: Any) -> Any:
    """Describe a config as plain data, without what says nothing about the model."""
    if isinstance(value, Mapping):
        return {str(key): _config_content(each) for key, each in value.items() if key not in _NO_CONTENT}
    return describe(value)


def _state_content(state: Mapping[str, Any]) -> str:
    """Hash the tensors of a model, on all cores: one of them hashes 0.4 to 2 GB per second."""
    from concurrent.futures import ThreadPoolExecutor

    locations = {name: (each.data_ptr(), each.dtype, each.shape, each.stride()) for name, each in state.items()}
    tensors = {locations[name]: each for name, each in state.items()}  # those that are tied are hashed once
    with ThreadPoolExecutor() as pool:
        contents = dict(zip(tensors, pool.map(describe, tensors.values()), strict=True))
    return fingerprint({name: contents[location] for name, location in locations.items()})
