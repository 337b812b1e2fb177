"""Load models and tokenizers by name: a local folder, a Hub name, or weights in a Python package."""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BertForMaskedLM,
    BertForPreTraining,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from relexify.errors import InputError, RelexifyError, first_line, is_panic
from relexify.pretrained.files.packaged import PACKAGED
from relexify.pretrained.files.shards import check_number_formats, check_shards, differing_shapes
from relexify.pretrained.files.tokenizer import check_backend_growth, check_tokenizer_file
from relexify.pretrained.kinds import kind_of_config, kind_of_folder
from relexify.pretrained.names import must_be_local, resolve, unknown_name
from relexify.pretrained.parameters.heads import add_head, has_head
from relexify.pretrained.runtime.quiet import quiet_transformers, save_model
from relexify.storage.cache import cached_folder
from relexify.storage.files import MARKER, write_file
from relexify.storage.json import read_json

__all__ = [
    "add_next_sentence_head",
    "check_loadable",
    "headed_model",
    "load_config",
    "load_model",
    "load_task_model",
    "load_tokenizer",
    "meta_model",
    "model_class",
    "task_class",
    "with_added_head",
]

_NUMBERS_PER_BYTE = 4  # more parameters per byte than any format stores
_MAX_LAYERS = 10_000  # even a model without weights is built layer by layer, which would take too long
_MAX_LABELS = 10_000_000  # transformers creates a name for each label, which would take too much memory
_ADAPTER = "adapter_config.json"
_PROBE = "a ☃"
"""Text to test a tokenizer; few tokenizers have a token for ☃."""

logger = logging.getLogger(__name__)


def load_model(name: str | Path, *, next_sentence: bool = False) -> PreTrainedModel:
    """Load a model with its head, in the dtype it was saved in.

    Args:
        name: A folder, a Hub name, or one of `PACKAGED`, such as `smollm2-135m`.
        next_sentence: Also load the next-sentence head of a BERT, if its weights contain one. The original BERTs have
            it in their files, although their configs name a class without it.

    Raises:
        InputError: The model does not exist or is damaged, or a language must be selected.
    """
    if _has_packaged_head(name):
        logger.warning("the language-modelling head of %s is new and untrained", name)
    path = check_loadable(name)
    _check_size(name, path)
    model, missing = _from_pretrained(name, model_class(load_config(name)), path, dtype="auto")
    _check_complete(name, model, missing)
    if next_sentence:
        add_next_sentence_head(model, name)
    return model


def add_next_sentence_head(model: PreTrainedModel, name: str | Path) -> None:
    """Copy the pooler and the next-sentence head of another BERT into a BERT, in place, if the other has them.

    The copied modules have the same names as in BERT's files, so `save_pretrained` also writes them. Predictions of
    masked tokens do not change. Other models, and BERTs that already have the head, are not changed.

    Args:
        model: The model to change.
        name: The BERT that has the head, as for `load_model`.

    Raises:
        InputError: The model does not exist or is damaged.
    """
    if not isinstance(model, BertForMaskedLM) or getattr(model.cls, "seq_relationship", None) is not None:
        return
    with torch.random.fork_rng(devices=[]):  # a missing head is initialised randomly
        both, missing = _from_pretrained(name, BertForPreTraining, check_loadable(name), dtype="auto")
    if not missing:
        model.bert.pooler, model.cls.seq_relationship = both.bert.pooler, both.cls.seq_relationship


def meta_model(name: str | Path) -> PreTrainedModel:
    """Build the model that `load_model` would load, on the meta device: with names and shapes, but no weights.

    Raises:
        InputError: The model does not exist.
    """
    config = load_config(name)
    loader = model_class(config)
    with _explained("model", name, must_be_local(resolve(name))), torch.device("meta"):
        if loader is AutoModelForCausalLM:
            return loader.from_config(config, trust_remote_code=False)
        return loader(config)


