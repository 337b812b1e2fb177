"""Score a language model on held-out text: bits per byte and perplexity."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from relexify.device import AUTO, resolve_device, validate_device
from relexify.errors import check_choices, check_number
from relexify.storage.fingerprint import NO_EFFECT

if TYPE_CHECKING:
    from relexify.scoring import Score
    from relexify.text import TextSource

__all__ = ["TextScoring", "explain_size", "score_text"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TextScoring:
    """Options of scoring a model on text.

    Attributes:
        held_out_bytes: Bytes of the text to score on, in whole lines.
        length: Tokens that the model sees at once.
        batch: Windows per forward pass.
        masking: How tokens of a masked language model are masked: `strided` (several per pass), `single` (one token at
            a time: the exact pseudo-perplexity, many times slower) or `words` (whole words: comparable across
            vocabularies, several times slower). Decoders ignore it.
        language: The language to score; required if the model has several.
        device: Where to compute: `cpu`, `cuda`, or `auto` for a GPU if there is one.
    """

    held_out_bytes: int = 400_000
    length: int = 512
    batch: int = 8
    masking: Literal["strided", "single", "words"] = "strided"
    language: str | None = None
    device: str = field(default=AUTO, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Validate the options."""
        validate_device(self.device)
        for name, least, most in (("held_out_bytes", 1, 2**40), ("length", 2, 2**20), ("batch", 1, 2**20)):
            check_number(name, getattr(self, name), least, most)
        check_choices(self)


def explain_size(held_out: TextSource, options: TextScoring) -> str:
    """Return a sentence that says how much of a held-out text is scored.

    Args:
        held_out: As for `score_text`.
        options: As for `score_text`.
    """
    from relexify.text import Corpus

    text = Corpus.open(held_out)
    if text.fits(options.held_out_bytes):
        return "Scored on all of the held-out text."
    shares = ", in equal shares of its files" if len(text.sources) > 1 else ""
    return (
        f"Scored on the first whole lines of the held-out text that fit into {options.held_out_bytes:,} bytes{shares} "
        "(--set held_out_bytes=N). If these lines fill less than half of this, the beginning of the next line is added."
    )


def score_text(model: str | Path, held_out: TextSource, options: TextScoring | None = None) -> tuple[Score, ...]:
    """Score a model on held-out text; log a warning if the text is too short.

    Args:
        model: A folder, a Hub name, or a packaged model.
        held_out: The text; anything that `Corpus.open` accepts.
        options: Options of the scoring.

    Returns:
        Bits per byte and perplexity; with `masking="words"`, only bits per byte.

    Raises:
        InputError: The model or the text cannot be read.
        VocabularyError: The tokenizer does not belong to the model.
    """
    from relexify.grafting import check_own_tokenizer
    from relexify.pretrained.languages import load_for_language
    from relexify.scoring import RELIABLE_BYTES, advise_longer_sample, bits_per_byte_of_words, language_model_scores
    from relexify.scoring.windows import MASK_STRIDE
    from relexify.text import Corpus

    options = options or TextScoring()
    text = Corpus.open(held_out)
    lines = text.sample_bytes(options.held_out_bytes).split("\n")
    loaded, tokenizer = load_for_language(model, options.language)
    check_own_tokenizer(model, tokenizer)
    loaded = loaded.to(resolve_device(options.device))
    window, batch = options.length, options.batch
    scores: tuple[Score, ...]
    if options.masking == "words":
        scores = (bits_per_byte_of_words(loaded, tokenizer, lines, window=window, batch=batch),)
    else:
        stride = None if options.masking == "single" else MASK_STRIDE
        scores = language_model_scores(loaded, tokenizer, lines, window=window, batch=batch, mask_stride=stride)
    if scores[0].examples < RELIABLE_BYTES:
        logger.warning(
            "only %s are scored, too little to rely on the score: %s",
            scores[0].measured_on,
            advise_longer_sample(text, options.held_out_bytes),
        )
    return scores
