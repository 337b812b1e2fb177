"""What a TRILayer model makes of a sentence in another language, all tokens at once (TreLM, section 6.2).

No alignment is known, so the sentence keeps its order. Tokens that are said twice in a row are said once, and the
separator ends the translation.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch

from relexify.errors import InputError, MissingExtra
from relexify.pretrained.architecture import encoder_frame, usable_length
from relexify.pretrained.loading import load_model
from relexify.progress import track
from relexify.scoring import Score
from relexify.storage.files import write_file
from relexify.storage.work import read_notes
from relexify.systems.trelm.model.folder import load_tokenizers
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.options import Direction, Trelm
from relexify.systems.trelm.pairs import open_pairs
from relexify.tokens import backend_of, encoder_of, make_encodable
from relexify.training.curve import Curve
from relexify.training.result import CURVE_FILE

__all__ = [
    "bleu_scores",
    "check_translations",
    "measured_translations",
    "phase_scores",
    "phases_of",
    "read_out",
    "said",
    "translation_scores",
    "trelm_scores",
]

_SCORES = "scores.json"
ORDERS = (1, 2, 3, 4)

logger = logging.getLogger(__name__)


def translation_scores(
    model: TriLayerForMaskedLM,
    tokenizer: Any,
    pairs: Iterable[tuple[str, str]],
    *,
    reads: str,
    writes: str,
    writer: Any = None,
    tokenize: str = "13a",
    batch: int = 32,
) -> tuple[Score, ...]:
    """BLEU-1 to BLEU-4 of what a model reads out of sentences.

    References are normalised as the tokenizer does it: one that knows no capitals cannot write them.

    Args:
        model: A TRILayer model.
        tokenizer: Its tokenizer, or that of the language that is read.
        pairs: Sentences in the language that is read, and their translations.
        reads: The language that is read, by its name in the model.
        writes: The language that is written.
        writer: The tokenizer of the language that is written, where each has its own.
        tokenize: How sacrebleu cuts words: `13a`, or `char` for languages without spaces.
        batch: Sentences at a time.

    Raises:
        InputError: There is no pair, the model does not know a language, or sacrebleu does not know the tokenisation.
        MissingExtra: The package sacrebleu is not installed.
    """
    complete = [(first, second) for first, second in pairs if first and second]
    if not complete:
        raise InputError("there is no pair of sentences to measure a translation on: give parallel text")
    sacrebleu_module()
    sentences, references = zip(*complete, strict=True)
    writer = tokenizer if writer is None else writer
    found = read_out(model, tokenizer, sentences, reads=reads, writes=writes, writer=writer, batch=batch)
    spelled = [_normalised(writer, text) for text in references]
    return bleu_scores(found, spelled, tokenize=tokenize, task=f"translation {reads} → {writes}")


def read_out(
    model: TriLayerForMaskedLM,
    tokenizer: Any,
    sentences: Sequence[str],
    *,
    reads: str,
    writes: str,
    writer: Any = None,
    batch: int = 32,
) -> list[str]:
    """Translations of sentences, as `translation_scores` measures them; sentences that are too long are cut.

    Raises:
        InputError: The model does not know a language.
    """
    languages = [model.config.language_index(name) for name in (reads, writes)]
    before, after = encoder_frame(tokenizer)
    room = (usable_length(model) or 512) - len(before) - len(after)
    rows = [ids[:room] for ids in encoder_of(tokenizer).encode([make_encodable(text)[0] for text in sentences])]
    if cut := sum(len(row) == room for row in rows):
        logger.warning("%d sentences have %d tokens or more and are cut there", cut, room)
    framed, found = [[*before, *row, *after] for row in rows], []
    was_training = model.training
    model.eval()
    with torch.inference_mode(), track("translating", len(framed)) as advance:
        for start in range(0, len(framed), batch):
            part = framed[start : start + batch]
            found += _said_in_parallel(model, part, languages, (tokenizer, tokenizer if writer is None else writer))
            advance(len(part))
    model.train(was_training)
    return found


def said(tokens: Iterable[int], stop: int | None, left_out: Iterable[int] = ()) -> list[int]:
    """What is left of the tokens of a read-out: none after the first `stop`, none twice in a row.

    Args:
        tokens: The likeliest token of every place.
        stop: The separator.
        left_out: Other special tokens, which say nothing.
    """
    silent_ones, kept, last = set(left_out), [], None
    for token in tokens:
        if token == stop:
            break
        if token != last and token not in silent_ones:
            kept.append(token)
        last = token
    return kept


def bleu_scores(
    found: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", task: str = "translation"
) -> tuple[Score, ...]:
    """BLEU-1 to BLEU-4, the highest order alone being what is called BLEU.

    Raises:
        InputError: sacrebleu does not know the tokenisation, or there are not as many translations as references.
        MissingExtra: The package sacrebleu is not installed.
    """
    sacrebleu = sacrebleu_module()
    if len(found) != len(references):
        raise InputError(f"there are {len(found)} translations and {len(references)} references: give one for each")
    known = sacrebleu.BLEU.TOKENIZERS
    if tokenize not in known:
        raise InputError(f"sacrebleu has no tokenisation {tokenize!r}: choose one of {', '.join(sorted(known))}")
    scores = []
    for order in ORDERS:
        metric = sacrebleu.BLEU(max_ngram_order=order, tokenize=tokenize, force=True)
        value = metric.corpus_score(list(found), [list(references)]).score
        scores.append(Score(task, f"BLEU-{order}", float(value), True, len(found)))
    return tuple(scores)


def sacrebleu_module() -> Any:
    """The metrics of the package sacrebleu.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        from sacrebleu import metrics
    except ImportError as error:
        raise MissingExtra("sacrebleu", "measuring translations", "translation") from error
    return metrics