def headed_model(name: str | Path) -> PreTrainedModel:
    """Return the model that `with_added_head` would write; raise the same errors."""
    if _has_packaged_head(name):
        return load_model(name)
    config = load_config(name)
    _check_headless(name, config)
    with torch.random.fork_rng(devices=[]):  # a missing pooler is initialised randomly, but not used
        model, missing = _from_pretrained(name, model_class(config), check_loadable(name), dtype="auto")
    _check_complete(name, model, (key for key in missing if "pooler" not in key))
    return add_head(model)


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return the class that a model was saved with, so that its heads and biases are also loaded."""
    kind = kind_of_config(config)
    if kind is not None and kind.language_model is not None:
        return kind.language_model()
    names = getattr(config, "architectures", None) or []
    classes = (getattr(transformers, name, None) for name in names if isinstance(name, str))
    models = (entry for entry in classes if isinstance(entry, type) and issubclass(entry, PreTrainedModel))
    return task_class(next(models, AutoModelForCausalLM), config)


def task_class(plain: type, config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return the class to load a model with for a task.

    Args:
        plain: A class of transformers: a model class, or an `AutoModelFor…`.
        config: The config of the model to load.

    Returns:
        `plain`, or the corresponding class of the `ModelKind` that the config describes.
    """
    kind = kind_of_config(config)
    if kind is None or kind.config_entry is None:
        return plain
    mapping = getattr(plain, "_model_mapping", None)  # an Auto class has a mapping from config classes to model classes
    return kind.convert_class(plain if mapping is None else mapping[type(config)])


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerFast:
    """Load a tokenizer; `name` as for `load_model`.

    Raises:
        InputError: The tokenizer does not exist or is damaged.
    """
    path = check_loadable(name)
    check_tokenizer_file(Path(path) / "tokenizer.json")
    local = must_be_local(path)
    with _explained("tokenizer", name, local):
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False, local_files_only=local)
        _disable_dropout(name, tokenizer)
        _drop_empty_roles(name, tokenizer)
        if (backend := getattr(tokenizer, "backend_tokenizer", None)) is not None:
            check_backend_growth(str(name), backend)
        try:
            tokenizer(_PROBE)
        except Exception as error:
            if not re.search(r"\bunk_id\b|\[UNK\]", str(error)):  # the messages of Unigram and WordLevel
                raise
            raise InputError(
                f"the tokenizer of {name} has no unknown token, so it fails on text with letters that are not in its "
                "vocabulary: add one (unk_token)"
            ) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # without files, transformers returns an empty tokenizer
        raise InputError(f"{name} holds no tokenizer, or an empty one: check that its tokenizer files are there")
    return tokenizer


def _disable_dropout(name: str | Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Turn off BPE dropout, because with it a tokenizer encodes the same text differently each time."""
    model: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if dropout := getattr(model, "dropout", None):
        model.dropout = None
        logger.warning("the tokenizer of %s uses BPE dropout (dropout = %g): turning it off", name, dropout)


def _drop_empty_roles(name: str | Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Remove special tokens that are empty text, in place: transformers looks for the id of one without end."""
    for role, token in dict(tokenizer.special_tokens_map).items():
        if not str(token):
            setattr(tokenizer, role, None)
            logger.warning("the %s of the tokenizer of %s is empty text: leaving it out", role, name)


def load_config(name: str | Path) -> PreTrainedConfig:
    """Load only the config of a model; `name` as for `load_model`.

    Raises:
        InputError: The model does not exist, is damaged, or needs its own Python code.
    """
    path = check_loadable(name)
    local = must_be_local(path)
    described = read_json(Path(path) / "config.json")
    labels = described.get("num_labels") if isinstance(described, dict) else None
    if isinstance(labels, int) and labels > _MAX_LABELS:
        raise InputError(f"the config of {name} has num_labels = {labels}: check that it is the right file")
    with _explained("model", name, local):
        config = AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=local)
        entries = config.get_text_config().to_dict()
    for entry, value in entries.items():
        if "layer" in entry and isinstance(value, int) and value > _MAX_LAYERS:
            raise InputError(f"the config of {name} has {entry} = {value}: check that it is the right file")
    if not isinstance(getattr(config, "architectures", None), list):
        config.architectures = None
    return config


