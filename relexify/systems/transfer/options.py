"""A whole transfer as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from relexify.evidence.bitext import WordAlignmentOptions
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import VectorTraining
from relexify.steps import ModelName
from relexify.text import TextInput

__all__ = ["DEFAULT_VOCABULARY", "METHODS", "Method", "Transfer"]

DEFAULT_VOCABULARY = 32_000


@dataclass(frozen=True)
class Method:
    """An initialisation that a transfer can choose.

    Attributes:
        becomes: What a new token becomes.
        evidence: What it needs to know.
        paper: Where it comes from.
        uses_vectors: Whether vectors take part.
        uses_dictionary: Whether a dictionary does.
        uses_bitext: Whether parallel text does, where there is any.
        uses_token_vectors: Whether vectors of the new tokens by their spelling do, where there are any.
        uses_neighbours: Whether k neighbours are mixed at a temperature.
        needs_source_text: Whether text of the model's language takes part in any case.
        takes_overrides: Whether single tokens can be copied from old ones by name.
    """

    becomes: str
    evidence: str
    paper: str
    uses_vectors: bool = True
    uses_dictionary: bool = True
    uses_bitext: bool = False
    uses_token_vectors: bool = False
    uses_neighbours: bool = True
    needs_source_text: bool = False
    takes_overrides: bool = True

    @property
    def needs_bitext(self) -> bool:
        """Whether parallel text is all that it has to go by."""
        return self.uses_bitext and not self.uses_vectors

    @property
    def unused(self) -> tuple[str, ...]:
        """The fields of `Transfer` with evidence that it makes no use of."""
        return (
            *(() if self.uses_dictionary else ("dictionary",)),
            *(() if self.uses_vectors else ("rotation", "source_vectors")),
            *(() if self.uses_vectors or self.uses_token_vectors else ("target_vectors",)),
            *(() if self.uses_vectors or self.needs_source_text else ("source_corpus",)),
            *(() if self.uses_bitext else ("bitext", "alignment")),
        )


_VECTORS = "vectors or text of both languages, a dictionary"
_NO_VECTORS: Mapping[str, bool] = {"uses_vectors": False, "uses_dictionary": False, "uses_neighbours": False}

METHODS: Mapping[str, Method] = {
    "blend": Method(
        "in equal parts: its neighbours in aligned vectors (wechsel), the old pieces of its translations, and its own "
        "old pieces (fvt); digits and punctuation are copied: the default",
        f"{_VECTORS}; parallel text, where given, is one more part; makes do with less",
        "relexify's own",
        uses_bitext=True,
    ),
    "wechsel": Method(
        "a softmax over its nearest old tokens in aligned vectors, tokens composed of n-grams",
        f"{_VECTORS}; fastText vectors, for their n-grams",
        "Minixhofer et al. 2022, section 3",
    ),
    "wechsel-tfr": Method(
        "the same, but tokens are composed of the words they occur in, by frequency",
        f"{_VECTORS}; any vectors",
        "Minixhofer et al. 2022, Appendix D",
    ),
    "trelm": Method(
        "its skip-gram vector, turned into the embedding's space without any pairs; the vocabulary is a WordPiece one "
        "over both languages",
        "text of both languages",
        "Li et al. 2021, section 3.1",
        **_NO_VECTORS,
        uses_token_vectors=True,
        needs_source_text=True,
    ),
    "fvt": Method(
        "the mean of its old pieces; tokens that both vocabularies have are copied",
        "the two tokenizers alone",
        "Gee et al. 2022",
        **_NO_VECTORS,
    ),
    "ramen": Method(
        "the old tokens it is aligned with in parallel text, by translation probability",
        "parallel text",
        "Tran 2020, section 2.1",
        **_NO_VECTORS,
        uses_bitext=True,
    ),
    "ramen-vectors": Method(
        "a sparsemax over all old tokens in vectors that were aligned on words written alike",
        "vectors or text of both languages, which share some words",
        "Tran 2020, sections 2.1 and 3.2",
        uses_dictionary=False,
        uses_neighbours=False,
    ),
    "ramen-random": Method(
        "a draw from N(0, 1/d²): a baseline",
        "nothing",
        "Tran 2020, section 5.1",
        **_NO_VECTORS,
        takes_overrides=False,
    ),
    "trans-tokens": Method(
        "the old tokens it is aligned with, by count; digits, punctuation and what both vocabularies have are copied",
        "parallel text",
        "Remy et al. 2024",
        **_NO_VECTORS,
        uses_bitext=True,
    ),
    "focus": Method(
        "a sparsemax over the tokens that both vocabularies have, in vectors of the new tokens; those are copied",
        "text of the new language; vocabularies that share tokens",
        "Dobler and de Melo 2023",
        **_NO_VECTORS,
    ),
    "shuffle": Method(
        "a random old token: a baseline",
        "nothing",
        "Zoph et al. 2016",
        **_NO_VECTORS,
        takes_overrides=False,
    ),
    "random": Method(
        "a draw like those of an untrained model: a baseline",
        "nothing",
        "de Vries and Nissim 2021",
        **_NO_VECTORS,
        takes_overrides=False,
    ),
    "fullrand": Method(
        "random, and every inner parameter too: a model of the same shape that knows nothing, a baseline",
        "nothing",
        "Minixhofer et al. 2022, section 4",
        **_NO_VECTORS,
        takes_overrides=False,
    ),
}
"""What `Transfer.method` may be."""


@dataclass(frozen=True)
class Transfer:
    """Everything that one transfer needs.

    Attributes:
        model: A folder, a Hub name, or `smollm2-135m`.
        output: The folder to write.
        corpus: Text in the new language, whatever `Corpus.open` takes.
        dictionary: A file of source word and target word, or the lexicon itself; where none is given, identical words
            take its place.
        dictionary_swapped: The dictionary has the new language first.
        bitext: Parallel text, whatever `Bitext.open` takes, the model's language first.
        alignment: A ready alignment of it, links like `0-0 1-2` on one line for each pair; where none is given, eflomal
            makes one.
        aligning: How it is read and aligned.
        method: One of `METHODS`.
        tokenizer: A ready tokenizer of the new language; where none is given, one is trained on the corpus.
        vocab_size: Tokens to train.
        source_vectors: Word vectors of the model's language.
        target_vectors: Word vectors of the new language; where none are given, they are trained on the corpus. Of
            `trelm`: vectors of the joint vocabulary's tokens by their spelling, as wide as the model's embedding.
        source_corpus: Text in the model's language, to train its vectors on; where there is neither vectors nor text,
            the model's own embedding takes their place.
        held_out: Text to score on; where none is given, one line in 100 of the corpus is kept aside.
        neighbours: k of WECHSEL.
        temperature: τ of WECHSEL.
        rotation: A ready alignment of the vectors, as `align` saves it, in place of the dictionary's.
        aligned_by: What aligns the vectors: the dictionary (identical words where there is none), identical words in
            any case, or nothing but the shapes of the two spaces. Of `trelm`: identical tokens, or else the shapes.
        alphabet: Of `trelm`: at most so many different characters in the joint vocabulary.
        initialisation: Of `trelm`: where the rows come from, as in the paper's Table 5.
        map: Of `trelm`: a linear map foretells the model's rows, an orthogonal one turns the vectors.
        overrides: Source token by target token.
        vectors: How to train vectors.
        score: Measure bits per byte before training, against random and shuffled embeddings.
        score_bytes: How much text to measure on.
        device: Where to search and score.
        pad_to_multiple_of: Round the rows of the embedding up.
        seed: Of all that is random.
        overwrite: Replace the output folder.
    """

    model: str
    output: Path
    corpus: TextInput
    dictionary: Path | BilingualLexicon | None = None
    dictionary_swapped: bool = False
    bitext: TextInput | None = None
    alignment: Path | None = None
    aligning: WordAlignmentOptions = field(default_factory=WordAlignmentOptions)
    method: Annotated[str, METHODS] = "blend"
    tokenizer: ModelName | None = None
    vocab_size: int = DEFAULT_VOCABULARY
    source_vectors: Path | None = None
    target_vectors: Path | None = None
    source_corpus: TextInput | None = None
    held_out: TextInput | None = None
    neighbours: int = 10
    temperature: float = 0.1
    rotation: Path | None = None
    aligned_by: Literal["dictionary", "identical", "unsupervised"] = "dictionary"
    alphabet: int = 1_000
    initialisation: Literal["random", "random-align", "fasttext", "fasttext-align"] = "fasttext-align"
    map: Literal["linear", "orthogonal"] = "linear"
    overrides: Mapping[str, str] = field(default_factory=dict)
    vectors: VectorTraining = field(default_factory=VectorTraining)
    score: bool = True
    score_bytes: int = 16_384
    device: str = "cpu"
    pad_to_multiple_of: int | None = None
    seed: int = 0
    overwrite: bool = False
