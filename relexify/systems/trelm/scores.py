"""The scores of TreLM: bits per word after each phase, and BLEU of the translations in both directions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import torch

from relexify.errors import InputError
from relexify.pretrained.loading import load_model
from relexify.scoring import Score
from relexify.storage.files import write_file
from relexify.storage.json import read_json
from relexify.storage.notes import read_as, read_entry, read_notes
from relexify.systems.trelm.data.pairs import open_bitext
from relexify.systems.trelm.model.folder import load_tokenizers
from relexify.systems.trelm.options import Direction, Trelm
from relexify.systems.trelm.translation import import_sacrebleu, translation_scores
from relexify.training.results.curve import Curve
from relexify.training.results.result import CURVE_FILE

__all__ = ["check_test_bitext", "phase_scores", "score_translations", "trelm_scores"]

_TRANSLATIONS = "translations.json"


def trelm_scores(output: str | Path) -> tuple[Score, ...]:
    """Return the scores of a TreLM model: bits per word, those of the last phase first, and BLEU of both directions.

    Raises:
        InputError: The folder's curve or notes are missing or damaged.
    """
    notes = read_notes(output).get("trelm")
    if notes is None:
        return ()
    earlier = (read_as(Score, each) for each in (*notes["phases"], *notes["translation"]))
    return (*phase_scores(output, notes["until"]), *earlier)


def phase_scores(folder: str | Path, phase: str) -> tuple[Score, ...]:
    """Return the bits per word of every language that a phase was scored on.

    Args:
        folder: The output of the phase.
        phase: Its name.

    Raises:
        InputError: The folder's curve or notes are missing or damaged.
    """
    selected = Curve.load(Path(folder) / CURVE_FILE).at(read_entry(folder, "training")["selected_step"])
    sizes = read_entry(folder, "held_out")
    by_language = selected.by_language or dict.fromkeys(sizes, selected.bits_per_byte)
    if unknown := sorted(set(sizes) - set(by_language)):
        raise InputError(f"{folder} has no score on {unknown[0]}, which its relexify.json lists: train it again")
    return tuple(
        Score(
            f"masked tokens of {language}, {phase}",
            "bits per word",
            by_language[language] * text["bytes"] / text["tokens"],
            higher_is_better=False,
            examples=text["tokens"],
        )
        for language, text in sizes.items()
    )


def check_test_bitext(options: Trelm) -> None:
    """Validate, before any work, that translations can be scored.

    Raises:
        InputError: The parallel text to score on cannot be read.
        MissingExtra: The package sacrebleu is not installed.
    """
    if options.test_bitext is not None:
        import_sacrebleu()
        open_bitext(options.test_bitext, options).ensure_pairs()


def score_translations(work: Path, options: Trelm) -> tuple[Score, ...]:
    """Return BLEU of both directions, each scored with the model that was trained for it.

    Args:
        work: The work folder of a run, which contains both models; the scores are stored there too.
        options: The parallel text to score on, if any.
    """
    if options.test_bitext is None:
        return ()
    earlier = read_json(work / _TRANSLATIONS)
    if earlier is not None:
        return tuple(Score(**each) for each in earlier)
    scores: list[Score] = []
    pairs = list(open_bitext(options.test_bitext, options))
    words = (options.target_words, options.source_words)
    for read, direction in enumerate(get_args(Direction)):  # the first direction reads language 0
        model = load_model(work / direction)
        model.to("cuda" if torch.cuda.is_available() else "cpu")
        tokenizers = load_tokenizers(work / direction, model.config)
        scores += translation_scores(
            model,
            tokenizers[read],
            pairs if read == 0 else [(second, first) for first, second in pairs],
            reads=options.languages[read],
            writes=options.languages[1 - read],
            writer=tokenizers[1 - read],
            tokenize=words[read],
        )
    write_file(work / _TRANSLATIONS, json.dumps([asdict(score) for score in scores]) + "\n")
    return tuple(scores)