def check_loadable(name: str | Path) -> str:
    """Validate that a name is a single model, register its kind with transformers, and return the resolved name.

    Raises:
        InputError: As for `resolve`, or the folder contains one model per language.
    """
    path = resolve(name)
    for file in Path(path).iterdir() if Path(path).is_dir() else ():
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise InputError(f"{file} is not a regular file: give a folder with the files of a model")
    if (Path(path) / _ADAPTER).exists() and (Path(path) / "config.json").exists():
        raise _holds_adapter(name)
    kind = kind_of_folder(path)
    if kind is not None and kind.needs_language:
        raise InputError(
            f"{path} is a {kind.name}: choose a language ({' or '.join(kind.languages(path))}; --language), "
            "or write one of them as a separate model (relexify export)"
        )
    if kind is not None:
        kind.register()
    return path


def load_task_model(
    name: str | Path, auto_class: type, *, labels: Sequence[str], problem_type: str | None
) -> PreTrainedModel:
    """Load the inner parameters of a model with a new head for a task, in float32.

    The parameters of the head are drawn from torch's global generator; set its seed before calling this function.

    Args:
        name: As for `load_model`.
        auto_class: An `AutoModelFor…` of transformers, such as `AutoModelForSequenceClassification`.
        labels: The labels to predict, in the order of their scores.
        problem_type: As in the config of transformers.

    Raises:
        InputError: The model does not exist or is damaged, or there is no such head for it.
    """
    path = check_loadable(name)
    model, missing = _from_pretrained(
        name,
        task_class(auto_class, load_config(name)),
        path,
        dtype=torch.float32,
        num_labels=len(labels),
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
        problem_type=problem_type,
    )
    inner = f"{model.base_model_prefix}."
    _check_complete(name, model, (key for key in missing if key.startswith(inner) and "pooler" not in key))
    return model


def with_added_head(name: str | Path) -> Path:
    """Return a folder in the cache with the same model, a new, untrained head, and its tokenizer.

    For a packaged model that is unpacked with such a head, the name is returned unchanged.

    Args:
        name: As for `load_model`; a model that was saved without a head.

    Raises:
        InputError: The model does not exist, already has a head, or has an architecture without such a head.
    """
    if _has_packaged_head(name):
        return Path(name)
    headed, tokenizer = headed_model(name), load_tokenizer(name)

    def write(folder: Path) -> None:
        save_model(headed, folder)
        tokenizer.save_pretrained(folder)
        write_file(folder / MARKER, json.dumps({"head_added_to": str(name)}) + "\n")

    key = {"name": str(name), "class": type(headed).__name__, "model": headed, "tokenizer": tokenizer}
    folder = cached_folder("headed-model", key, write)
    logger.warning("added a new head to %s (%s): the head is untrained", name, type(headed).__name__)
    return folder


def _has_packaged_head(name: str | Path) -> bool:
    return str(name) in PACKAGED and PACKAGED[str(name)].has_untrained_head


def _check_headless(name: str | Path, config: PreTrainedConfig) -> None:
    if has_head(config):
        raise InputError(f"{name} already has a head: remove `add_head`")


def _from_pretrained(
    name: str | Path, loader: type[PreTrainedModel], path: str, **options: Any
) -> tuple[PreTrainedModel, list[str]]:
    """Return a model in evaluation mode, and the names of the parameters that its files lack."""
    local = must_be_local(path)
    check_shards(Path(path))
    with _explained("model", name, local), quiet_transformers():  # missing parameters are reported by the caller
        model, loaded = loader.from_pretrained(
            path, output_loading_info=True, trust_remote_code=False, local_files_only=local, **options
        )
    check_number_formats(Path(path), model)
    _check_unquantised(name, model)
    if getattr(model, "_hf_peft_config_loaded", False):  # for a Hub name; a folder was checked before loading
        raise _holds_adapter(name)
    _repair_generation(name, model)
    return model.eval(), sorted(loaded["missing_keys"])


