"""Run a parser over sentences, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch
from transformers import PreTrainedTokenizerFast

from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.inputs import Sentence, TokenizedSentence, tokenize_sentences
from relexify.pretrained.architecture import check_fit, usable_length
from relexify.pretrained.runnable import evaluating
from relexify.progress import track

__all__ = ["predict"]

AnySentence = TypeVar("AnySentence", bound=Sentence)
Prediction = TypeVar("Prediction")


def predict(
    parser: BiaffineParser,
    tokenizer: PreTrainedTokenizerFast,
    sentences: Sequence[AnySentence],
    decode: Callable[[Sequence[TokenizedSentence], Sequence[AnySentence]], Iterable[Prediction]],
    *,
    batch: int,
) -> list[Prediction]:
    """Return the prediction for each sentence.

    Args:
        parser: On the device to compute on.
        tokenizer: The tokenizer of the parser's encoder.
        sentences: What to read.
        decode: Returns the predictions for a batch of sentences; those that are too long are truncated.
        batch: Sentences at a time.

    Raises:
        VocabularyError: The tokenizer is not the parser's.
    """
    check_fit(parser, tokenizer)
    tokenized = tokenize_sentences(tokenizer, sentences, usable_length(parser.encoder))
    order = sorted(range(len(sentences)), key=lambda index: len(tokenized[index].ids))
    predictions: dict[int, Prediction] = {}
    with evaluating(parser), torch.inference_mode(), track("parsing", len(sentences)) as advance:
        for start in range(0, len(order), batch):
            indices = order[start : start + batch]
            found = decode([tokenized[index] for index in indices], [sentences[index] for index in indices])
            predictions.update(zip(indices, found, strict=True))
            advance(len(indices))
    return [predictions[index] for index in range(len(sentences))]
