"""What is known about a transferred model before its training: for its summary, its verdict and `relexify.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from relexify.storage.notes import read_as
from relexify.storage.shapes import (
    COUNT,
    FLAG,
    LENGTH,
    NUMBER,
    POSITIVE,
    SHARE,
    TEXT,
    ObjectShape,
    OptionalShape,
    Shape,
    list_of,
    map_of,
    object_of,
    pair_of,
)
from relexify.text import is_unspaced, split_words
from relexify.tokens import encoder_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = [
    "BASELINES",
    "ORIGINAL",
    "START_ENTRIES",
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
"""Initialisations that a transfer is compared with, by name, and their titles in summaries."""


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
        related: How often a word and its nearest neighbour in the target language have closer translations than the
            word and a random one: 0.5 is chance. None if there are too few words.
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
    """Everything that the summary and the verdict of a transfer are computed from.

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
    fallback: str = ""
    alignment: Mapping[str, Any] | None = None
    bits_per_byte: Mapping[str, float] = field(default_factory=dict)
    text: TextCoverage | None = None
    dictionary: DictionaryCheck | None = None
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
        """Return the entries of `relexify.json` (`START_ENTRIES`)."""
        notes = {}
        for entry in START_ENTRIES:
            value = getattr(self, entry.field)
            notes[entry.key] = asdict(value) if entry.record is not None and value is not None else value
        return notes

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Start:
        """Read the entries of `relexify.json` that describe a transfer; see `start_of` for any model."""
        values = {}
        for entry in START_ENTRIES:
            value = notes.get(entry.key)
            if value is not None:
                values[entry.field] = value if entry.record is None else read_as(entry.record, value)
        has_prior = bool(notes.get("unigram_prior"))
        return cls(method=notes["method"], origins=notes["graft"]["origins"], has_prior=has_prior, **values)


@dataclass(frozen=True)
class StartEntry:
    """How a field of a `Start` is written into `relexify.json`, and read again.

    Attributes:
        field: The field.
        key: The key of the entry.
        shape: Its shape.
        record: The dataclass that it is written from; None for plain data.
        needs: The entry that it is read with; empty if it is read alone.
    """

    field: str
    key: str
    shape: Shape
    record: type[Any] | None = None
    needs: str = ""


_SCORES = map_of(NUMBER)
_QUALITY = object_of(precision=SHARE, csls_precision=SHARE, words=POSITIVE)
_ALIGNMENT = object_of(pairs_used=COUNT, coverage=NUMBER, quality=OptionalShape(_QUALITY))
_TEXT_COVERAGE = ObjectShape(
    {
        "bytes": COUNT,
        "words": POSITIVE,
        "unit": TEXT,
        "source_tokens": COUNT,
        "target_tokens": COUNT,
        "origins": map_of(NUMBER),
    },
    {"whole_bytes": OptionalShape(COUNT)},
)
_DICTIONARY_CHECK = ObjectShape(
    {"tokens": COUNT, "text_share": NUMBER, "words": COUNT, "related": OptionalShape(NUMBER)},
    {"entries": COUNT, "frequent": COUNT, "matches": COUNT, "examples": list_of(TEXT)},
)
_BITEXT_CHECK = ObjectShape(
    {"pairs": COUNT, "tokens": COUNT, "text_share": NUMBER},
    {"overlap": OptionalShape(NUMBER), "shared": OptionalShape(COUNT)},
)
_EXTENSION_CHECK = object_of(
    added=COUNT,
    tokens_per_byte=list_of(pair_of(COUNT, LENGTH), least=1),
    source_tokens=COUNT,
    source_added=COUNT,
    source_bits_per_byte=_SCORES,
)

START_ENTRIES = (
    StartEntry("fallback", "fallback", TEXT),
    StartEntry("alignment", "alignment", OptionalShape(_ALIGNMENT)),
    StartEntry("bits_per_byte", "bits_per_byte_before_training", OptionalShape(_SCORES)),
    StartEntry("text", "held_out_text", OptionalShape(_TEXT_COVERAGE), TextCoverage, needs="graft"),
    StartEntry("dictionary", "dictionary_check", OptionalShape(_DICTIONARY_CHECK), DictionaryCheck),
    StartEntry("not_scored", "not_scored", OptionalShape(TEXT)),
    StartEntry("extension", "extension", OptionalShape(_EXTENSION_CHECK), ExtensionCheck),
    StartEntry("corpus_bytes", "corpus_bytes", OptionalShape(COUNT)),
    StartEntry("given", "given_evidence", OptionalShape(list_of(TEXT))),
    StartEntry("bitext", "bitext_check", OptionalShape(_BITEXT_CHECK), BitextCheck),
    StartEntry("trained_vocabulary", "trained_vocabulary", FLAG),
)
"""All fields of a `Start`, except those that `relexify.json` has elsewhere: the method, the origins and the prior."""


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
