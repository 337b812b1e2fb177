"""Evidence about the target language: all inputs of the user, opened and validated once, before any work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.evidence.bitext import Bitext, WordAlignmentOptions, parse_links, validate_word_alignment
from relexify.evidence.lexicon import BilingualLexicon
from relexify.storage.files import missing_file
from relexify.storage.fingerprint import NO_EFFECT
from relexify.text import HELD_OUT_EVERY, Corpus, TextOption

__all__ = ["Evidence", "open_evidence"]

_FORM_BYTES = 1_000_000
"""Size of the sample, in bytes, from which the Unicode normalisation form of a text is determined."""
_OPTIONS = {"lexicon": "dictionary", "links": "alignment"}
"""Names of options that differ from the field of `Evidence`, by field."""


@dataclass(frozen=True)
class Evidence:
    """All evidence about the two languages.

    Its fingerprint depends on the content of the files, not on their names.

    Attributes:
        corpus: Text in the target language to train on.
        held_out: Text in the target language to score on; its lines are left out of the corpus.
        source_corpus: Text in the source model's language.
        source_held_out: Text in the source model's language to score on; None if it is not scored.
        lexicon: A bilingual dictionary, source word first.
        bitext: Parallel text, source sentence first.
        links: A file with an existing word alignment of the parallel text.
        aligning: How parallel text is read, aligned and counted.
        source_vectors: A file with word vectors of the source language.
        target_vectors: A file with word vectors of the target language, or vectors of target tokens by their spelling.
        rotation: A file with an existing vector alignment.
    """

    corpus: Corpus
    held_out: Corpus = field(metadata=NO_EFFECT)
    source_corpus: Corpus | None = None
    source_held_out: Corpus | None = field(default=None, metadata=NO_EFFECT)
    lexicon: BilingualLexicon | None = None
    bitext: Bitext | None = None
    links: Path | None = None
    aligning: WordAlignmentOptions = field(default_factory=WordAlignmentOptions)
    source_vectors: Path | None = None
    target_vectors: Path | None = None
    rotation: Path | None = None

    @property
    def by_option(self) -> dict[str, Any]:
        """The given evidence, by the name of the option in `open_evidence`."""
        names = {entry.name: _OPTIONS.get(entry.name, entry.name) for entry in fields(self)}
        del names["aligning"]  # options are not evidence
        return {option: getattr(self, name) for name, option in names.items() if getattr(self, name) is not None}


def open_evidence(
    corpus: TextOption,
    *,
    held_out: TextOption | None = None,
    source_corpus: TextOption | None = None,
    source_held_out: TextOption | None = None,
    dictionary: str | Path | BilingualLexicon | None = None,
    dictionary_swapped: bool = False,
    bitext: str | Path | Iterable[str | Path] | Bitext | None = None,
    alignment: str | Path | None = None,
    aligning: WordAlignmentOptions | None = None,
    source_vectors: str | Path | None = None,
    target_vectors: str | Path | None = None,
    rotation: str | Path | None = None,
    scored: bool = True,
    source_scored: bool = False,
) -> Evidence:
    """Open and validate the evidence that a user provides.

    Args:
        corpus: Text in the target language.
        held_out: Text to score on; if None, a part of the corpus is held out.
        source_corpus: Text in the source model's language.
        source_held_out: Text in the source model's language to score on; if None and it is needed, a part of
            `source_corpus` is held out.
        dictionary: A file with pairs of source word and target word, or an opened dictionary.
        dictionary_swapped: Whether the dictionary file has the target language first.
        bitext: Parallel text; anything that `Bitext.open` accepts.
        alignment: A file with an existing word alignment of the parallel text.
        aligning: How parallel text is read, aligned and counted.
        source_vectors: A file with word vectors of the source language.
        target_vectors: A file with word vectors of the target language.
        rotation: A file with an existing vector alignment.
        scored: Whether held-out text is needed.
        source_scored: Whether held-out text in the source model's language is needed.

    Raises:
        InputError: An input is missing, unreadable or empty, or does not match its options.
    """
    # Cheap checks come first, so that an unreadable dictionary is not reported after an hour of training vectors.
    links, source_file, target_file, rotation_file = (
        _existing(path) for path in (alignment, source_vectors, target_vectors, rotation)
    )
    if isinstance(dictionary, str | Path):
        dictionary = BilingualLexicon.load(_existing(dictionary) or dictionary, swapped=dictionary_swapped)
    aligning = aligning or WordAlignmentOptions()
    pairs = _open_bitext(bitext, links, aligning)
    text = Corpus.open(corpus)
    if held_out is None:
        training, scored_text = text.split(HELD_OUT_EVERY)
        text = training
    else:
        scored_text = Corpus.open(held_out)
        training = text.ensure_not_held_out(scored_text).without(scored_text)
    # Check `text`, not `training`, because `training` would already read the held-out text.
    text.ensure_text()
    if dictionary is not None:
        dictionary = dictionary.spelled_like(text.sample_bytes(_FORM_BYTES))
    source_text = None if source_corpus is None else Corpus.open(source_corpus)
    source_scored_text = None if source_held_out is None else Corpus.open(source_held_out)
    for each in (source_text, source_scored_text):
        if each is not None:
            each.ensure_text()
    if source_text is not None and source_scored_text is not None:
        source_text = source_text.ensure_not_held_out(source_scored_text).without(source_scored_text)
    elif source_text is not None and source_scored:
        source_text, source_scored_text = source_text.split(HELD_OUT_EVERY)
        source_text.ensure_text()
        source_scored_text.ensure_text()
    if scored:
        try:
            scored_text.ensure_text()
        except InputError as error:
            # For a part of a corpus, the message only asks for more text; replace it by the options that users have.
            reason = str(error).partition(":")[0] if scored_text.parts else str(error)
            raise InputError(
                f"{reason}: give text to score on (`held_out`), or do not score (`score=false`)"
            ) from error
    return Evidence(
        corpus=training,
        held_out=scored_text,
        source_corpus=source_text,
        source_held_out=source_scored_text,
        lexicon=dictionary,
        bitext=pairs,
        links=links,
        aligning=aligning,
        source_vectors=source_file,
        target_vectors=target_file,
        rotation=rotation_file,
    )


def _existing(path: str | Path | None) -> Path | None:
    if path is not None and not Path(path).exists():
        raise missing_file(Path(path))
    return None if path is None else Path(path)


def _open_bitext(
    bitext: str | Path | Iterable[str | Path] | Bitext | None, links: Path | None, aligning: WordAlignmentOptions
) -> Bitext | None:
    """Open parallel text; if a word alignment is given, validate that it has a line for every pair."""
    validate_word_alignment(aligning)
    if bitext is None:
        if links is not None:
            raise InputError("a word alignment is given without its parallel text: give `bitext`")
        return None
    if links is None and aligning.units == "words":
        raise InputError(
            "`aligning.units=words` is for a given word alignment: add it (`alignment=FILE`), or leave it out"
        )
    pairs = Bitext.open(bitext, fields=aligning.fields, swapped=aligning.swapped)
    pairs.ensure_pairs()
    if links is not None:
        parse_links(links, expected=pairs.lines)
    return pairs
