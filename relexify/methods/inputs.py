"""Inputs of a method: tokenizers, evidence and options; whatever is slow is computed when a method first needs it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

from relexify.errors import InputError
from relexify.evidence.alignment import Rotation, align, align_randomly, unaligned
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
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods.parts.copying import kept
from relexify.methods.parts.token_space import TokenSpace, WordComposition
from relexify.methods.parts.vectors import (
    TokensInSpace,
    choose_lexicon,
    embedding_vectors,
    identical_words,
    token_vectors,
    trained_vectors,
)
from relexify.methods.registry import TRANSLATIONS, InputKind
from relexify.mixture import Mixture, PrecomputedRows, first_of
from relexify.neighbours import normalise_rows
from relexify.storage.fingerprint import NO_EFFECT
from relexify.text import Corpus, NoText
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["AlignedBy", "Inputs"]

AlignedBy = Literal["dictionary", "identical", "self-learning", "unsupervised", "adversarial", "random", "nothing"]
"""The evidence that aligns word vectors: a dictionary, words of both languages, a small dictionary that is extended by
neighbours, or none: all searches for a map between the two spaces, only the adversarial training of the papers, or a
random rotation, as a control. Vectors that are in one space already, such as multilingual ones, are aligned by nothing.
"""

_FORM_WORDS = 50_000
"""Words with vectors that show which Unicode form these are in, the most frequent ones."""

_BLOCK = 4_096
"""Rows of an embedding that are read at once for their mean."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inputs:
    """Everything that a method may build its mixture from.

    Attributes:
        source: The source model's tokenizer.
        target: The target language's tokenizer.
        evidence: Texts, dictionary, parallel text and vectors.
        read_embedding: Returns the model's input embedding [tokens × d].
        read_rows: Returns some of its rows, by a slice or their ids; without it, they are taken from the whole.
        read_output: Returns the output embedding [tokens × d] of a model that has one apart from the input embedding.
        read_donor: Returns the tokenizer and the input embedding [tokens × d'] of a model of the target language.
        read_model: Returns the model itself, for methods that run it.
        neighbours: k of WECHSEL.
        temperature: τ of WECHSEL.
        aligned_by: What aligns word vectors.
        adversarial: How a map is searched for if no known pairs align word vectors.
        vectors: How word vectors are trained.
        overrides: Source token by target token, both spelled out.
        options: The method's own options, an instance of `Method.options`.
        keep_source: Whether the target vocabulary extends that of the source, whose rows are kept.
        seed: Random seed.
        device: Where to search.
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
    options: Any = None
    keep_source: bool = False
    seed: int = 0
    device: str = field(default="cpu", metadata=NO_EFFECT)
    # Token spaces by the arguments of `token_space`; shared with the copies that `at` returns.
    _spaces: dict[Any, TokenSpace] = field(default_factory=dict, init=False, compare=False, metadata=NO_EFFECT)

    def at(self, neighbours: int, temperature: float) -> Inputs:
        """Return the inputs with other neighbours and temperature; vectors and searches are shared."""
        other = replace(self, neighbours=neighbours, temperature=temperature)
        object.__setattr__(other, "_spaces", self._spaces)
        return other

    def keep_rows(self, mixture: Mixture) -> Mixture:
        """Return a mixture with the rows of the source vocabulary copied, if the vocabulary is extended."""
        if not self.keep_source:
            return mixture
        return first_of(kept(self.source, self.target), mixture, method=mixture.method)

    def keep_added(self, precomputed: PrecomputedRows | None) -> PrecomputedRows | None:
        """Return precomputed rows without those of the source vocabulary, if the vocabulary is extended."""
        if not self.keep_source or precomputed is None:
            return precomputed
        added = precomputed.ids >= len(vocabulary_of(self.source))
        output = None if precomputed.output is None else precomputed.output[added]
        return PrecomputedRows(precomputed.ids[added], precomputed.vectors[added], output)

    @property
    def translations(self) -> list[InputKind]:
        """The inputs with translations that are given."""
        given = {"dictionary": self.evidence.lexicon, "bitext": self.evidence.bitext}
        return [kind for kind in TRANSLATIONS if given[kind] is not None]

    @property
    def reads_own_embedding(self) -> bool:
        """Whether the model's embedding replaces word vectors of the source language."""
        return self.evidence.source_vectors is None and self.evidence.source_corpus is None

    @property
    def map_search(self) -> AdversarialTraining:
        """How a map between two spaces is searched for without known pairs."""
        if self.aligned_by != "adversarial":
            return self.adversarial
        return replace(self.adversarial, frequency_map=False, principal_axes=False)

    @cached_property
    def embedding(self) -> np.ndarray:
        """The model's input embedding [tokens × d]."""
        return self.read_embedding()

    def centred_rows(self, ids: np.ndarray) -> np.ndarray:
        """Return rows of the model's input embedding [n × d] less the mean of all; few are in memory at once."""
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
        """Rows of a donor model for the target tokens that its vocabulary has too; special tokens have none.

        Raises:
            InputError: There is no donor.
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
        """The pairs of parallel text that occur in text to score on, as indices of the lines that are used, int64 [n].

        Raises:
            EvidenceError: All pairs do.
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
        """Vectors of the target tokens, trained on the corpus cut into them."""
        return token_vectors(self.evidence.corpus, self.target, replace(self.vectors, seed=self.seed))

    @cached_property
    def target_subwords(self) -> SubwordVectors:
        """Vectors of the target tokens, composed from word vectors of the target language, in a space of their own."""
        return subword_vectors(self.target, self._target_word_vectors(), "auto")

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
            subwords: How tokens are composed, see `subword_vectors`.
            with_dictionary: Whether a dictionary may align the word vectors; otherwise all identical words do, however
                short, as in RAMEN.
            words: Which words tokens are composed from, and how they are weighted; None for all, by frequency.
            weighted: Whether a word counts by its frequency; if not, all words count alike.
            unit_length: Whether words, and tokens of the model's own embedding, count with unit length.
            warn: Whether to warn of missing evidence and of vectors that it does not align.

        Raises:
            EvidenceError: There is nothing to align the vectors by.
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

        source, target, tokens_in_space = self._word_vectors(warn=warn)
        if self.evidence.rotation is not None:
            rotation = Rotation.load(self.evidence.rotation)
        else:
            rotation = self._align(source, target, with_dictionary, warn=warn)
        source, target = rotation.apply(source, target)
        if tokens_in_space is None:
            tokens = compose(self.source, source, used.source_frequencies)
        else:
            tokens = tokens_in_space(source)
            if unit_length:  # dot products need one scale on both sides
                tokens = replace(tokens, matrix=normalise_rows(tokens.matrix))
        space = TokenSpace(tokens, compose(self.target, target, used.target_frequencies), rotation)
        self._spaces[key] = space
        return space

    def _word_vectors(self, *, warn: bool = True) -> tuple[WordVectors, WordVectors, TokensInSpace | None]:
        """Return word vectors of both languages: from files, from text, or from the model's embedding."""
        evidence, options = self.evidence, replace(self.vectors, seed=self.seed)
        # Files first: one that cannot be read must not cost the training of the other side.
        source = None if evidence.source_vectors is None else load_vectors(evidence.source_vectors)
        target = None if evidence.target_vectors is None else self._target_word_vectors()
        # One after the other: each takes all cores, and two that share them are many times slower than two in turn.
        if source is None and evidence.source_corpus is not None:
            source = trained_vectors(evidence.source_corpus, options, name="source language")
        if target is None:
            target = self._target_word_vectors()
        if source is not None:
            return source, target, None
        logger.log(
            logging.WARNING if warn else logging.DEBUG,
            "neither vectors nor text of the model's language given: its own embedding replaces word vectors; "
            "--source-corpus or --source-vectors usually do better",
        )
        lexicon = evidence.lexicon
        words = [word for word in lexicon.source_words if " " not in word] if lexicon else []
        source, tokens_in_space = embedding_vectors(self.source, self.embedding, words, target_words=target.words)
        return source, target, tokens_in_space

    def _target_word_vectors(self) -> WordVectors:
        """Return word vectors of the target language: from a file, or from text."""
        if self.evidence.target_vectors is not None:
            return load_vectors(self.evidence.target_vectors)
        return trained_vectors(self.evidence.corpus, replace(self.vectors, seed=self.seed), name="target language")

    def _align(self, source: WordVectors, target: WordVectors, with_dictionary: bool, *, warn: bool = True) -> Rotation:
        given = self.evidence.lexicon
        if given is not None:  # its words are spelled like the text, and those of a file may be in another Unicode form
            given = given.spelled_like(" ".join(target.words[:_FORM_WORDS]))
        if self.aligned_by == "nothing":
            return unaligned(source, target, lexicon=given, seed=self.seed)
        if self.aligned_by == "random":
            return align_randomly(source, target, lexicon=given, seed=self.seed)
        if self.aligned_by in ("unsupervised", "adversarial"):
            from relexify.evidence.alignment.unsupervised.search import align_unsupervised  # imports torch

            return align_unsupervised(
                source,
                target,
                options=self.map_search,
                lexicon=given,
                reduce=True,
                seed=self.seed,
                device=self.device,
            )
        if not with_dictionary:
            lexicon = identical_words(source, target, shortest=1)
        elif self.aligned_by == "identical":
            lexicon = identical_words(source, target)
        else:
            lexicon = choose_lexicon(given, source, target, warn=warn)
        refinement = None
        if self.aligned_by == "self-learning":
            from relexify.evidence.alignment.unsupervised.self_learning import self_learn  # imports torch

            refinement = partial(self_learn, device=self.device)
        return align(source, target, lexicon, reduce=True, refinement=refinement, seed=self.seed, warn=warn)


def _paragraphs(text: Corpus | None) -> Iterator[str]:
    """Yield the paragraphs of text to score on; none if it is empty, which is an error only if it is scored."""
    if text is None:
        return
    with suppress(NoText):
        yield from text
