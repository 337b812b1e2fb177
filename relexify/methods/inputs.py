"""Inputs of a method: tokenizers, evidence and options. Slow inputs are computed when a method first needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import scipy

from relexify.errors import InputError
from relexify.evidence.alignment import Rotation
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.bitext import find_overlap, report_overlap
from relexify.evidence.bitext.aligned_tokens import count_aligned_tokens, most_lines
from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import read_frequencies
from relexify.evidence.vectors import (
    Subwords,
    SubwordVectors,
    VectorTraining,
    WordVectors,
    subword_vectors,
    subwords_from_words,
)
from relexify.methods.parts.copying import kept
from relexify.methods.parts.token_space import TokenSpace, WordComposition
from relexify.methods.parts.vector_alignment import (
    AlignedBy,
    align_vectors,
    read_target_vectors,
    read_word_vectors,
)
from relexify.methods.parts.vectors import TokensInSpace, token_vectors
from relexify.methods.registry import TRANSLATIONS, InputKind
from relexify.mixture import Mixture, PrecomputedRows, first_of
from relexify.neighbours import normalise_rows
from relexify.storage.fingerprint import NO_EFFECT
from relexify.text import Corpus, NoText
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import DataclassInstance
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["Inputs"]

OwnOptions = TypeVar("OwnOptions")

_BLOCK = 4_096
"""Number of rows of an embedding that are read at once to compute their mean."""

_SpaceKey = tuple[Subwords, bool, WordComposition, bool, bool]
"""The arguments of `token_space` that affect its result."""


@dataclass(frozen=True)
class Inputs:
    """Everything that a method may build its mixture from.

    Attributes:
        source: The source model's tokenizer.
        target: The target language's tokenizer.
        evidence: Texts, dictionary, parallel text and vectors.
        read_embedding: Returns the model's input embedding [tokens × d].
        read_rows: Returns rows of the input embedding by a slice or by ids; if None, the whole embedding is read.
        read_output: Returns the output embedding [tokens × d]; None if it is tied to the input embedding.
        read_donor: Returns the tokenizer and the input embedding [tokens × d'] of a model of the target language.
        read_model: Returns the model itself, for methods that run it.
        neighbours: k of WECHSEL.
        temperature: τ of WECHSEL.
        aligned_by: The evidence or search that aligns word vectors.
        adversarial: Options of the search for a map if word vectors are aligned without known pairs.
        vectors: Options of the training of word vectors.
        overrides: Source token by target token, both by their spelling.
        options: The method's own options, an instance of `Method.options`.
        keep_source: Whether the target vocabulary extends the source vocabulary, so that source rows are kept.
        seed: Random seed.
        device: The device for nearest-neighbour search.
    """

    source: PreTrainedTokenizerFast
    target: PreTrainedTokenizerFast
    evidence: Evidence
    read_embedding: Callable[[], np.ndarray] = field(metadata=NO_EFFECT)
    read_rows: Callable[[slice | np.ndarray], np.ndarray] | None = field(default=None, metadata=NO_EFFECT)
    read_output: Callable[[], np.ndarray | None] = field(default=lambda: None, metadata=NO_EFFECT)
    read_donor: Callable[[], tuple[PreTrainedTokenizerFast, np.ndarray]] | None = field(
        default=None, metadata=NO_EFFECT
    )
    read_model: Callable[[], PreTrainedModel] | None = field(default=None, metadata=NO_EFFECT)
    neighbours: int = 10
    temperature: float = 0.1
    aligned_by: AlignedBy = "dictionary"
    adversarial: AdversarialTraining = field(default_factory=AdversarialTraining)
    vectors: VectorTraining = field(default_factory=VectorTraining)
    overrides: Mapping[str, str] = field(default_factory=dict)
    options: DataclassInstance | None = None
    keep_source: bool = False
    seed: int = 0
    device: str = field(default="cpu", metadata=NO_EFFECT)
    # Shared only with the copies that `at` returns: a space depends on all fields except neighbours and temperature.
    _spaces: dict[_SpaceKey, TokenSpace] = field(default_factory=dict, init=False, compare=False, metadata=NO_EFFECT)

    def at(self, neighbours: int, temperature: float) -> Inputs:
        """Return the inputs with other neighbours and temperature; vectors and searches are shared."""
        other = replace(self, neighbours=neighbours, temperature=temperature)
        object.__setattr__(other, "_spaces", self._spaces)
        return other

    def own_options(self, kind: type[OwnOptions]) -> OwnOptions:
        """Return the method's own options; `kind` is their type, as in `Method.options`.

        Raises:
            TypeError: The options are of another type.
        """
        if not isinstance(self.options, kind):
            raise TypeError(f"the options of the method are of type {type(self.options).__name__}, not {kind.__name__}")
        return self.options

    def keep_rows(self, mixture: Mixture) -> Mixture:
        """If the vocabulary is extended, copy the rows of the source vocabulary in a mixture."""
        if not self.keep_source:
            return mixture
        return first_of(kept(self.source, self.target), mixture, method=mixture.method)

    def keep_added(self, precomputed: PrecomputedRows | None) -> PrecomputedRows | None:
        """If the vocabulary is extended, remove the rows of the source vocabulary from precomputed rows."""
        if not self.keep_source or precomputed is None:
            return precomputed
        added = precomputed.ids >= len(vocabulary_of(self.source))
        output = None if precomputed.output is None else precomputed.output[added]
        return PrecomputedRows(precomputed.ids[added], precomputed.vectors[added], output)

    @property
    def translations(self) -> list[InputKind]:
        """The given inputs that contain translations."""
        given = {"dictionary": self.evidence.lexicon, "bitext": self.evidence.bitext}
        return [kind for kind in TRANSLATIONS if given[kind] is not None]

    @property
    def reads_own_embedding(self) -> bool:
        """Whether the model's embedding replaces word vectors of the source language."""
        return self.evidence.source_vectors is None and self.evidence.source_corpus is None

    @property
    def _vector_training(self) -> VectorTraining:
        return replace(self.vectors, seed=self.seed)

    @property
    def map_search(self) -> AdversarialTraining:
        """Options of the search for a map between two spaces without known pairs."""
        if self.aligned_by != "adversarial":
            return self.adversarial
        return replace(self.adversarial, frequency_map=False, principal_axes=False)

    @cached_property
    def embedding(self) -> np.ndarray:
        """The model's input embedding [tokens × d]."""
        return self.read_embedding()

    def centred_rows(self, ids: np.ndarray) -> np.ndarray:
        """Return rows of the model's input embedding [n × d] minus the mean of all rows, with few rows in memory."""
        read = self.read_rows or self.embedding.__getitem__
        picked = read(ids)
        total, count = np.zeros(picked.shape[1]), 0
        while len(rows := read(slice(count, count + _BLOCK))):
            total += rows.sum(axis=0, dtype=np.float64)
            count += len(rows)
        centred: np.ndarray = picked - (total / count).astype(picked.dtype)
        return centred

    @cached_property
    def output_embedding(self) -> np.ndarray | None:
        """The model's output embedding [tokens × d], if it has one that is not tied to the input embedding."""
        return self.read_output()

    @cached_property
    def donor_vectors(self) -> SubwordVectors:
        """Rows of the donor model for target tokens that are also in its vocabulary, except special tokens.

        Raises:
            InputError: No donor was given.
        """
        if self.read_donor is None:
            raise InputError("there is no model of the target language to read rows from: give `donor`")
        tokenizer, rows = self.read_donor()
        donor, target = vocabulary_of(tokenizer), vocabulary_of(self.target)
        found = [None if form.is_special else donor.same(target, id) for id, form in enumerate(target.forms)]
        matrix = np.zeros((len(target), rows.shape[1]), np.float32)
        ids = [id for id, match in enumerate(found) if match is not None]
        matrix[ids] = rows[[match for match in found if match is not None]]
        return SubwordVectors(target, matrix, np.any(matrix != 0, axis=1))

    @cached_property
    def aligned_token_counts(self) -> scipy.sparse.csr_array:
        """How often tokens of the two vocabularies are aligned in the parallel text, [target × source].

        Raises:
            InputError: There is no parallel text, or it does not match its word alignment.
            MissingExtra: The text has not been aligned yet, and eflomal is not installed.
        """
        if self.evidence.bitext is None:
            raise InputError("there is no parallel text to count in: give `bitext`")
        return count_aligned_tokens(
            self.evidence.bitext,
            self.source,
            self.target,
            links=self.evidence.links,
            options=self.evidence.aligning,
            left_out=self.scored_pairs,
        )

    @cached_property
    def scored_pairs(self) -> np.ndarray:
        """Indices of the pairs of parallel text that also occur in text to score on, among the used lines, int64 [n].

        Raises:
            EvidenceError: All pairs occur in text to score on.
        """
        evidence = self.evidence
        if evidence.bitext is None:
            return np.zeros(0, np.int64)
        most = most_lines(evidence.links, evidence.aligning)
        texts = [_paragraphs(text) for text in (evidence.source_held_out, evidence.held_out)]
        found = find_overlap(evidence.bitext.sample(most)[1], *texts)
        if len(found):
            report_overlap(len(found), sum(1 for sentence, _ in evidence.bitext.sample(most)[1] if sentence))
        return found

    @cached_property
    def target_token_vectors(self) -> SubwordVectors:
        """Vectors of the target tokens, trained on the corpus split into these tokens."""
        return token_vectors(self.evidence.corpus, self.target, self._vector_training)

    @cached_property
    def target_subwords(self) -> SubwordVectors:
        """Vectors of the target tokens, composed from word vectors of the target language, in their original space."""
        return subword_vectors(self.target, read_target_vectors(self.evidence, self._vector_training), "auto")

    def word_vectors(self, *, warn: bool = True) -> tuple[WordVectors, WordVectors, TokensInSpace | None]:
        """Return word vectors of both languages, as `read_word_vectors` does."""
        return read_word_vectors(self.evidence, self._vector_training, self.source, lambda: self.embedding, warn=warn)

    def token_space(
        self,
        subwords: Subwords = "auto",
        *,
        with_dictionary: bool = True,
        words: WordComposition | None = None,
        weighted: bool = True,
        unit_length: bool = False,
        warn: bool = True,
    ) -> TokenSpace:
        """Return vectors of source and target tokens in one space.

        Args:
            subwords: How vectors of tokens are composed, see `subword_vectors`.
            with_dictionary: Whether a dictionary may align the word vectors; otherwise, all identical words align them,
                however short, as in RAMEN.
            words: The words that tokens are composed from, and their weights; None for all words, by frequency.
            weighted: Whether words are weighted by frequency; if not, equally.
            unit_length: Whether vectors of words, and of tokens of the model's own embedding, are scaled to length 1.
            warn: Whether to warn if evidence is missing, or if it does not align the vectors.

        Raises:
            EvidenceError: There is no evidence to align the vectors with.
        """
        used = words or WordComposition()
        key = (subwords, with_dictionary, used, weighted, unit_length)
        if key in self._spaces:
            return self._spaces[key]

        def compose(tokenizer: PreTrainedTokenizerFast, vectors: WordVectors, counts: Path | None) -> SubwordVectors:
            frequencies: Mapping[str, float] | None = None if counts is None else read_frequencies(counts)
            if not weighted:
                frequencies = dict.fromkeys(vectors.words, 1.0)
            if unit_length:
                return subwords_from_words(
                    tokenizer, vectors, frequencies=frequencies, top_words=used.top_words, unit_length=True
                )
            return subword_vectors(tokenizer, vectors, subwords, frequencies, used.top_words)

        source, target, tokens_in_space = self.word_vectors(warn=warn)
        if self.evidence.rotation is not None:
            rotation = Rotation.load(self.evidence.rotation)
        else:
            rotation = align_vectors(
                source,
                target,
                self.evidence.lexicon,
                aligned_by=self.aligned_by,
                with_dictionary=with_dictionary,
                search=self.map_search,
                seed=self.seed,
                device=self.device,
                warn=warn,
            )
        source, target = rotation.apply(source, target)
        if tokens_in_space is None:
            tokens = compose(self.source, source, used.source_frequencies)
        else:
            tokens = tokens_in_space(source)
            if unit_length:  # dot products need the same scale on both sides
                tokens = replace(tokens, matrix=normalise_rows(tokens.matrix))
        space = TokenSpace(tokens, compose(self.target, target, used.target_frequencies), rotation)
        self._spaces[key] = space
        return space


def _paragraphs(text: Corpus | None) -> Iterator[str]:
    """Yield the paragraphs of held-out text; none for empty text, which is an error only where it is scored."""
    if text is None:
        return
    with suppress(NoText):
        yield from text
