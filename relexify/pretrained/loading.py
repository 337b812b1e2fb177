"""Models and tokenizers by name: a local folder, a Hub name, or weights that a Python package carries."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from relexify.errors import InputError, first_line
from relexify.pretrained.heads import add_head, has_head
from relexify.pretrained.hub import check_name, must_be_local, own_code_message
from relexify.pretrained.kinds import kind_of_config, kind_of_folder
from relexify.pretrained.packaged import PACKAGED, unpacked
from relexify.storage.cache import cache_folder
from relexify.storage.files import MARKER, write_file, write_folder

__all__ = [
    "check_loadable",
    "load_config",
    "load_model",
    "load_tokenizer",
    "meta_model",
    "model_class",
    "resolve",
    "task_class",
    "with_added_head",
]

logger = logging.getLogger(__name__)


def load_model(name: str | Path) -> PreTrainedModel:
    """Load a model with its head, in the dtype it was saved in.

    Args:
        name: A folder, a Hub name, or one of `PACKAGED`, such as `smollm2-135m`.

    Raises:
        InputError: There is no such model, it is damaged, or a language must be chosen.
    """
    if str(name) in PACKAGED and PACKAGED[str(name)].has_untrained_head:
        logger.warning("the language-modelling head of %s is new and untrained", name)
    return _load(name)


def meta_model(name: str | Path) -> PreTrainedModel:
    """Build the model that `load_model` would load, on the meta device: names and shapes, but no weights.

    Raises:
        InputError: There is no such model.
    """
    config = load_config(name)
    loader = model_class(config)
    try:
        with torch.device("meta"):
            if loader is AutoModelForCausalLM:
                return loader.from_config(config, trust_remote_code=False)
            return loader(config)
    except (ValueError, KeyError) as error:
        raise InputError(_message("model", name, error, must_be_local(resolve(name)))) from error


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return the class that a model was saved as, so that its heads and biases are loaded too."""
    kind = kind_of_config(config)
    if kind is not None and kind.language_model is not None:
        return kind.language_model()
    names = getattr(config, "architectures", None) or []
    saved = next((getattr(transformers, name) for name in names if hasattr(transformers, name)), AutoModelForCausalLM)
    return task_class(saved, config)


def task_class(plain: type, config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return the class to load a model with for a task.

    Args:
        plain: A class of transformers: of a model, or an `AutoModelFor…`.
        config: The config of the model to load.

    Returns:
        `plain`, or the class that corresponds to it in the kind of model that the config describes.
    """
    kind = kind_of_config(config)
    if kind is None or kind.config_entry is None:
        return plain
    mapping = getattr(plain, "_model_mapping", None)  # of an Auto class, from configs to classes
    return kind.convert_class(plain if mapping is None else mapping[type(config)])


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerFast:
    """Load a tokenizer; `name` as for `load_model`.

    Raises:
        InputError: There is no such tokenizer, or it is damaged.
    """
    path = check_loadable(name)
    local = must_be_local(path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False, local_files_only=local)
    except Exception as error:  # a damaged tokenizer.json raises a plain Exception
        raise InputError(_message("tokenizer", name, error, local)) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers returns this if the files are missing
        raise InputError(f"{name} holds no tokenizer, or an empty one: check that its tokenizer files are there")
    return tokenizer


def load_config(name: str | Path) -> PreTrainedConfig:
    """Load a model's config alone; `name` as for `load_model`.

    Raises:
        InputError: There is no such model, it is damaged, or it needs code of its own.
    """
    path = check_loadable(name)
    local = must_be_local(path)
    try:
        return AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=local)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(_message("model", name, error, local)) from error


def resolve(name: str | Path) -> str:
    """Return the folder or Hub name that `from_pretrained` understands.

    Raises:
        InputError: It is a path that does not exist, or a packaged model whose package is not installed.
    """
    if str(name) in PACKAGED:
        return str(unpacked(str(name)))
    check_name(name)
    return str(name)


def check_loadable(name: str | Path) -> str:
    """Return what `resolve` does, after validating that it is one model; its classes are then known to transformers.

    Raises:
        InputError: As for `resolve`, or it holds one model per language.
    """
    path = resolve(name)
    kind = kind_of_folder(path)
    if kind is not None and kind.needs_language:
        raise InputError(
            f"{path} is a {kind.name}: say which language is meant ({' or '.join(kind.languages(path))}; --language), "
            "or write one of them as a model of its own (relexify export)"
        )
    if kind is not None:
        kind.register()
    return path


def with_added_head(name: str | Path) -> Path:
    """A folder with the same model, a new and untrained head on top, and its tokenizer; kept in the cache.

    Args:
        name: As for `load_model`; a model that was saved without a head.

    Raises:
        InputError: There is no such model, it has a head already, or none is known for it.
    """
    if str(name) in PACKAGED and PACKAGED[str(name)].has_untrained_head:
        return unpacked(str(name))  # with its new head
    if has_head(load_config(name)):
        raise InputError(f"{name} has a head already: leave out --add-head")
    with torch.random.fork_rng(devices=[]):  # a pooler that is missing would be drawn at random; it is left behind
        headed = add_head(_load(name, ignored=("pooler",)))
    tokenizer = load_tokenizer(name)
    folder = cache_folder() / "models" / f"{Path(name).name}-{_digest(headed, tokenizer)[:16]}"
    if not (folder / "config.json").exists():
        with write_folder(folder, internal=True) as beside:
            headed.save_pretrained(beside)
            tokenizer.save_pretrained(beside)
            write_file(beside / MARKER, json.dumps({"head_added_to": str(name)}) + "\n")
    logger.warning("a new %s was put on %s: its head is untrained", type(headed).__name__, name)
    return folder


def _digest(model: Any, tokenizer: Any) -> str:
    """Changes with every parameter and token."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    return digest.hexdigest()


def _load(name: str | Path, *, ignored: tuple[str, ...] = ()) -> PreTrainedModel:
    """Load a model; only parameters with one of the `ignored` words in their names may be missing."""
    path = check_loadable(name)
    local = must_be_local(path)
    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=local)
        loader = model_class(config)
        model, loaded = loader.from_pretrained(
            path, dtype="auto", output_loading_info=True, trust_remote_code=False, local_files_only=local
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(_message("model", name, error, local)) from error
    if missing := sorted(key for key in loaded["missing_keys"] if not any(part in key for part in ignored)):
        raise InputError(
            f"{name} lacks {len(missing)} parameters of {loader.__name__} ({missing[0]}, …): "
            "check that config.json and the weights belong together"
        )
    return model.eval()


def _message(what: str, name: str | Path, error: Exception, local: bool) -> str:
    if message := own_code_message(name, error):
        return message
    reason = first_line(error)
    if Path(name).is_dir():
        return f"the folder {name} holds no {what} that can be loaded ({reason}): check that it is complete"
    if local:
        return (
            f"there is no {what} {str(name)!r} on this machine, neither as a folder nor in the Hub's cache, "
            "and the Hub cannot be reached: check the name, or the network"
        )
    return f"there is no {what} {str(name)!r}: it is no folder here, and the Hub did not give it ({reason})"
