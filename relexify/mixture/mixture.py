"""The central type: how every target token is mixed from source tokens.

A Mixture is a sparse matrix W [target tokens × source tokens] with E_target = W @ E_source. The packages below turn
evidence into a Mixture and need no model; the packages above apply a Mixture to a model and need no evidence.
Embeddings that are not a linear mixture of source rows are `PrecomputedRows`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from relexify.errors import InputError, VocabularyError
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.files import Provenance
from relexify.tokens import Spelling, TokenForm, TokenizerFamily

if TYPE_CHECKING:
    import torch

__all__ = ["MIXTURE_FILE", "Fallback", "Mixture", "Origin", "PrecomputedRows", "validate_same_tokens"]

MIXTURE_FILE = "mixture.safetensors"
"""Name of the file with a model's mixture, in the folder of the model."""
_KIND = "mixture"


class Origin(IntEnum):
    """The evidence that a row is based on."""

    NONE = 0
    """No evidence: the row is empty, and `Fallback` fills it during grafting."""
    SPECIAL = 1
    """A special token, copied from the source token with the same role."""
    COPIED = 2
    """A token in both vocabularies, copied."""
    PIECES = 3
    """The mean of the source tokens that the token is split into."""
    MIXED = 4
    """A mix of neighbours in a vector space, or of several kinds of evidence."""


class Fallback(StrEnum):
    """How the rows of tokens without evidence are filled during grafting."""

    SOURCE_ROWS = "source-rows"
    """A draw from N(mean, variance) of the source rows, per dimension (WECHSEL, section 3.2)."""
    MEAN = "mean"
    """The mean of the source rows, per dimension."""
    NEAR_MEAN = "near-mean"
    """A draw from N(mean, 1e-9 Σ), with mean and covariance Σ of the source rows (`mean_resizing` of transformers)."""
    NARROW = "narrow"
    """A draw from N(0, 1/d²) for embeddings of width d (RAMEN, section 5.1)."""
    FRESH = "fresh"
    """A draw as in an untrained model: N(0, σ²) with σ from the config, usually 0.02; zero for an output bias."""