def _repair_generation(name: str | Path, model: PreTrainedModel) -> None:
    """Correct, in place, generation options that transformers loads but rejects when the model is saved.

    Many models have sampling options, such as a temperature, without `do_sample`.
    """
    loaded = getattr(model, "generation_config", None)
    if loaded is None or (problem := _invalid_reason(loaded)) is None:
        return
    sampling = copy.deepcopy(loaded)
    sampling.do_sample = True
    if _invalid_reason(sampling) is None:
        model.generation_config = sampling
        logger.warning("generation_config.json of %s has sampling options without do_sample: setting it", name)
    else:
        model.generation_config = GenerationConfig.from_model_config(model.config)
        logger.warning("generation_config.json of %s is invalid (%s): ignoring it", name, problem)


def _invalid_reason(options: GenerationConfig) -> str | None:
    """Return why transformers would not save generation options; None if they are valid."""
    try:
        with quiet_transformers():
            options.validate(strict=True)
    except Exception as error:  # values of the wrong type may raise any exception
        return first_line(error)
    return None


def _check_size(name: str | Path, path: str) -> None:
    """Validate that a config does not describe a far larger model than the weights in its folder.

    transformers allocates the memory that the config describes before it reports that the weights have other shapes.
    """
    stored = sum(file.stat().st_size for file in Path(path).glob("*model*") if file.is_file())
    if stored == 0:  # a Hub name
        return
    described = meta_model(name).num_parameters()
    if described > 1e7 + _NUMBERS_PER_BYTE * stored:
        raise InputError(
            f"the weights of {name} do not have the shapes that its config describes: {described:,} parameters do not "
            f"fit into {stored:,} bytes; check that config.json and the weights belong together"
        )


def _check_unquantised(name: str | Path, model: PreTrainedModel) -> None:
    """Validate that transformers has not quantised a model during loading."""
    if getattr(model.config, "quantization_config", None) is not None:
        raise InputError(
            f"the config of {name} has quantization_config, so transformers quantises its weights: give the model as "
            "it was before quantisation, or remove this entry if the weights are not quantised"
        )


def _holds_adapter(name: str | Path) -> InputError:
    """Return the error for a model with an adapter: transformers would load both, but save only the adapter."""
    return InputError(
        f"{name} has a peft adapter ({_ADAPTER}) in addition to its weights: merge it into the weights "
        "(merge_and_unload), or remove the adapter files if it is already merged"
    )


def _check_complete(name: str | Path, model: PreTrainedModel, missing: Iterable[str]) -> None:
    if names := list(missing):
        raise InputError(
            f"{name} lacks {len(names)} parameters of {type(model).__name__} ({names[0]}, …): "
            "check that config.json and the weights belong together"
        )


@contextmanager
def _explained(what: str, name: str | Path, local: bool) -> Iterator[None]:
    """Convert any exception of transformers to an `InputError`: an invalid config may raise any type anywhere."""
    try:
        yield
    except RelexifyError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise InputError(_message(what, name, error, local)) from error


def _message(what: str, name: str | Path, error: BaseException, local: bool) -> str:
    """Return the error message for a model or tokenizer that transformers could not load."""
    if "trust_remote_code" in str(error):
        return (
            f"{name} needs its own Python code, which relexify does not run: "
            "give a model whose architecture is part of transformers"
        )
    if isinstance(error, UnpicklingError) or isinstance(error.__context__, UnpicklingError):
        return (
            f"the weights of {name} are a pickle that contains more than numbers, which relexify does not load: "
            "give a model that is saved as safetensors"
        )
    if "ignore_mismatched_sizes" in str(error):
        differing = differing_shapes(meta_model(name), Path(resolve(name)))
        first = f" ({differing[0]}{'' if len(differing) == 1 else ', …'})" if differing else ""
        return (
            f"the weights of {name} do not have the shapes that its config describes{first}: check that config.json "
            "and the weights belong together"
        )
    reason = first_line(error)
    if Path(name).is_dir():
        return f"the folder {name} holds no {what} that can be loaded ({reason}): check that it is complete"
    return unknown_name(what, name, None if local else reason)
