"""Models and tokenizers by name: a local folder, a Hub name, or weights that a Python package carries."""

from __future__ import annotations

import hashlib
import json
import logging
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from relexify.errors import InputError
from relexify.pretrained.heads import add_head, has_head
from relexify.pretrained.hub import check_name, must_be_local, own_code_message
from relexify.pretrained.packaged import PACKAGED, unpacked
from relexify.storage.cache import cache_folder
from relexify.storage.files import MARKER, write_file, write_folder

__all__ = [
    "BILINGUAL",
    "TRILAYER",
    "cache_folder",
    "class_in_form",
    "hollow_model",
    "is_bilingual",
    "is_trilayer",
    "load_config",
    "load_model",
    "load_tokenizer",
    "model_class",
    "resolve",
    "with_added_head",
]

BILINGUAL = "relexify-bilingual"
"""The model type of a folder with two languages, which is loaded in the room of models."""
TRILAYER = "relexify-trilayer"
"""The model type of a folder with a TRILayer."""
_OWN = {TRILAYER: ("relexify.systems.trelm.model.heads", "TriLayerForMaskedLM")}
"""Model types of our own, and the class to load them with; named and not imported, like the forms below."""
_FORMS = {"sub_embedding": ("relexify.systems.compression.model", "compressed_class")}
"""Entries of a config that say a model is built in another form, and what makes the class of that form out of the plain
one. They are named and not imported, since those who know the forms build on this room."""

logger = logging.getLogger(__name__)


def load_model(name: str | Path, *, trust_remote_code: bool = False) -> Any:
    """Load a model with its head, in the dtype it was saved in.

    Args:
        name: A folder, a Hub name, or one of `PACKAGED`, such as `smollm2-135m`.
        trust_remote_code: Run code that comes with the model.

    Raises:
        InputError: There is no such model, or it is damaged.
    """
    if str(name) in PACKAGED and PACKAGED[str(name)].has_untrained_head:
        logger.warning("the language-modelling head of %s is new, and knows nothing until it is trained", name)
    return _loaded(name, trust_remote_code)


def hollow_model(name: str | Path) -> Any:
    """A model by its config alone, as `load_model` would load it: names and shapes, but no weights and no memory.

    Raises:
        InputError: There is no such model.
    """
    config = load_config(name)
    loader = class_in_form(model_class(config), config)
    try:
        with torch.device("meta"):
            if loader is AutoModelForCausalLM:
                return loader.from_config(config, trust_remote_code=False)
            return loader(config)
    except (ValueError, KeyError) as error:
        raise InputError(_refusal("model", name, error, must_be_local(resolve(name)))) from error


def class_in_form(loader: Any, config: Any) -> Any:
    """The class to load a model with: `loader`, or its like in the form that the config tells of.

    Args:
        loader: A class of transformers, of a model or an `AutoModelFor…`.
        config: Of the model to load.
    """
    for entry, (room, maker) in _FORMS.items():
        if getattr(config, entry, None) is not None:
            automatic = getattr(loader, "_model_mapping", None)
            plain = loader if automatic is None else automatic[type(config)]
            return getattr(import_module(room), maker)(plain)
    return loader


def load_tokenizer(name: str | Path, *, trust_remote_code: bool = False) -> Any:
    """Load a tokenizer; `name` as for `load_model`.

    Raises:
        InputError: There is no such tokenizer, or it is damaged.
    """
    place = resolve(name)
    _refuse_bilingual(place)
    _introduce(place)
    local = must_be_local(place)
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=trust_remote_code, local_files_only=local)
    except Exception as error:  # a damaged tokenizer.json raises a plain Exception
        raise InputError(_refusal("tokenizer", name, error, local)) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # what transformers makes up where the files are missing
        raise InputError(f"{name} holds no tokenizer, or an empty one: check that its tokenizer files are there")
    return tokenizer