@dataclass(frozen=True)
class Mixture:
    """Every target token as a mixture of source tokens.

    Weights may be negative and need not sum to one. An empty row means that there is no evidence for the token.

    Attributes:
        weights: [target × source] float32.
        origin: [target] uint8, the `Origin` of each row.
        method: Name of the method that built it.
        source_tokens: Spelling of the source tokens, by id.
        target_tokens: Spelling of the target tokens, by id.
        source_spelling: How the source tokenizer spells tokens.
        target_spelling: How the target tokenizer spells tokens.
        provenance: The inputs and options that it was built from; None unless it was loaded from a file.
        fallback: How empty rows are filled during grafting.
    """

    weights: scipy.sparse.csr_array
    origin: np.ndarray
    method: str
    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    source_spelling: Spelling
    target_spelling: Spelling
    provenance: Mapping[str, Any] | None = None
    fallback: Fallback = Fallback.SOURCE_ROWS

    def __post_init__(self) -> None:
        expected = (len(self.target_tokens), len(self.source_tokens))
        if self.weights.shape != expected or len(self.origin) != expected[0]:
            raise VocabularyError(
                f"weights {self.weights.shape} with {len(self.origin)} origins do not fit vocabularies of "
                f"{expected[0]} and {expected[1]} tokens: build the mixture from the tokenizers it is for"
            )

    def __len__(self) -> int:
        return len(self.target_tokens)

    def __repr__(self) -> str:
        origins = ", ".join(f"{name} {count:,}" for name, count in self.counts().items() if count)
        size = f"{len(self.target_tokens):,} target × {len(self.source_tokens):,} source tokens"
        return f"Mixture({self.method}, {size}: {origins})"

    @property
    def known(self) -> np.ndarray:
        """Whether there is evidence for each token, bool [target]."""
        known: np.ndarray = np.diff(self.weights.indptr) > 0
        return known

    def apply(self, embeddings: np.ndarray | torch.Tensor) -> np.ndarray:
        """Return target rows [target × d], mixed from source rows [source × d]; zero for tokens without evidence."""
        if not isinstance(embeddings, np.ndarray):  # numpy has no bfloat16
            embeddings = embeddings.detach().float().cpu().numpy()
        if len(embeddings) < len(self.source_tokens):
            raise VocabularyError(
                f"the embeddings have {len(embeddings)} rows, but the mixture has {len(self.source_tokens)} source "
                "tokens: use the model whose tokenizer the mixture was built with"
            )
        table = embeddings[: len(self.source_tokens)]
        rows: np.ndarray = self.weights @ table.astype(np.result_type(table, np.float32), copy=False)
        return rows

    def sources(self, token: int, limit: int | None = None) -> list[tuple[str, float]]:
        """Return the source tokens of a target token with their weights, the largest absolute weight first.

        Among equal weights, parts of the token's spelling come first, in the order of their position in it.
        """
        start, end = self.weights.indptr[token], self.weights.indptr[token + 1]
        names = [self.source_tokens[column] for column in self.weights.indices[start:end]]
        values = self.weights.data[start:end]
        sizes, places = np.abs(values).round(6), np.zeros(len(names))
        if len(np.unique(sizes)) < len(sizes):
            whole = _bytes_of(self.target_spelling.read(self.target_tokens[token]))
            found = np.array([whole.find(_bytes_of(self.source_spelling.read(name))) for name in names])
            places = np.where(found < 0, len(whole), found)
        order = np.lexsort((places, -sizes))[:limit]
        return [(names[entry], float(values[entry])) for entry in order]

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each origin."""
        return {origin.name.lower(): int(np.sum(self.origin == origin)) for origin in Origin}

    def save(self, path: str | Path, provenance: Provenance | None = None) -> Path:
        """Write one safetensors file; equal mixtures give identical files."""
        arrays = {
            "data": self.weights.data.astype(np.float32),
            "indices": self.weights.indices.astype(np.int32),
            "indptr": self.weights.indptr.astype(np.int64),
            "origin": self.origin.astype(np.uint8),
        }
        metadata = {
            "kind": _KIND,
            "method": self.method,
            "fallback": self.fallback.value,
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "source_spelling": asdict(self.source_spelling),
            "target_spelling": asdict(self.target_spelling),
            "provenance": provenance.as_dict() if provenance else self.provenance,
        }
        return save_arrays(path, arrays, metadata)

    @classmethod
    def load(cls, path: str | Path) -> Mixture:
        """Read a file that `save` wrote.

        Raises:
            InputError: The file is missing or damaged, or is another kind of file.
        """
        arrays, metadata = load_arrays(path, _KIND)
        try:
            _validate_fields(metadata)
            shape = (len(metadata["target_tokens"]), len(metadata["source_tokens"]))
            data, indices, indptr, origin = (np.array(arrays[name]) for name in ("data", "indices", "indptr", "origin"))
            _validate_arrays(data, indices, indptr, origin, shape)
            source, target = _spelling(metadata["source_spelling"]), _spelling(metadata["target_spelling"])
            fallback = Fallback(metadata.get("fallback", Fallback.SOURCE_ROWS))
        except KeyError as error:
            raise InputError(f"{path} is not a complete mixture ({error} is missing): write it again") from error
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} is not a valid mixture ({error}): write it again") from error
        return cls(
            scipy.sparse.csr_array((data, indices, indptr), shape=shape),
            origin,
            metadata["method"],
            tuple(metadata["source_tokens"]),
            tuple(metadata["target_tokens"]),
            source,
            target,
            metadata["provenance"],
            fallback,
        )


@dataclass(frozen=True, eq=False)
class PrecomputedRows:
    """Rows of the input embedding, and of an untied output embedding, that replace the rows of a mixture.

    Attributes:
        ids: The target tokens, int64 [k], distinct.
        vectors: Their rows in the input embedding, float32 [k × d], in the embedding space of the model.
        output: Their rows in an output embedding that is not tied to the input embedding, float32 [k × d]; if None,
            the output embedding gets the rows of the mixture.
    """

    ids: np.ndarray
    vectors: np.ndarray
    output: np.ndarray | None = None

    def __post_init__(self) -> None:
        for rows in (self.vectors, self.vectors if self.output is None else self.output):
            if rows.ndim != 2 or self.ids.shape != rows.shape[:1]:
                raise VocabularyError(
                    f"precomputed rows {list(rows.shape)} do not fit {list(self.ids.shape)} ids: give a row per id"
                )
            if not np.isfinite(rows).all():
                raise VocabularyError("the precomputed rows hold NaN or infinity: compute them again")
        if len(np.unique(self.ids)) != len(self.ids) or (len(self.ids) and int(self.ids.min()) < 0):
            raise VocabularyError("precomputed rows have a repeated or negative id: give each token once")

    def __len__(self) -> int:
        return len(self.ids)


def validate_same_tokens(side: str, found: Sequence[str], expected: Sequence[str]) -> None:
    """Validate that a mixture is used with the tokens that it was built for.

    Args:
        side: `"source"` or `"target"`, for the message.
        found: Tokens of the mixture, by id.
        expected: Tokens of a tokenizer or of another mixture, by id; as many as in `found`.

    Raises:
        VocabularyError: The tokens differ.
    """
    if found is expected or list(found) == list(expected):
        return
    pairs = zip(found, expected, strict=True)
    differing = [f"{id}: {one!r} and {other!r}" for id, (one, other) in enumerate(pairs) if one != other]
    shown = ", ".join(differing[:3]) + (", …" if len(differing) > 3 else "")
    raise VocabularyError(
        f"the mixture was built for other {side} tokens ({len(differing)} of {len(found)} ids differ; {shown}): "
        "build it with the tokenizers that it is used with"
    )


def _bytes_of(form: TokenForm) -> bytes:
    """Return the text of a token with the space before it, as bytes, because a token may be a part of a character."""
    return form.surface.encode("utf-8", "surrogateescape")


def _validate_fields(metadata: Mapping[str, Any]) -> None:
    """Raise a ValueError or KeyError unless the metadata has the fields and types that `save` writes."""
    for name in ("source_tokens", "target_tokens"):
        if not isinstance(metadata[name], list) or not all(isinstance(token, str) for token in metadata[name]):
            raise ValueError(f"{name} is not a list of tokens")
    if not isinstance(metadata["method"], str):
        raise ValueError("method is not a name")
    if not isinstance(metadata["provenance"], dict | None):
        raise ValueError("provenance is not an object")
    # Encoding raises a ValueError for lone surrogates, which no tokenizer contains. The provenance may contain them,
    # because file names need not be UTF-8, so it is excluded.
    json.dumps({**metadata, "provenance": None}, ensure_ascii=False).encode()


def _validate_arrays(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, origin: np.ndarray, shape: tuple[int, int]
) -> None:
    """Raise a ValueError unless the arrays form a CSR matrix of that shape; scipy does not validate them itself."""
    expected = {"data": np.float32, "indices": np.int32, "indptr": np.int64, "origin": np.uint8}
    for (name, dtype), array in zip(expected.items(), (data, indices, indptr, origin), strict=True):
        if array.dtype != dtype or array.ndim != 1:
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, not a vector of {np.dtype(dtype)}")
    rows, columns = shape
    if len(indptr) != rows + 1 or len(origin) != rows:
        raise ValueError(f"{len(indptr) - 1} rows and {len(origin)} origins for {rows} target tokens")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr does not divide the entries into rows")
    if len(data) != len(indices):
        raise ValueError(f"{len(data)} weights for {len(indices)} indices")
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
        raise ValueError(f"an index is outside the {columns} source tokens")
    if not np.isfinite(data).all():
        raise ValueError("a weight is NaN or infinite")
    if rows and int(origin.max()) not in set(Origin):
        raise ValueError(f"there is no origin {int(origin.max())}")


def _spelling(fields: Mapping[str, Any]) -> Spelling:
    return Spelling(**{**fields, "family": TokenizerFamily(fields["family"])})
