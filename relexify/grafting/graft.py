"""Put a new tokenizer and mixed embeddings onto the untouched inner parameters of a model."""

from __future__ import annotations

import copy
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from relexify.errors import GraftError, VocabularyError
from relexify.grafting.identifiers import synchronise_ids
from relexify.grafting.lexical import Spread, embedding_rows, lexical_axes, mixed_tensor, resize
from relexify.mixture import Mixture, Origin, PrecomputedRows
from relexify.mixture.mixture import validate_same_tokens
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.storage.files import MARKER, Provenance, write_file, write_folder
from relexify.tokens import vocabulary_of

__all__ = ["Graft", "GraftReport", "graft"]

MIXTURE_FILE = "mixture.safetensors"
REPORT_FILE = MARKER

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraftReport:
    """What a graft changed.

    Attributes:
        tokens: Tokens of the new vocabulary.
        rows: Rows of the new embedding, padding included.
        origins: How many rows come from where.
        lexical: Names of the replaced parameters and buffers.
        special_ids: The synchronised ids of config and generation_config.
    """

    tokens: int
    rows: int
    origins: dict[str, int]
    lexical: list[str]
    special_ids: dict[str, Any]


@dataclass(frozen=True)
class Graft:
    """A model that speaks through a new vocabulary.

    Attributes:
        model: A plain transformers model, in the class and dtype of the old one.
        tokenizer: The new tokenizer.
        mixture: What the embeddings were mixed with.
        report: What was changed.
    """

    model: Any
    tokenizer: Any
    mixture: Mixture
    report: GraftReport

    def save(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        provenance: Provenance | None = None,
        summary: dict[str, Any] | None = None,
    ) -> Path:
        """Write a folder that `AutoModelFor…` and `AutoTokenizer` load, all of it or nothing."""
        with write_folder(path, overwrite=overwrite) as folder:
            self.model.save_pretrained(folder)
            save_tokenizer(self.tokenizer, folder)
            self.mixture.save(folder / MIXTURE_FILE, provenance)
            notes = {"graft": asdict(self.report), "method": self.mixture.method, **(summary or {})}
            notes["provenance"] = provenance.as_dict() if provenance else None
            write_file(folder / REPORT_FILE, _json(notes))
        return Path(path)