def load_config(name: str | Path) -> Any:
    """Load a model's config alone; `name` as for `load_model`.

    Raises:
        InputError: There is no such model, it is damaged, or it needs code of its own.
    """
    place = resolve(name)
    _refuse_bilingual(place)
    _introduce(place)
    local = must_be_local(place)
    try:
        return AutoConfig.from_pretrained(place, trust_remote_code=False, local_files_only=local)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(_refusal("model", name, error, local)) from error


def resolve(name: str | Path) -> str:
    """A folder or Hub name that `from_pretrained` understands.

    Raises:
        InputError: It is a path that leads nowhere, or a packaged model whose package is not installed.
    """
    if str(name) in PACKAGED:
        return str(unpacked(str(name)))
    check_name(name)
    return str(name)


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
        headed = add_head(_loaded(name, without=("pooler",)))
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


def _loaded(name: str | Path, trust_remote_code: bool = False, *, without: tuple[str, ...] = ()) -> Any:
    """A model that lacks no parameter but such as have one of these words in their names."""
    place = resolve(name)
    _refuse_bilingual(place)
    _introduce(place)
    local = must_be_local(place)
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": local}
    try:
        config = AutoConfig.from_pretrained(place, **options)
        loader = class_in_form(model_class(config, trust_remote_code), config)
        model, loaded = loader.from_pretrained(place, dtype="auto", output_loading_info=True, **options)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(_refusal("model", name, error, local)) from error
    if missing := sorted(key for key in loaded["missing_keys"] if not any(part in key for part in without)):
        raise InputError(
            f"{name} lacks {len(missing)} parameters of {loader.__name__} ({missing[0]}, …): "
            "check that config.json and the weights belong together"
        )
    return model.eval()


def _introduce(folder: str) -> None:
    """Let transformers know a model type of our own, which it does once the class is imported."""
    if (kind := _own_config(folder).get("model_type")) in _OWN:
        _own_class(kind)


def _own_class(kind: str) -> Any:
    room, name = _OWN[kind]
    return getattr(import_module(room), name)


def model_class(config: Any, trust_remote_code: bool = False) -> Any:
    """The class the model was saved as, so that heads and biases come along."""
    if getattr(config, "model_type", None) in _OWN:
        return _own_class(config.model_type)
    names = getattr(config, "architectures", None) or []
    if trust_remote_code and getattr(config, "auto_map", None):
        return AutoModelForCausalLM
    return next((getattr(transformers, name) for name in names if hasattr(transformers, name)), AutoModelForCausalLM)


def is_bilingual(name: str | Path) -> bool:
    """Whether a name is that of a folder with a bilingual model."""
    return _own_config(name).get("model_type") == BILINGUAL


def is_trilayer(name: str | Path) -> bool:
    """Whether a name is that of a folder with a TRILayer model."""
    return _own_config(name).get("model_type") == TRILAYER


def _own_config(folder: str | Path) -> dict[str, Any]:
    """What stands in config.json; nothing where it cannot be read."""
    try:
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def _refuse_bilingual(folder: str) -> None:
    """A bilingual model is two, and the rooms above tell which one is meant."""
    if is_bilingual(folder):
        languages = " or ".join(map(str, _own_config(folder).get("languages", ())))
        raise InputError(
            f"{folder} is a bilingual model: say which language is meant ({languages}; --language), "
            "or write one of them as a model of its own (relexify export)"
        )


def _refusal(what: str, name: str | Path, error: Exception, local: bool) -> str:
    if message := own_code_message(name, error):
        return message
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if Path(name).is_dir():
        return f"the folder {name} holds no {what} that can be loaded ({reason}): check that it is complete"
    if local:
        return (
            f"there is no {what} {str(name)!r} on this machine, neither as a folder nor in the Hub's cache, "
            "and the Hub cannot be reached: check the name, or the network"
        )
    return f"there is no {what} {str(name)!r}: it is no folder here, and the Hub did not give it ({reason})"
