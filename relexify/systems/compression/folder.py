"""Compress the folder of a model, and expand it again.

The output keeps the tokenizer of the model, the mixture if it is a graft, and the notes in `relexify.json`. Clustered
codes are cached, because they take minutes for a large vocabulary and depend only on the embedding.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import GraftError, InputError, VocabularyError
from relexify.grafting import describe_other_tokens, load_own_tokenizer
from relexify.mixture import MIXTURE_FILE
from relexify.pretrained.architecture import check_fit
from relexify.pretrained.loading import load_model
from relexify.pretrained.parameters.lexical import weight_rows
from relexify.pretrained.runtime.quiet import save_model
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.cache import cached
from relexify.storage.files import MARKER, Provenance, check_output, write_file, write_folder
from relexify.storage.fingerprint import describe
from relexify.storage.notes import inherited_notes
from relexify.systems.compression.codes import check_codes, codes_of
from relexify.systems.compression.compress import CompressionReport, compressed
from relexify.systems.compression.model import expanded, is_compressed
from relexify.systems.compression.options import Compression
from relexify.tokens import vocabulary_of
from relexify.version import __version__

__all__ = ["compress_folder", "expand_folder"]

_CODES_FILE = "codes.safetensors"

logger = logging.getLogger(__name__)


def compress_folder(
    model: str | Path,
    output: str | Path,
    options: Compression | None = None,
    *,
    overwrite: bool = False,
) -> CompressionReport:
    """Compress the embedding of a model, and write the model with its tokenizer to a folder.

    Args:
        model: A folder, a Hub name, or `smollm2-135m`.
        output: The folder to write; `relexify.load_model` loads it.
        options: How to compress it.
        overwrite: Replace the output.

    Raises:
        InputError: The model does not exist, or an option is impossible for it.
        GraftError: The model cannot be compressed.
        VocabularyError: The tokenizer does not belong to the model, or `codes_from` has other tokens.
        OutputError: The output exists, or cannot be written.
    """
    options = options or Compression()
    check_output(output, model, options.codes_from, overwrite=overwrite)
    notes = inherited_notes(model)
    tokenizer, plain = load_own_tokenizer(model), load_model(model)
    check_fit(plain, tokenizer)
    pretrained = None
    if options.codes_from is not None:
        pretrained = weight_rows(load_model(options.codes_from).get_input_embeddings())
        tokens = plain.get_input_embeddings().weight.shape[0]
        if len(pretrained) != tokens:
            raise InputError(
                f"{options.codes_from} has {len(pretrained):,} rows, but the model has {tokens:,}: "
                "give a model with the same vocabulary"
            )
        # Rows of the two models are paired by id.
        others = vocabulary_of(load_own_tokenizer(options.codes_from)).tokens
        if other := describe_other_tokens(others, vocabulary_of(tokenizer).tokens):
            raise VocabularyError(f"{options.codes_from} has another vocabulary than the model: {other}")
    small, report = compressed(plain, options, pretrained=pretrained, make_codes=_cached_codes)
    if report.embedding_after >= report.embedding_before:
        logger.warning(
            "the compressed embedding has %s parameters, not fewer than the original with %s: give a larger k, fewer "
            "clusters, or a lower rank",
            f"{report.embedding_after:,}",
            f"{report.embedding_before:,}",
        )
    command = {"model": str(model), **asdict(options)}
    inputs = {"model": describe(Path(model))}
    if options.codes_from is not None:
        inputs["codes_from"] = describe(Path(options.codes_from))
    for name in ("bits_per_byte_before_training", "verdict", "expanded_from"):  # these describe the uncompressed model
        notes.pop(name, None)
    notes["compressed_from"] = str(model)
    notes["compression"] = asdict(report)
    source = notes.get("provenance")
    notes["provenance"] = Provenance(__version__, command, inputs, options.seed, source).as_dict()
    _write(small, tokenizer, notes, output, source=model, overwrite=overwrite)
    return report


def expand_folder(model: str | Path, output: str | Path, *, overwrite: bool = False) -> None:
    """Write a compressed model as an equivalent ordinary model.

    Args:
        model: The folder of a compressed model.
        output: The folder to write.
        overwrite: Replace the output.

    Raises:
        InputError: The model does not exist.
        GraftError: The model is not compressed.
        VocabularyError: The tokenizer does not belong to the model.
        OutputError: The output exists, or cannot be written.
    """
    check_output(output, model, overwrite=overwrite)
    notes = inherited_notes(model)
    tokenizer, small = load_own_tokenizer(model), load_model(model)
    if not is_compressed(small):
        raise GraftError(f"{model} is not compressed: give a folder that relexify compress wrote")
    notes["expanded_from"] = str(model)
    inputs = {"model": describe(Path(model))}
    provenance = Provenance(__version__, {"model": str(model)}, inputs, source=notes.get("provenance"))
    notes["provenance"] = provenance.as_dict()
    _write(expanded(small), tokenizer, notes, output, source=model, overwrite=overwrite)


def _cached_codes(rows: np.ndarray, options: Compression) -> np.ndarray:
    """Return codes of tokens; clustered codes are cached, with rows and options as the key."""
    if options.codes != "clustered":
        return codes_of(rows, options)
    return cached(
        "codes",
        {
            "rows": rows,
            "k": options.k,
            "clusters": options.clusters,
            "equal_size": options.equal_size,
            "matched": options.matched,
            "seed": options.seed,
        },
        make=lambda: codes_of(rows, options),
        save=lambda codes, folder: save_arrays(folder / _CODES_FILE, {"codes": codes}, {"kind": "codes"}),
        load=lambda folder: check_codes(load_arrays(folder / _CODES_FILE, "codes")[0]["codes"].copy(), len(rows)),
    )


def _write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    notes: Mapping[str, Any],
    output: str | Path,
    *,
    source: str | Path,
    overwrite: bool,
) -> None:
    """Write a model with its tokenizer, its notes and, if its source folder has one, the mixture."""
    with write_folder(output, overwrite=overwrite) as folder:
        save_model(model, folder)
        save_tokenizer(tokenizer, folder)
        if (Path(source) / MIXTURE_FILE).is_file():
            shutil.copyfile(Path(source) / MIXTURE_FILE, folder / MIXTURE_FILE)
        text = json.dumps(notes, ensure_ascii=False, indent=2, sort_keys=True)
        write_file(folder / MARKER, text + "\n")
