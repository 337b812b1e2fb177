"""Rows that were computed elsewhere, for example by a hypernetwork (ZeTT: Minixhofer et al., 2024).

They are vectors of the target tokens by their spelling, in the space of the model's embedding. Special tokens are
copied by role; tokens without a given row are copied if they are also in the source vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import WordVectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods.parts.copying import shared, special
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.mixture import PrecomputedRows, first_of
from relexify.storage.fingerprint import BY_CONTENT
from relexify.tokens import AnyVocabulary, vocabulary_of

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs

__all__ = ["GivenRowsOptions", "given_rows"]


@dataclass(frozen=True)
class GivenRowsOptions:
    """Options of the method `given-rows`.

    Attributes:
        output_vectors: A file with rows of the output embedding for the same tokens, for a model whose output embedding
            is not tied to its input embedding.
    """

    output_vectors: Path | None = field(default=None, metadata=BY_CONTENT)


def given_rows(
    source_tokenizer: AnyVocabulary,
    target_tokenizer: AnyVocabulary,
    rows: WordVectors,
    *,
    output: WordVectors | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Initialisation:
    """Use given rows; copy special tokens, and shared tokens without a row.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        rows: Rows of the input embedding by the spelling of target tokens.
        output: Rows of an output embedding that is not tied to the input embedding, for the same tokens.
        overrides: Source token by target token, as in `special`.

    Raises:
        EvidenceError: No target token has a row.
        InputError: A token has a row in the input embedding, but none in the output embedding.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    special_tokens = special(source, target, overrides=overrides)
    ids = [id for id, token in enumerate(target.tokens) if token in rows.index and not special_tokens.known[id]]
    if not ids:
        raise EvidenceError(
            f"none of the {len(rows):,} rows has the name of a target token, such as {target.tokens[-1]!r}: name the "
            "rows by the tokens of the tokenizer (`tokenizer`)"
        )
    names = [target.tokens[id] for id in ids]
    if output is not None and (missing := [name for name in names if name not in output.index]):
        raise InputError(
            f"{len(missing):,} tokens, for example {missing[0]!r}, have no row of the output embedding: add them to "
            "`output_vectors`"
        )
    output_rows = None if output is None else output.lookup(names)
    precomputed = PrecomputedRows(np.array(ids), rows.lookup(names), output_rows)
    mixture = first_of(special_tokens, shared(source, target), method="given-rows")
    return Initialisation(mixture, precomputed=precomputed)


def _build(inputs: Inputs) -> Initialisation:
    options = inputs.own_options(GivenRowsOptions)
    if inputs.evidence.target_vectors is None:
        raise InputError("rows of the target tokens are missing: give `target_vectors`")
    return given_rows(
        inputs.source,
        inputs.target,
        load_vectors(inputs.evidence.target_vectors),
        output=None if options.output_vectors is None else load_vectors(options.output_vectors),
        overrides=inputs.overrides,
    )


METHODS.add(
    "given-rows",
    Method(
        becomes="its row in a file, such as a hypernetwork predicts it",
        evidence="rows of the target tokens, and their tokenizer",
        paper="Minixhofer et al. 2024 (ZeTT)",
        build=_build,
        needs=("token vectors",),
        uses=("overrides",),
        options=GivenRowsOptions,
    ),
)
