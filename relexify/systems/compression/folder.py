"""Compress a folder, and expand it again: models with their tokenizer, what is known about them, and provenance."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from relexify.errors import GraftError, InputError
from relexify.grafting import MIXTURE_FILE
from relexify.pretrained.fresh import fresh_model
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.scoring import check_fit
from relexify.storage.files import MARKER, Provenance, check_inputs, check_output, sha256_of, write_file, write_folder
from relexify.systems.compression.compress import CompressionReport, codes_of, compressed
from relexify.systems.compression.model import expanded, is_compressed
from relexify.systems.compression.options import Compression
from relexify.systems.transfer.steps import kept_codes, step_name
from relexify.version import __version__

__all__ = ["compress_folder", "expand_folder", "model_identity"]

logger = logging.getLogger(__name__)


def compress_folder(
    model: str | Path,
    output: str | Path,
    options: Compression | None = None,
    *,
    fresh: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> CompressionReport:
    """Compress the embedding of a model and write it, with its tokenizer, to a folder; clusters are kept in the cache.

    Args:
        model: A folder, a Hub name, or `smollm2-135m`.
        output: The folder to write; `relexify.load_model` loads it.
        options: How.
        fresh: Begin with random parameters and the model's config, with these fields of it changed.
        overwrite: Replace the output.

    Raises:
        InputError: There is no such model, or an option is impossible for it.
        GraftError: The model cannot be compressed.
        OutputError: The output exists, or cannot be written.
    """
    options = options or Compression()
    check_inputs(output, model, options.codes_from)
    check_output(output, overwrite=overwrite)
    plain = load_model(model) if fresh is None else fresh_model(model, fresh, seed=options.seed)
    tokenizer = load_tokenizer(model)
    check_fit(plain, tokenizer)
    rows = plain.get_input_embeddings().weight.shape[0]
    known = _rows_of(options.codes_from, rows)
    made, report = compressed(plain, options, pretrained=known, codes_by=_codes_once)
    if report.embedding_after >= report.embedding_before:
        logger.warning(
            "the tables have %s parameters, the embedding has %s: nothing is saved; give a larger k, or fewer clusters",
            *(f"{report.embedding_after:,}", f"{report.embedding_before:,}"),
        )
    command = {"model": str(model), "fresh": dict(fresh or {}) or None, **asdict(options)}
    inputs = {
        name: model_identity(each) for name, each in (("model", model), ("codes_from", options.codes_from)) if each
    }
    provenance = Provenance(__version__, command, inputs, options.seed)
    with write_folder(output, overwrite=overwrite) as folder:
        made.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        _copy_mixture(model, folder)
        notes = {**_notes_of(model), "compressed_from": str(model), "compression": asdict(report)}
        notes.pop("bits_per_byte_before_training", None)  # of the model as it was
        write_file(folder / MARKER, _json(notes | {"provenance": provenance.as_dict()}))
    return report


def expand_folder(model: str | Path, output: str | Path, *, overwrite: bool = False) -> None:
    """Write the ordinary model that a compressed one stands for; arguments as for `compress_folder`.

    Raises:
        InputError: There is no such model.
        GraftError: It is not compressed.
        OutputError: The output exists, or cannot be written.
    """
    check_inputs(output, model)
    check_output(output, overwrite=overwrite)
    small, tokenizer = load_model(model), load_tokenizer(model)
    if not is_compressed(small):
        raise GraftError(f"{model} is not compressed, so there is nothing to expand: give what relexify compress wrote")
    notes = _notes_of(model) | {"expanded_from": str(model)}
    with write_folder(output, overwrite=overwrite) as folder:
        expanded(small).save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        _copy_mixture(model, folder)
        notes["provenance"] = Provenance(__version__, {"model": str(model)}, {"model": model_identity(model)}).as_dict()
        write_file(folder / MARKER, _json(notes))


def model_identity(model: str | Path) -> str:
    """What tells a model from others: the sha256 of a folder, or a name."""
    return sha256_of(model) if Path(model).is_dir() else str(model)


def _codes_once(rows: np.ndarray, options: Compression) -> np.ndarray:
    """Codes of tokens, unless an earlier run found the same clusters in the same rows."""
    if options.codes != "clustered":
        return codes_of(rows, options)
    name = step_name(
        "codes",
        rows=hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest(),
        width=rows.shape[1],
        k=options.k,
        clusters=options.clusters,
        equal_size=options.equal_size,
        seed=options.seed,
    )
    return kept_codes(name, lambda: codes_of(rows, options), len(rows))


def _rows_of(name: str | Path | None, tokens: int) -> Any:
    """The embedding of another model [N × any], to cluster in place of the model's own; None where none is named."""
    if name is None:
        return None
    rows = load_model(name).get_input_embeddings().weight.detach().float().cpu().numpy()
    if len(rows) != tokens:
        raise InputError(f"{name} has {len(rows):,} rows and the model {tokens:,}: give one of the same vocabulary")
    return rows


def _notes_of(source: str | Path) -> dict[str, Any]:
    """What a folder says about itself, so that a compressed graft still tells of its graft."""
    try:
        notes = json.loads((Path(source) / MARKER).read_text())
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _copy_mixture(source: str | Path, folder: Path) -> None:
    if (Path(source) / MIXTURE_FILE).is_file():
        shutil.copyfile(Path(source) / MIXTURE_FILE, folder / MIXTURE_FILE)


def _json(notes: dict[str, Any]) -> str:
    return json.dumps(notes, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