def graft(
    model: Any,
    tokenizer: Any,
    mixture: Mixture,
    *,
    ready: PrecomputedRows | None = None,
    seed: int = 0,
    pad_to_multiple_of: int | None = None,
) -> Graft:
    """Swap tokenizer, embeddings, head and output bias; keep every inner parameter bit for bit, and the dtype.

    Args:
        model: A transformers model; it stays as it is.
        tokenizer: The new tokenizer.
        mixture: From the model's tokenizer to the new one.
        ready: Rows of the input embedding that are no mixture of old ones, in place of the mixture's; an output
            embedding that is not tied to it keeps the mixture's.
        seed: For rows of which nothing is known.
        pad_to_multiple_of: Round the number of rows up, for speed on some hardware.

    Raises:
        VocabularyError: Mixture, tokenizer and model do not fit together.
        GraftError: The model cannot take the vocabulary, or the result is not sound.
    """
    vocabulary = vocabulary_of(tokenizer)
    tokens = len(vocabulary)
    _check_fit(model, tokens, mixture)
    validate_same_tokens("target", mixture.target_tokens, vocabulary.tokens)
    _check_ready(model, tokens, ready)
    multiple = pad_to_multiple_of or 1
    rows = -(-tokens // multiple) * multiple
    axes = lexical_axes(model)
    grafted = copy.deepcopy(model)
    old = {name: _tensor(model, name) for name in axes}
    with torch.random.fork_rng(devices=[]):  # it draws rows that are overwritten below
        resize(grafted, rows)
    spread = Spread.of(model)
    written: set[int] = set()
    for place, (name, axis) in enumerate(sorted(axes.items())):
        new = _tensor(grafted, name)
        if new.data_ptr() in written:
            continue
        written.add(new.data_ptr())
        with torch.no_grad():
            new.copy_(mixed_tensor(mixture, old[name], axis, rows, seed + 1000 * place, spread=spread))
    if ready is not None:
        _put_ready(grafted, ready)
    special_ids = synchronise_ids(grafted, tokenizer, mixture)
    _check_sound(grafted, axes, mixture, model.get_input_embeddings().weight)
    report = GraftReport(tokens, rows, _origins(mixture, ready), sorted(axes), special_ids)
    return Graft(grafted, tokenizer, mixture, report)


def _check_fit(model: Any, tokens: int, mixture: Mixture) -> None:
    if len(mixture) != tokens:
        raise VocabularyError(
            f"the mixture is for {len(mixture)} tokens and the tokenizer has {tokens}: "
            "build the mixture with this tokenizer"
        )
    rows = embedding_rows(model)
    if len(mixture.source_tokens) > rows:
        raise VocabularyError(
            f"the mixture draws on {len(mixture.source_tokens)} source tokens and the model has {rows} rows: "
            "build the mixture with the model's own tokenizer"
        )


def _check_ready(model: Any, tokens: int, ready: PrecomputedRows | None) -> None:
    if ready is None or not len(ready):
        return
    width = int(model.get_input_embeddings().weight.shape[1])
    if ready.vectors.shape[1] != width or int(ready.ids.max()) >= tokens:
        raise VocabularyError(
            f"ready rows {list(ready.vectors.shape)} with ids up to {int(ready.ids.max())} do not fit an embedding of "
            f"{tokens} tokens and width {width}: make them for this tokenizer and this model"
        )


def _put_ready(model: Any, ready: PrecomputedRows) -> None:
    embedding = model.get_input_embeddings().weight
    with torch.no_grad():
        embedding[torch.from_numpy(ready.ids).to(embedding.device)] = torch.from_numpy(ready.vectors).to(embedding)
    head = model.get_output_embeddings()
    if head is not None and head.weight.data_ptr() != embedding.data_ptr():
        logger.warning(
            "the output embedding of %s is not tied to its input embedding: %d ready rows enter the input alone",
            *(type(model).__name__, len(ready)),
        )


def _origins(mixture: Mixture, ready: PrecomputedRows | None) -> dict[str, int]:
    """How many rows come from where."""
    if ready is None:
        return mixture.counts()
    names = [Origin(origin).name.lower() for origin in mixture.origin]
    for id in ready.ids:
        names[id] = "ready"
    return {name: names.count(name) for name in (*mixture.counts(), "ready")}


def _tensor(model: Any, name: str) -> torch.Tensor:
    """A parameter or buffer by its dotted name."""
    path, _, last = name.rpartition(".")
    tensor: torch.Tensor = getattr(model.get_submodule(path), last)
    return tensor


def _check_sound(model: Any, axes: dict[str, int], mixture: Mixture, old: torch.Tensor) -> None:
    for name in axes:
        tensor = _tensor(model, name)
        if not torch.isfinite(tensor).all():
            raise GraftError(f"{name} has values that are not finite: are the source model's own weights sound?")
    embedding = model.get_input_embeddings().weight.detach()[: len(mixture)]
    written = (old.detach()[: len(mixture.source_tokens)] != 0).any(dim=1).cpu().numpy()
    from_something = abs(mixture.weights) @ written.astype("float32") > 0  # a copy of a zero row is no fault
    empty = (embedding == 0).all(dim=1).cpu().numpy() & from_something
    if empty.any():
        example = mixture.target_tokens[int(empty.argmax())]
        raise GraftError(f"{int(empty.sum())} tokens, {example!r} among them, got an embedding of zeros")


def _json(notes: dict[str, Any]) -> str:
    import json

    return json.dumps(notes, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
