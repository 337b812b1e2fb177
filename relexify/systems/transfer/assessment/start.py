"""What is known about a transferred model before its training: for its summary, its verdict and `relexify.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relexify.storage.notes import read_as
from relexify.text import is_unspaced, split_words
from relexify.tokens import encoder_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = [
    "BASELINES",
    "ORIGINAL",
    "BitextCheck",
    "DictionaryCheck",
    "ExtensionCheck",
    "Start",
    "TextCoverage",
    "cover_text",
    "start_of",
]

ORIGINAL = "original"
"""The source model with its own tokenizer, among the initialisations that are scored."""
BASELINES = {ORIGINAL: "original model and tokenizer", "random": "random rows", "shuffle": "shuffled rows"}
"""What a transfer is compared with, by its name in the notes, and as summaries call it."""

_SCORES, _TEXT, _DICTIONARY = "bits_per_byte_before_training", "held_out_text", "dictionary_check"
_NOT_SCORED, _EXTENSION, _CORPUS, _GIVEN = "not_scored", "extension", "corpus_bytes", "given_evidence"
_BITEXT, _TRAINED, _PRIOR = "bitext_check", "trained_vocabulary", "unigram_prior"
"""Keys in `relexify.json`."""


@dataclass(frozen=True)
class TextCoverage:
    """A sample of text under both tokenizers: held-out text if the model is scored, else text of the corpus.

    Attributes:
        bytes: Its size in UTF-8, with a line break after each paragraph, as `HeldOut` has it for a decoder.
        words: Number of words; of characters, for a script that is written without spaces, in which words of other
            scripts count as one.
        unit: What `words` counts: `word` or `character`.
        source_tokens: Number of tokens of the source tokenizer.
        target_tokens: Number of tokens of the target tokenizer.
        origins: Share of the target tokens by the origin of their rows.
        whole_bytes: Size of the text that it is a sample of; None if it is not known.
    """

    bytes: int
    words: int
    unit: str
    source_tokens: int
    target_tokens: int
    origins: Mapping[str, float]
    whole_bytes: int | None = None


@dataclass(frozen=True)
class DictionaryCheck:
    """How much of the text a dictionary translates, and whether its translations make sense.

    Attributes:
        tokens: Number of target tokens that it translates.
        text_share: Share of the text that these tokens make up.
        words: Number of words that `related` was measured on.
        related: How often the translation of a word's nearest neighbour in the target language is closer to its own
            translation than that of a random word: 0.5 is chance. None if there are too few words.
        entries: Number of its entries; 0 if an earlier version did not record it.
        frequent: Number of entries whose source word is a token of the model, so that it is frequent.
        matches: Number of these whose target word is a token too.
        examples: A few entries as they were read, such as `cat → paka`.
    """

    tokens: int
    text_share: float
    words: int
    related: float | None
    entries: int = 0
    frequent: int = 0
    matches: int = 0
    examples: Sequence[str] = ()


@dataclass(frozen=True)
class BitextCheck:
    """What parallel text contributes.

    Attributes:
        pairs: Number of its pairs.
        tokens: Number of target tokens that are aligned in it, so that their rows are built from it.
        text_share: Share of the text that these tokens make up.
        overlap: Share of the words of the text that it has; None for a script that is written without spaces.
        shared: Number of these tokens that a dictionary translates too; None if there is no dictionary.
    """

    pairs: int
    tokens: int
    text_share: float
    overlap: float | None = None
    shared: int | None = None


@dataclass(frozen=True)
class ExtensionCheck:
    """How the tokens that were added to a vocabulary change the encoding of both languages.

    Attributes:
        added: Number of added tokens.
        tokens_per_byte: Length of the target text, for some numbers of added tokens: the number and tokens per byte.
        source_tokens: Number of source tokens of held-out text in the source language.
        source_added: Number of added tokens in the same text under the extended tokenizer; 0 if it is encoded as
            before.
        source_bits_per_byte: Scores on text in the source language, by model; empty if it was not scored.
    """

    added: int
    tokens_per_byte: Sequence[tuple[int, float]]
    source_tokens: int
    source_added: int
    source_bits_per_byte: Mapping[str, float]


@dataclass(frozen=True)
class Start:
    """Everything that the summary and the verdict of a transfer rest on.

    Attributes:
        method: The initialisation.
        origins: Number of target rows by origin.
        fallback: What fills rows without evidence: a `Fallback`.
        alignment: `Rotation.summary` of the vector alignment, if there is one.
        bits_per_byte: Scores before training, by initialisation; empty if none were measured.
        text: A sample of text; None if it is not known.
        dictionary: The check of the dictionary; None if the method reads none, or aligns vectors with it.
        not_scored: By how much the model does not fit into memory, if it was not scored for this reason.
        extension: The check of the added tokens, if the vocabulary was extended.
        corpus_bytes: Size of the text that everything was learnt from; None if it is not known.
        given: Names of the options with evidence that were given; None if they are not known.
        bitext: The check of the parallel text; None if the method reads none.
        trained_vocabulary: Whether the vocabulary was trained on the text, so that its size was chosen for it.
        has_prior: Whether the model and the baselines have a unigram prior.
    """

    method: str
    origins: Mapping[str, int]
    fallback: str
    alignment: Mapping[str, Any] | None
    bits_per_byte: Mapping[str, float]
    text: TextCoverage | None
    dictionary: DictionaryCheck | None
    not_scored: str | None = None
    extension: ExtensionCheck | None = None
    corpus_bytes: int | None = None
    given: Sequence[str] | None = None
    bitext: BitextCheck | None = None
    trained_vocabulary: bool = False
    has_prior: bool = False

    @property
    def own_score(self) -> float | None:
        """Bits per byte with this initialisation; None if it was not scored."""
        return self.bits_per_byte.get(self.method)

    @property
    def original_score(self) -> float | None:
        """Bits per byte of the source model with its own tokenizer; None if it was not scored."""
        return self.bits_per_byte.get(ORIGINAL)

    @property
    def baseline_scores(self) -> dict[str, float]:
        """Bits per byte with rows that no evidence was used for, by the name of the baseline."""
        names = (name for name in BASELINES if name != ORIGINAL)
        return {name: self.bits_per_byte[name] for name in names if name in self.bits_per_byte}

    @property
    def best_baseline(self) -> float | None:
        """The lowest of the baseline scores; None if none was measured."""
        return min(self.baseline_scores.values(), default=None)

    @property
    def gain(self) -> float | None:
        """Bits per byte that the evidence gains over rows without it; None if they were not scored."""
        best, own = self.best_baseline, self.own_score
        return None if best is None or own is None else best - own

    @property
    def vocabulary_size(self) -> int:
        """Number of target tokens."""
        return sum(self.origins.values())

    @property
    def sampled(self) -> str:
        """What `text` is a sample of: held-out text only if the model was to be scored, see `TextCoverage`."""
        return "held-out text" if self.bits_per_byte or self.not_scored else "the corpus"

    def as_notes(self) -> dict[str, Any]:
        """Return the entries of `relexify.json`, besides those of the graft and of the prior."""
        return {
            "fallback": self.fallback,
            "alignment": self.alignment,
            _SCORES: dict(self.bits_per_byte),
            _TEXT: asdict(self.text) if self.text else None,
            _DICTIONARY: asdict(self.dictionary) if self.dictionary else None,
            _NOT_SCORED: self.not_scored,
            _EXTENSION: asdict(self.extension) if self.extension else None,
            _CORPUS: self.corpus_bytes,
            _GIVEN: None if self.given is None else list(self.given),
            _BITEXT: asdict(self.bitext) if self.bitext else None,
            _TRAINED: self.trained_vocabulary,
        }

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Start:
        """Read the entries of `relexify.json` that describe a transfer; see `start_of` for any model."""
        text, dictionary, extension = notes.get(_TEXT), notes.get(_DICTIONARY), notes.get(_EXTENSION)
        bitext = notes.get(_BITEXT)
        return cls(
            method=notes["method"],
            origins=notes["graft"]["origins"],
            fallback=notes.get("fallback", ""),
            alignment=notes.get("alignment"),
            bits_per_byte=notes.get(_SCORES) or {},
            text=read_as(TextCoverage, text) if text else None,
            dictionary=read_as(DictionaryCheck, dictionary) if dictionary else None,
            not_scored=notes.get(_NOT_SCORED),
            extension=read_as(ExtensionCheck, extension) if extension else None,
            corpus_bytes=notes.get(_CORPUS),
            given=notes.get(_GIVEN),
            bitext=read_as(BitextCheck, bitext) if bitext else None,
            trained_vocabulary=notes.get(_TRAINED, False),
            has_prior=bool(notes.get(_PRIOR)),
        )


def start_of(notes: Mapping[str, Any]) -> Start | None:
    """Return the start of the transfer that a model comes from, directly or by training; None if there was no transfer.

    Args:
        notes: `relexify.json` of any model.
    """
    is_transferred = "graft" in notes and "method" in notes and not notes.get("pruned")
    return Start.from_notes(notes) if is_transferred else None


def cover_text(
    text: str, source: PreTrainedTokenizerFast, target: PreTrainedTokenizerFast, origins: np.ndarray
) -> tuple[TextCoverage, np.ndarray]:
    """Count the tokens of a text under both tokenizers.

    Args:
        text: The text, one paragraph per line.
        source: The source tokenizer.
        target: The target tokenizer.
        origins: The name of the origin of each target row [target].

    Returns:
        The counts, and the number of occurrences of each target token [target].
    """
    lines = [line for line in text.split("\n") if line.strip()]
    counts = np.zeros(len(origins), np.int64)
    for row in encoder_of(target).encode(lines):
        np.add.at(counts, np.asarray(row, np.int64), 1)
    total = max(1, int(counts.sum()))
    items = [item for line in lines for item in split_words(line) if any(map(str.isalnum, item))]
    # Not by letters: in text without spaces, names and quotations in Latin script may have more of them.
    characters = sum(is_unspaced(letter) for item in items for letter in item if letter.isalpha())
    words = sum(not any(map(is_unspaced, item)) for item in items)
    is_spaced = characters <= words
    coverage = TextCoverage(
        bytes=sum(len(line.encode("utf-8", "replace")) + 1 for line in lines),  # with line breaks, as it is scored
        words=max(1, len(items) if is_spaced else characters + words),
        unit="word" if is_spaced else "character",
        source_tokens=sum(len(row) for row in encoder_of(source).encode(lines)),
        target_tokens=int(counts.sum()),
        origins={str(name): float(counts[origins == name].sum() / total) for name in np.unique(origins)},
    )
    return coverage, counts
