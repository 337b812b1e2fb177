"""The sample of text that a grafted model is examined with, and from which the time of a transfer is estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relexify.evidence.evidence import Evidence
from relexify.pretrained.runtime.runnable import memory_shortage
from relexify.scoring import sample_size
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.prior import PriorText, prediction_key, prior_text
from relexify.text import Corpus

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["SampledText", "sample_text"]


@dataclass(frozen=True)
class SampledText:
    """Text in the target language, and the sample of it that a grafted model is examined with.

    Attributes:
        text: Held-out text if the model is scored, else the corpus; reports show some of its lines.
        sample: The part of it that the evidence is tested on, and that is scored.
        prior_text: The text of the unigram prior; None without a prior.
        original_score_key: The `prediction_key` of the score of the source model on the sample; None if the source
            model is not scored.
    """

    text: Corpus
    sample: str
    prior_text: PriorText | None
    original_score_key: Mapping[str, object] | None


def sample_text(
    options: Transfer, evidence: Evidence, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> SampledText:
    """Sample the text that a grafted model is examined with.

    Args:
        options: The transfer.
        evidence: Its evidence.
        model: The source model, with its weights.
        tokenizer: Its tokenizer.
    """
    # Only scores need text that nothing was trained on, and a small corpus may have none to hold out.
    text = evidence.held_out if options.score else evidence.corpus
    sample = text.sample_bytes(sample_size(options.held_out_bytes, options.device))
    original_key = None
    if options.score and memory_shortage(model, options.device) is None:
        # Once, for the estimate and for the scores, because it hashes the whole model.
        original_key = prediction_key(model, tokenizer, sample, options.device)
    return SampledText(text, sample, prior_text(options, model, evidence), original_key)
