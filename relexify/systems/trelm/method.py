"""The method `trelm` of a transfer: a joint vocabulary, whose rows are mapped into the model's space (section 3.1).

Commands and recipes read the registry, so importing this module must not load torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from relexify.methods.parts.copying import special
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.mixture import Fallback
from relexify.systems.trelm.method_options import TrelmInitialisation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from relexify.evidence.evidence import Evidence
    from relexify.methods.inputs import Inputs


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
