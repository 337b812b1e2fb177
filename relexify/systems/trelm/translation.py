"""Translate with a TRILayer model, and compute BLEU of the translations (6.2).

A model translates all tokens at once (Table 6). As there is no word alignment, the source order is kept, and the most
likely token is chosen at every position. Consecutive repetitions of a token are collapsed, and the separator ends the
translation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from types import ModuleType

import torch
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError, importing
from relexify.pretrained.architecture import encoder_frame, usable_length
from relexify.pretrained.runtime.runnable import evaluating
from relexify.progress import count_of, track
from relexify.scoring import Score
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.text import make_encodable
from relexify.tokens import backend_of, encoder_of

__all__ = ["bleu_scores", "collapse_repeats", "import_sacrebleu", "translate", "translation_scores"]

_ORDERS = (1, 2, 3, 4)

logger = logging.getLogger(__name__)


def translation_scores(
    model: TriLayerForMaskedLM,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Iterable[tuple[str, str]],
    *,
    reads: str,
    writes: str,
    writer: PreTrainedTokenizerFast | None = None,
    tokenize: str = "13a",
) -> tuple[Score, ...]:
    """Return BLEU-1 to BLEU-4 of the translations by a model.

    References are normalised by the tokenizer, because one that lower-cases text cannot produce capitals.

    Args:
        model: A TRILayer model.
        tokenizer: Its tokenizer, or that of the input language.
        pairs: Sentences in the input language, and their translations.
        reads: Name of the input language in the model.
        writes: Name of the output language in the model.
        writer: The tokenizer of the output language, if each language has its own.
        tokenize: How sacrebleu splits words: `13a`, or `char` for languages without spaces.

    Raises:
        InputError: There is no pair, or the model does not have a language, or sacrebleu lacks the tokenisation.
        MissingExtra: The package sacrebleu is not installed.
    """
    complete = [(first, second) for first, second in pairs if first and second]
    if not complete:
        raise InputError("there is no pair of sentences to score a translation on: give parallel text")
    import_sacrebleu()  # fails before the slow translation if it is missing
    sentences, references = zip(*complete, strict=True)
    if writer is None:
        writer = tokenizer
    translations = translate(model, tokenizer, sentences, reads=reads, writes=writes, writer=writer)
    normalizer = backend_of(writer).normalizer
    expected = [text if normalizer is None else str(normalizer.normalize_str(text)) for text in references]
    return bleu_scores(translations, expected, tokenize=tokenize, task=f"translation {reads} → {writes}")


def translate(
    model: TriLayerForMaskedLM,
    tokenizer: PreTrainedTokenizerFast,
    sentences: Sequence[str],
    *,
    reads: str,
    writes: str,
    writer: PreTrainedTokenizerFast | None = None,
    batch: int = 32,
) -> list[str]:
    """Translate sentences, all tokens at once; sentences that are too long are truncated.

    Arguments are those of `translation_scores`; `batch` is the number of sentences in a batch.

    Raises:
        InputError: The model does not have a language.
    """
    languages = [model.config.language_index(name) for name in (reads, writes)]
    if writer is None:
        writer = tokenizer
    before, after = encoder_frame(tokenizer)
    room = (usable_length(model) or 512) - len(before) - len(after)
    rows = [ids[:room] for ids in encoder_of(tokenizer).encode([make_encodable(text) for text in sentences])]
    if truncated := sum(len(row) == room for row in rows):
        sentences_are = count_of(truncated, "sentence is", "sentences are")
        logger.warning("%s truncated, with %d tokens or more", sentences_are, room)
    framed = [[*before, *row, *after] for row in rows]
    padding = tokenizer.pad_token_id or 0
    stop = next(iter(encoder_frame(writer)[1]), None)  # the separator
    translations: list[str] = []
    with evaluating(model), torch.inference_mode(), track("translating", len(framed)) as advance:
        for start in range(0, len(framed), batch):
            part = framed[start : start + batch]
            longest = max(map(len, part))
            ids = torch.tensor([row + [padding] * (longest - len(row)) for row in part], device=model.device)
            mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in part], device=model.device)
            read, written = (torch.full((len(part),), language, device=model.device) for language in languages)
            logits = model(ids, mask, languages=read, target_languages=written).logits  # [batch × tokens × vocabulary]
            for best, row in zip(logits.argmax(-1).tolist(), part, strict=True):
                tokens = collapse_repeats(best[: len(row)], stop, writer.all_special_ids)
                translations.append(writer.decode(tokens).strip())
            advance(len(part))
    return translations


def collapse_repeats(tokens: Iterable[int], stop: int | None, skipped: Iterable[int] = ()) -> list[int]:
    """Return the tokens of a translation, up to the first `stop`, without consecutive repetitions.

    Args:
        tokens: The most likely token at every position.
        stop: The separator.
        skipped: Other special tokens, which are removed; two equal tokens with one between them are both kept.
    """
    special, kept, last = set(skipped), [], None
    for token in tokens:
        if token == stop:
            break
        if token != last and token not in special:
            kept.append(token)
        last = token
    return kept


def bleu_scores(
    found: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", task: str = "translation"
) -> tuple[Score, ...]:
    """Return BLEU-1 to BLEU-4; the usual BLEU score is BLEU-4.

    Raises:
        InputError: sacrebleu lacks the tokenisation, or the numbers of translations and references differ.
        MissingExtra: The package sacrebleu is not installed.
    """
    sacrebleu = import_sacrebleu()
    if len(found) != len(references):
        raise InputError(f"there are {len(found)} translations and {len(references)} references: give one for each")
    supported = sacrebleu.BLEU.TOKENIZERS
    if tokenize not in supported:
        raise InputError(f"sacrebleu has no tokenisation {tokenize!r}: choose one of {', '.join(sorted(supported))}")
    scores = []
    for order in _ORDERS:
        # `force` silences a warning about references that look tokenised.
        metric = sacrebleu.BLEU(max_ngram_order=order, tokenize=tokenize, force=True)
        value = metric.corpus_score(list(found), [list(references)]).score
        scores.append(
            Score(task, f"BLEU-{order}", float(value), higher_is_better=True, examples=len(found), unit="sentences")
        )
    return tuple(scores)


def import_sacrebleu() -> ModuleType:
    """Return the metrics of the package sacrebleu.

    Raises:
        MissingExtra: It is not installed.
    """
    with importing("sacrebleu", "measuring translations", "translation"):
        from sacrebleu import metrics
    return metrics
