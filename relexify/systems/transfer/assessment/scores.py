"""Bits per byte before training: of the source model, of rows without evidence, and of the result."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from relexify.grafting import Graft, graft
from relexify.methods.baselines import random, shuffle
from relexify.methods.inputs import Inputs
from relexify.methods.registry import METHODS
from relexify.mixture import Mixture
from relexify.pretrained.architecture import architecture_of
from relexify.progress import report_under
from relexify.scoring import bits_per_byte, sample_size
from relexify.storage.cache import cached, is_cached
from relexify.storage.files import write_file
from relexify.storage.revisions import SCORES
from relexify.systems.transfer.assessment.sampled_text import SampledText
from relexify.systems.transfer.assessment.start import BASELINES, ORIGINAL
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.prior import PriorText, add_prior, prediction_key
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["known_scores", "score_original", "score_source_language", "score_start"]

_SCORE_FILE = "score.json"

logger = logging.getLogger(__name__)


def score_start(
    options: Transfer,
    model: PreTrainedModel,
    inputs: Inputs,
    grafted: Graft,
    sampled: SampledText,
) -> dict[str, float]:
    """Return bits per byte before training: of the source model, of two baselines without evidence, and of the result.

    The baselines get the unigram prior too, so that they differ from this initialisation in its evidence alone.

    Args:
        options: The transfer.
        model: The source model.
        inputs: Its tokenizers.
        grafted: The result, with its unigram prior.
        sampled: Its sample is held-out text in the target language, one paragraph per line.
    """
    if architecture_of(model) == "headless":
        logger.warning("%s has no language-modelling head, so bits per byte cannot be measured", type(model).__name__)
        return {}
    source, target, text = inputs.source, inputs.target, sampled.sample
    # It is None if the source model does not fit into memory; the result may be smaller, and fit.
    original_key = sampled.original_score_key or prediction_key(model, source, text, options.device)
    measure = partial(_measure, "original model", model, source, text, options.device)
    scores = {ORIGINAL: _cached_score(ORIGINAL, original_key, measure)}
    key = _baseline_key(options, original_key, target, sampled.prior_text)

    def score_baseline(mixture: Mixture) -> float:
        """Return bits per byte of the model with rows that no evidence was used for."""
        baseline = graft(model, target, inputs.keep_rows(mixture), seed=options.seed, copy_inner=False)
        title = BASELINES[mixture.method]
        with report_under(title):
            add_prior(options, baseline, sampled.prior_text)
        return _measure(title, baseline.model, target, text, options.device)

    for mixture in (random(source, target), shuffle(source, target, seed=options.seed)):
        scores[mixture.method] = _cached_score(mixture.method, key, partial(score_baseline, mixture))
    # Cached too, since what follows may be interrupted, or fail because the disk is full.
    measure = partial(_measure, options.method, grafted.model, target, text, options.device)
    scores[options.method] = _cached_score("result", _result_key(options, original_key, grafted), measure)
    return scores


def known_scores(options: Transfer, target: PreTrainedTokenizerFast | None, sampled: SampledText) -> list[str]:
    """Return which scores `score_start` finds in the cache.

    Args:
        options: The transfer.
        target: The target tokenizer; None if it is not trained yet, so that no baseline has been scored.
        sampled: As for `score_start`.
    """
    if sampled.original_score_key is None:
        return []
    keys = {ORIGINAL: sampled.original_score_key}
    if target is not None:
        baselines = (name for name in BASELINES if name != ORIGINAL)
        keys |= dict.fromkeys(baselines, _baseline_key(options, sampled.original_score_key, target, sampled.prior_text))
    return [name for name, key in keys.items() if is_cached(*_cache_entry(name, key))]


def score_original(model: PreTrainedModel, source: PreTrainedTokenizerFast, text: str, *, device: str) -> float:
    """Return bits per byte of the source model with its own tokenizer; they are cached.

    Args:
        model: The source model.
        source: Its tokenizer.
        text: Held-out text in the target language, one paragraph per line.
        device: Where to score.
    """
    measure = partial(_measure, "original model", model, source, text, device)
    return _cached_score(ORIGINAL, prediction_key(model, source, text, device), measure)


def score_source_language(
    options: Transfer, inputs: Inputs, original: PreTrainedModel, extended: PreTrainedModel
) -> dict[str, float]:
    """Return bits per byte of text in the source language before and after a vocabulary was extended; they are cached.

    With the rows of the source vocabulary unchanged, an extended model that may only predict source tokens scores the
    same as the original. If it may predict all tokens, the added ones take a part of the probability.

    Args:
        options: The transfer.
        inputs: Its tokenizers, and its held-out text in the source language.
        original: The source model.
        extended: The model with the extended vocabulary.
    """
    source, held_out = inputs.source, inputs.evidence.source_held_out
    if not options.keep_source or held_out is None:
        return {}
    text = held_out.sample_bytes(sample_size(options.held_out_bytes, options.device))
    scores = {}
    for name, model, tokenizer, tokens in (
        ("original model", original, source, None),
        ("extended model, source tokens", extended, source, len(vocabulary_of(source))),
        ("extended model, all tokens", extended, inputs.target, None),
    ):
        key = {**prediction_key(model, tokenizer, text, options.device), "tokens": tokens}
        measure = partial(_measure, f"source language, {name}", model, tokenizer, text, options.device, tokens)
        scores[name] = _cached_score("source-language", key, measure)
    return scores


def _measure(
    title: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    text: str,
    device: str,
    tokens: int | None = None,
) -> float:
    with report_under(title):
        return bits_per_byte(model.to(device), tokenizer, text, tokens=tokens).value


def _baseline_key(
    options: Transfer,
    original_key: Mapping[str, object],
    target: PreTrainedTokenizerFast,
    counted_text: PriorText | None,
) -> Mapping[str, object]:
    """Return everything that the score of a baseline depends on."""
    # No method is in the key: the baselines of one tokenizer and seed serve every method.
    return {
        "original": original_key,
        "tokenizer": target,
        "seed": options.seed,
        "keep_source": options.keep_source,
        "prior": counted_text,
    }


def _result_key(options: Transfer, original_key: Mapping[str, object], grafted: Graft) -> Mapping[str, object]:
    """Return everything that the score of the result depends on; the inner parameters are the source model's."""
    model, parts = grafted.model, grafted.model.state_dict()
    if not METHODS[options.method].fresh_inner:
        parts = {name: each for name, each in parts.items() if name in grafted.report.lexical}
    config = {**model.config.to_dict(), "_name_or_path": None}
    return {"original": original_key, "tokenizer": grafted.tokenizer, "config": config, "parts": parts}


def _cache_entry(name: str, key: object) -> tuple[str, object]:
    """Return kind and key of a score in the cache."""
    return f"{name}-score", {"key": key, "revision": SCORES}


def _cached_score(name: str, key: object, make: Callable[[], float]) -> float:
    """Return a score from the cache, or measure it: on a CPU, baselines take most of the time of a transfer."""
    return cached(
        *_cache_entry(name, key),
        make=make,
        save=lambda score, folder: write_file(folder / _SCORE_FILE, json.dumps(score)),
        load=lambda folder: float(json.loads((folder / _SCORE_FILE).read_text())),
    )