def _normalised(tokenizer: Any, text: str) -> str:
    normalizer = backend_of(tokenizer).normalizer
    return text if normalizer is None else str(normalizer.normalize_str(text))


def _said_in_parallel(
    model: TriLayerForMaskedLM, rows: list[list[int]], languages: list[int], tokenizers: tuple[Any, Any]
) -> list[str]:
    reader, writer = tokenizers
    longest, padding = max(map(len, rows)), reader.pad_token_id or 0
    ids = torch.tensor([row + [padding] * (longest - len(row)) for row in rows], device=model.device)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=model.device)
    reads, writes = (torch.full((len(rows),), place, device=model.device) for place in languages)
    logits = model(ids, mask, languages=reads, target_languages=writes).logits
    best = [row[: len(tokens)] for row, tokens in zip(logits.argmax(-1).tolist(), rows, strict=True)]
    _, after = encoder_frame(writer)
    stop = after[0] if after else None
    return [writer.decode(said(row, stop, writer.all_special_ids)).strip() for row in best]


def trelm_scores(output: str | Path) -> tuple[Score, ...]:
    """What was measured on a model of TreLM: bits per word, first at its end, and BLEU of both directions.

    Raises:
        InputError: The folder's curve is missing or damaged.
    """
    notes = read_notes(output)
    if "trelm" not in notes:
        return ()
    told = notes["trelm"]
    earlier = (Score(**each) for each in (*told["phases"], *told["translation"]))
    return (*phase_scores(output, told["until"]), *earlier)


def phase_scores(folder: str | Path, phase: str) -> tuple[Score, ...]:
    """Bits per word of every language that a phase was measured on.

    Args:
        folder: What the phase wrote.
        phase: What it is called.

    Raises:
        InputError: The folder's curve is missing or damaged.
    """
    notes = read_notes(folder)
    chosen = Curve.load(Path(folder) / CURVE_FILE).at(notes["training"]["selected_step"])
    measured = notes["held_out"]
    by_language = chosen.by_language or dict.fromkeys(measured, chosen.bits_per_byte)
    return tuple(
        Score(
            f"masked tokens of {language}, {phase}",
            "bits per word",
            by_language[language] * text["bytes"] / text["tokens"],
            False,
            text["tokens"],
        )
        for language, text in measured.items()
    )


def phases_of(work: Path) -> list[dict[str, Any]]:
    """The scores of the phases before the last one, as notes hold them."""
    names = ("commonality", *get_args(Direction))
    return [asdict(score) for name in names for score in phase_scores(work / name, name)]


def check_translations(options: Trelm) -> None:
    """Validate, before any work, that translations can be scored.

    Raises:
        InputError: The pairs to score on cannot be read.
        MissingExtra: The package sacrebleu is not installed.
    """
    if options.test_bitext is not None:
        sacrebleu_module()
        open_pairs(options.test_bitext, options).ensure_pairs()


def measured_translations(work: Path, options: Trelm) -> list[dict[str, Any]]:
    """BLEU of both directions, each measured with the model that was trained for it."""
    if options.test_bitext is None:
        return []
    if (work / _SCORES).exists():
        found: list[dict[str, Any]] = json.loads((work / _SCORES).read_text())
        return found
    scores: list[Score] = []
    pairs = list(open_pairs(options.test_bitext, options))
    words = (options.target_words, options.source_words)
    for place, direction in enumerate(get_args(Direction)):
        reads, writes = options.languages if place == 0 else options.languages[::-1]
        reader = load_model(work / direction)
        reader.to("cuda" if torch.cuda.is_available() else "cpu")
        tokenizers = load_tokenizers(work / direction, reader.config)
        turned = pairs if place == 0 else [(second, first) for first, second in pairs]
        scores += translation_scores(
            reader,
            tokenizers[place],
            turned,
            reads=reads,
            writes=writes,
            writer=tokenizers[1 - place],
            tokenize=words[place],
        )
    write_file(work / _SCORES, json.dumps([asdict(score) for score in scores]) + "\n")
    return [asdict(score) for score in scores]
