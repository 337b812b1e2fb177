"""Random embeddings (TransInner: de Vries and Nissim, 2021), and a model from scratch: baselines without evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from relexify.methods.registry import METHODS, Method
from relexify.mixture import Fallback, Mixture, empty_mixture
from relexify.tokens import Vocabulary, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["random"]


def random(
    source_tokenizer: PreTrainedTokenizerFast | Vocabulary, target_tokenizer: PreTrainedTokenizerFast | Vocabulary
) -> Mixture:
    """Leave every row empty, so that it is drawn at random when it is grafted.

    Rows are drawn like those of an untrained model. If they were drawn with the variance of trained rows, a tied head
    would start far below chance: the perplexity that the paper starts from (Table 3, 1.4e5 with 50,000 tokens) is a
    little worse than chance.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    return empty_mixture(source, target, method="random", fallback=Fallback.FRESH)


METHODS.add(
    "random",
    Method(
        becomes="a draw like those of an untrained model: a baseline",
        evidence="nothing",
        paper="de Vries and Nissim 2021",
        build=lambda inputs: random(inputs.source, inputs.target),
    ),
)
METHODS.add(
    "fullrand",
    Method(
        becomes="random, and every inner parameter too: an untrained model of the same shape, a baseline",
        evidence="nothing",
        paper="Minixhofer et al. 2022, section 4",
        build=lambda inputs: replace(random(inputs.source, inputs.target), method="fullrand"),
        fresh_inner=True,
    ),
)
