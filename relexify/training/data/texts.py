"""The text of a training: opened, packed, and divided into text to train on and text to score on."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from relexify.pretrained.architecture import Architecture, architecture_of
from relexify.progress import ONCE
from relexify.scoring import HeldOut, held_out_windows, report_sample_size, sample_size, warn_about_short_sample
from relexify.text import HELD_OUT_EVERY, Corpus, TextSource
from relexify.tokens import encoder_of
from relexify.training.data.batches import Batches, Blocks, MixedTexts
from relexify.training.data.packing import pack, pack_share
from relexify.training.distributed import started_processes
from relexify.training.options import Training
from relexify.training.results.curve import SOURCE, TARGET

__all__ = ["LanguageData", "TrainingData", "held_out_data", "language_data", "share_packing", "training_data"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingData:
    """Text to train on and to score on.

    Attributes:
        batches: Sequences to train on.
        held_out: Text to score on, by language; the key is None for a model with one language.
        kind: Kind of the model.
        count: Number of different sequences; None if unknown.
        new_sequences: Number of sequences before any text is seen for the second time; None if unknown.
        takes_language: Whether the model must be given the language of a held-out text.
    """

    batches: Batches
    held_out: Mapping[str | None, HeldOut]
    kind: Architecture
    count: int | None = None
    new_sequences: int | None = None
    takes_language: bool = True


@dataclass(frozen=True)
class LanguageData:
    """The text of one language.

    Attributes:
        blocks: Sequences to train on.
        held_out: Text to score on.
        identity: Identifies text, held-out text and tokenizer.
    """

    blocks: Blocks
    held_out: HeldOut
    identity: Mapping[str, Any]


def training_data(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    corpus: TextSource,
    held_out: TextSource | None,
    training: Training,
) -> tuple[TrainingData, dict[str, Any]]:
    """Open the text of one language, or of two if the options name text of the source language.

    Arguments as for `language_data`.

    Returns:
        The data, and what identifies it, because the result of the training depends on it.
    """
    kind = architecture_of(model)
    if training.source_corpus is None:
        text = language_data(model, tokenizer, corpus, held_out, training)
        count = text.blocks.count
        return TrainingData(text.blocks, {None: text.held_out}, kind, count, count), dict(text.identity)
    target = language_data(model, tokenizer, corpus, held_out, training, language=TARGET)
    source = language_data(
        model,
        tokenizer,
        training.source_corpus,
        training.source_held_out,
        training,
        language=SOURCE,
        held_out_option="source_held_out",
    )
    share = training.source_share
    # How many sequences of the mixture it takes to see every sequence of the one text once, and of the other.
    until_target = target.blocks.count / (1 - share)
    until_source = source.blocks.count / share if share else math.inf
    data = TrainingData(
        MixedTexts(source.blocks, target.blocks, share),
        {SOURCE: source.held_out, TARGET: target.held_out},
        kind,
        count=round(until_target),
        new_sequences=math.floor(min(until_target, until_source)),
        takes_language=False,
    )
    return data, {**target.identity, "source": source.identity}


def language_data(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    corpus: TextSource,
    held_out: TextSource | None,
    training: Training,
    *,
    language: str | None = None,
    held_out_option: str = "held_out",
) -> LanguageData:
    """Open text to train on and text to score on; the two never overlap.

    Args:
        model: The model that reads the text.
        tokenizer: The tokenizer of the model.
        corpus: Text to train on; anything that `Corpus.open` accepts.
        held_out: Text to score on; if None, one line in 100 of the corpus is held out.
        training: The options.
        language: Name of the language for the log, if there are several.
        held_out_option: Name of the option for the text to score on, for messages.
    """
    train_text, kept = _both_sides(corpus, held_out)
    windows = held_out_data(model, tokenizer, kept, training, option=held_out_option)
    packed = pack(train_text, tokenizer, excluding=kept)
    length, masking, seed = training.length, training.masking, training.seed
    blocks = Blocks(packed, tokenizer, architecture_of(model), length=length, masking=masking, seed=seed)
    sizes = [f"{size:,}" for size in (len(packed), blocks.count, windows.bytes)]
    text = f"text ({language})" if language else "text"
    windows_of = f"windows of {training.length:,} tokens"
    logger.info(
        "%s tokens of %s, %s sequences; scored on %s bytes in %s", sizes[0], text, *sizes[1:], windows_of, extra=ONCE
    )
    identity = {"tokenizer": encoder_of(tokenizer).identity, "held_out": windows, "text": packed.name}
    return LanguageData(blocks, windows, identity)


def share_packing(tokenizer: PreTrainedTokenizerBase, corpus: TextSource, held_out: TextSource | None) -> None:
    """Tokenize this process's share of the text of `language_data`, if several processes were started together.

    All processes call this function; then they call `language_data`, the first process before the others. Arguments as
    for `language_data`.
    """
    processes = started_processes()
    if processes.num_processes == 1:
        return
    train_text, kept = _both_sides(corpus, held_out)
    rank, ranks = processes.process_index, processes.num_processes
    pack_share(train_text, tokenizer, excluding=kept, rank=rank, ranks=ranks)
    processes.wait_for_everyone()


def held_out_data(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    held_out: TextSource,
    training: Training,
    *,
    option: str = "held_out",
) -> HeldOut:
    """Return the part of a held-out text that the options request; arguments as for `language_data`."""
    text, device = Corpus.open(held_out), "cuda" if torch.cuda.is_available() else "cpu"
    report_sample_size(text, training.held_out_bytes, device)
    warn_about_short_sample(text, training.held_out_bytes, option)
    lines = text.sample_bytes(sample_size(training.held_out_bytes, device)).split("\n")
    return held_out_windows(tokenizer, lines, architecture_of(model), length=training.length)


def _both_sides(corpus: TextSource, held_out: TextSource | None) -> tuple[Corpus, Corpus]:
    """Return text to train on and text to score on; arguments as for `language_data`."""
    whole = Corpus.open(corpus)
    return whole.split(HELD_OUT_EVERY) if held_out is None else (whole, Corpus.open(held_out))
