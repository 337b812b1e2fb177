"""The parallel text of TreLM: what is learnt from, and what translations are measured on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch

from relexify.evidence.bitext import Bitext, eflomal_module, encode_bitext, parse_links, read_links
from relexify.pretrained.loading import load_model
from relexify.scoring import Score, frame_of
from relexify.storage.files import write_file
from relexify.systems.transfer.aligned_text import is_aligned, kept_links
from relexify.systems.trelm.aligned_pairs import AlignedPairs, aligned_pairs
from relexify.systems.trelm.model.folder import load_tokenizers
from relexify.systems.trelm.options import Trelm
from relexify.systems.trelm.pair_batches import Direction
from relexify.systems.trelm.translation import sacrebleu_module, translation_scores

__all__ = ["check_pairs", "measured_translations", "open_pairs", "pairs_to_learn"]

_SCORES = "scores.json"


def open_pairs(bitext: Any, options: Trelm) -> Bitext:
    """Parallel text, read as the options say."""
    return Bitext.open(bitext, fields=options.aligning.fields, swapped=options.aligning.swapped)


def check_pairs(options: Trelm) -> None:
    """Find out before the work begins what would stop it.

    Raises:
        InputError: Parallel text or its alignment cannot be read.
        MissingExtra: A package is needed to align what no earlier run aligned, or to measure translations.
    """
    bitext = open_pairs(options.bitext, options)
    bitext.ensure_pairs()
    if options.alignment is None and not is_aligned(bitext):
        eflomal_module()
    if options.alignment is not None:
        parse_links(Path(options.alignment), expected=sum(1 for _ in bitext))
    if options.test_bitext is not None:
        sacrebleu_module()
        open_pairs(options.test_bitext, options).ensure_pairs()


def pairs_to_learn(tokenizers: tuple[Any, Any], options: Trelm) -> AlignedPairs:
    """Parallel text with its alignment, which is kept in the cache where eflomal finds it.

    Args:
        tokenizers: Of the model's language and of the new one.
        options: Which text, how it is read, and how long sentences may be.
    """
    bitext, aligning = open_pairs(options.bitext, options), options.aligning
    most = None if options.alignment is not None else aligning.most_pairs
    pairs = encode_bitext(bitext, *tokenizers, units=aligning.units, most_pairs=most)
    frames = [frame_of(tokenizer) for tokenizer in tokenizers]
    longest = options.transfer.length - max(len(before) + len(after) for before, after in frames)
    together = None if options.objective == "cdlm" else longest - max(len(after) for _, after in frames)
    if options.alignment is not None:
        ready = read_links(Path(options.alignment), pairs, swapped=aligning.swapped)
        return aligned_pairs(pairs, ready, longest=longest, together=together)
    links = kept_links(bitext, pairs, tokenizers, aligning.most_pairs)
    return aligned_pairs(pairs, links, longest=longest, together=together)


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
