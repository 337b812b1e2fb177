"""The unigram prior of a transfer: whether a grafted model gets one, its text, and adding it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import torch

from relexify.evidence.evidence import Evidence
from relexify.grafting import Graft, UnigramPrior, UnigramReport, find_unigram_prior, sample_paragraphs
from relexify.methods.registry import METHODS
from relexify.pretrained.architecture import architecture_of
from relexify.storage.cache import cached
from relexify.storage.fingerprint import fingerprint
from relexify.storage.revisions import PRIORS
from relexify.systems.transfer.options import Transfer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["PriorText", "add_prior", "has_prior", "prediction_key", "prior_text"]

_PRIOR_FILE = "prior.safetensors"

logger = logging.getLogger(__name__)


class PriorText(NamedTuple):
    """Paragraphs of the target language, and, if a vocabulary is extended, of the source language."""

    target: list[str]
    source: list[str] | None


def has_prior(options: Transfer) -> bool:
    """Whether grafted models get the unigram distribution of the text: as requested, or as the method does it."""
    if options.unigram_prior is not None:
        return options.unigram_prior
    return METHODS[options.method].unigram_prior


def prior_text(options: Transfer, model: PreTrainedModel, evidence: Evidence) -> PriorText | None:
    """Return the text whose unigram distribution grafted models get; None if they get none."""
    if not has_prior(options):
        return None
    if architecture_of(model) == "headless":
        logger.warning("%s has no language-modelling head, so it gets no unigram prior", type(model).__name__)
        return None
    own = evidence.source_corpus if options.keep_source else None
    return PriorText(
        target=sample_paragraphs(evidence.corpus, seed=options.seed),
        source=None if own is None else sample_paragraphs(own, seed=options.seed),
    )


def add_prior(options: Transfer, result: Graft, text: PriorText | None) -> UnigramReport | None:
    """Give a grafted model the unigram distribution of a text (cached), in place; do nothing if there is no text."""
    if text is None:
        return None
    model, tokenizer = result.model.to(options.device), result.tokenizer
    kept = len(result.mixture.source_tokens) if options.keep_source else 0
    prior = cached(
        "unigram-prior",
        {
            **prediction_key(model, tokenizer, text, options.device),
            "kept": kept,
            "seed": options.seed,
            "revision": PRIORS,
        },
        make=lambda: find_unigram_prior(
            model, tokenizer, text.target, kept=kept, source=text.source, seed=options.seed
        ),
        save=lambda prior, folder: prior.save(folder / _PRIOR_FILE),
        load=lambda folder: UnigramPrior.load(folder / _PRIOR_FILE),
    )
    prior.apply(model)
    return prior.report


def prediction_key(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, text: object, device: str
) -> dict[str, object]:
    """Return everything that the predictions of a model depend on, for the cache."""
    kind = torch.device(device).type  # a GPU may compute in another precision
    return {"model": fingerprint(model), "tokenizer": tokenizer, "text": text, "device": kind}
