"""The method `trelm` of a transfer: a joint vocabulary, whose rows are mapped into the model's space (section 3.1).

Commands and recipes read the registry, so importing this module must not load torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from relexify.errors import check_choice, check_number
from relexify.methods.parts.copying import special
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.mixture import Fallback

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from relexify.evidence.evidence import Evidence
    from relexify.methods.inputs import Inputs

__all__ = ["Map", "RowSource", "TrelmInitialisation"]

RowSource = Literal["random", "random-align", "fasttext", "fasttext-align"]
"""The source of the rows, as in Table 5: random or skip-gram vectors, mapped into the model's space or not."""
Map = Literal["linear", "orthogonal"]
"""A linear map predicts the model's rows from the vectors, an orthogonal one rotates the vectors."""


@dataclass(frozen=True)
class TrelmInitialisation:
    """Options of the method `trelm`.

    Attributes:
        alphabet: Maximum number of distinct characters in the joint vocabulary.
        lowercase: Whether the joint vocabulary is in lower case, without accents; combining marks are kept if a
            text has many of them.
        initialisation: The source of the rows, as in the paper's Table 5.
        map: `"linear"` predicts the model's rows from the vectors, `"orthogonal"` rotates the vectors.
    """

    alphabet: int = 1_000
    lowercase: bool = False
    initialisation: RowSource = "fasttext-align"
    map: Map = "linear"

    def __post_init__(self) -> None:
        check_number("alphabet", self.alphabet)
        check_choice("initialisation", self.initialisation, get_args(RowSource))
        check_choice("map", self.map, get_args(Map))


def _train_tokenizer(
    source: PreTrainedTokenizerFast, evidence: Evidence, *, vocab_size: int, options: TrelmInitialisation
) -> PreTrainedTokenizerFast:
    from relexify.systems.trelm.joint_vocabulary import joint_tokenizer

    return joint_tokenizer(source, evidence, vocab_size=vocab_size, options=options)


def _build(inputs: Inputs) -> Initialisation:
    from relexify.systems.trelm.joint_vocabulary import joint_rows

    # Only special tokens are mixtures of source rows; the rows of tokens that do not occur in the text are random.
    special_tokens = special(inputs.source, inputs.target, overrides=inputs.overrides)
    mixture = replace(special_tokens, method="trelm", fallback=Fallback.FRESH)
    return Initialisation(mixture, precomputed=joint_rows(inputs))


METHODS.add(
    "trelm",
    Method(
        becomes="its skip-gram vector, mapped into the embedding's space",
        evidence="text of both languages",
        paper="Li et al. 2021, section 3.1",
        build=_build,
        needs=("source text",),
        uses=("token vectors", "overrides"),
        train_tokenizer=_train_tokenizer,
        options=TrelmInitialisation,
        revision=2,
    ),
)
