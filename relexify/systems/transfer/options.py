"""The options of a transfer: which of them a method uses, what they read, and how `relexify.json` records them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from relexify.device import AUTO
from relexify.errors import InputError
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.bitext import Bitext, WordAlignmentOptions
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import VectorTraining
from relexify.methods.parts.vector_alignment import AlignedBy
from relexify.methods.registry import METHODS, TRANSLATIONS, InputKind, Method
from relexify.registry import choose
from relexify.steps import Flattened, ModelName
from relexify.storage.fingerprint import BY_CONTENT, NO_EFFECT, content_of
from relexify.systems.transfer.defaults import DEFAULT_ADDED, DEFAULT_METHOD, DEFAULT_VOCABULARY
from relexify.text import Corpus, TextOption

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "EVIDENCE_OPTIONS",
    "USAGE_OPTIONS",
    "Transfer",
    "command_of",
    "given_evidence",
    "given_translations",
    "method_options",
    "transfer_inputs",
    "unused_options",
    "with_method",
    "without_evidence",
]

EVIDENCE_OPTIONS: Mapping[str, tuple[InputKind, ...]] = {
    "dictionary": ("dictionary",),
    "rotation": ("vectors",),
    "source_vectors": ("vectors",),
    "target_vectors": ("vectors", "target vectors", "token vectors"),
    "source_corpus": ("vectors", "source text"),
    "bitext": ("bitext",),
    "alignment": ("bitext",),
    "donor": ("donor",),
}
"""Options with evidence, and the inputs of a method that each contributes to."""

USAGE_OPTIONS: Mapping[str, tuple[InputKind, ...]] = {
    "neighbours": ("neighbours",),
    "temperature": ("neighbours",),
    "aligned_by": ("vectors", "token vectors"),
    "adversarial": ("vectors", "token vectors"),
}
"""Options that say how evidence is used, and the inputs of a method that each affects."""


def _read_dictionary(dictionary: str | Path | BilingualLexicon) -> BilingualLexicon:
    # Its fingerprint is that of its pairs, because a dictionary may consist of several files.
    if isinstance(dictionary, BilingualLexicon):
        return dictionary
    return BilingualLexicon.load(dictionary)


def _all_method_options() -> dict[str, type[Any]]:
    # Options of all methods, because the runs of a comparison share one table.
    return {name: method.options for name, method in METHODS.items() if method.options is not None}


@dataclass(frozen=True)
class Transfer:
    """Everything that one transfer needs.

    Attributes:
        model: The source model: a folder, a Hub name, or `smollm2-135m` (SmolLM2-135M-Instruct, dequantised from 4
            bits).
        output: The folder to write.
        corpus: Text in the target language: files, folders, URLs, data sets of the Hub, or a `Corpus`.
        dictionary: Bilingual dictionary, the model's language first; default: words that both languages spell alike.
        dictionary_swapped: The dictionary has the target language first.
        bitext: Parallel text, the model's language first.
        alignment: File with a word alignment of the parallel text: links such as `0-0 1-2`, a line for each pair.
            Default: computed by eflomal.
        aligning: How parallel text is read and its words are aligned.
        method: The initialisation; `relexify methods` describes them.
        tokenizer: Tokenizer of the target language; default: trained on the corpus.
        vocab_size: Size of the target vocabulary, if its tokenizer is trained.
        keep_source: Extend the vocabulary of the model instead of replacing it: its tokens and their rows are kept, and
            text in its language is encoded as before.
        added_tokens: Number of tokens to add with `keep_source`.
        source_vectors: Word vectors of the model's language; default: trained on `source_corpus`.
        target_vectors: Word vectors of the target language; default: trained on the corpus. Methods whose vocabulary
            covers both languages read vectors of tokens instead, by their spelling.
        source_corpus: Text in the model's language, to train its word vectors on; default: the model's own embedding
            replaces them. With `keep_source`, text whose encoding is kept.
        source_held_out: Text in the model's language to check an extended vocabulary on; default: one line in 100 of
            `source_corpus`.
        donor: A model of the target language, for methods that read its embedding; its tokenizer is used unless
            `tokenizer` is given.
        held_out: Text to score on; default: one line in 100 of the corpus.
        neighbours: k of WECHSEL: source tokens that are mixed into a target token.
        temperature: τ of WECHSEL: the lower, the more weight has the nearest neighbour.
        rotation: File with a vector alignment, written by `relexify align`; default: computed.
        aligned_by: Vector alignment: by the `dictionary`; by `identical` words; by `self-learning` from a small
            dictionary; without pairs, by all searches (`unsupervised`) or only the `adversarial` one; by a `random`
            rotation, as a control; or by `nothing`, if the vectors already share one space.
        adversarial: How a vector alignment is searched for without pairs.
        overrides: Source token by target token, for tokens whose source you know.
        vectors: How word vectors are trained.
        unigram_prior: Adapt the output of the model to the token frequencies of the text; default: decided by the
            method, and off with `keep_source`.
        options: Options of the method, by name.
        score: Measure bits per byte before training, and compare with the source model and with random and shuffled
            embeddings.
        held_out_bytes: Bytes of held-out text to score on; default: 400,000 with CUDA and 8,192 without.
        device: Where to search and score: `cpu`, `cuda`, or `auto` for a GPU if there is one.
        pad_to_multiple_of: Round the number of embedding rows up to a multiple of this; default: no padding.
        language: Code of the target language, such as `sw`, for the model card.
        seed: Random seed.
        overwrite: Replace the output folder.
    """

    model: ModelName = field(metadata=BY_CONTENT)
    output: Path = field(metadata=NO_EFFECT)
    corpus: TextOption = field(metadata=content_of(Corpus.open))
    dictionary: Path | BilingualLexicon | None = field(default=None, metadata=content_of(_read_dictionary))
    dictionary_swapped: bool = False
    bitext: TextOption | None = field(default=None, metadata=content_of(Bitext.open))
    alignment: Path | None = field(default=None, metadata=BY_CONTENT)
    aligning: WordAlignmentOptions = field(default_factory=WordAlignmentOptions)
    method: Annotated[str, METHODS] = DEFAULT_METHOD
    tokenizer: ModelName | None = field(default=None, metadata=BY_CONTENT)
    vocab_size: int = DEFAULT_VOCABULARY
    keep_source: bool = False
    added_tokens: int = DEFAULT_ADDED
    source_vectors: Path | None = field(default=None, metadata=BY_CONTENT)
    target_vectors: Path | None = field(default=None, metadata=BY_CONTENT)
    source_corpus: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    source_held_out: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    donor: ModelName | None = field(default=None, metadata=BY_CONTENT)
    held_out: TextOption | None = field(default=None, metadata=content_of(Corpus.open))
    neighbours: int = 10
    temperature: float = 0.1
    rotation: Path | None = field(default=None, metadata=BY_CONTENT)
    aligned_by: AlignedBy = "dictionary"
    adversarial: AdversarialTraining = field(default=AdversarialTraining())
    overrides: Mapping[str, str] = field(default_factory=dict)
    vectors: VectorTraining = field(default_factory=VectorTraining)
    unigram_prior: bool | None = None
    options: Annotated[Mapping[str, Any], Flattened(_all_method_options)] = field(default_factory=dict)
    score: bool = field(default=True, metadata=NO_EFFECT)
    held_out_bytes: int | None = field(default=None, metadata=NO_EFFECT)
    device: str = field(default=AUTO, metadata=NO_EFFECT)
    pad_to_multiple_of: int | None = None
    language: str | None = field(default=None, metadata=NO_EFFECT)
    seed: int = 0
    overwrite: bool = field(default=False, metadata=NO_EFFECT)


def method_options(transfer: Transfer) -> DataclassInstance | None:
    """Return the method's own options; None if it has none.

    The runs of a comparison share one table, so options of other methods are left out without a message. A name that no
    method has is a mistake.

    Raises:
        InputError: A value is impossible, or no method has an option of this name.
    """
    known = {entry.name for kind in _all_method_options().values() for entry in fields(kind)}
    if unknown := sorted(set(transfer.options) - known):
        raise InputError(f"no method has an option {unknown[0]!r}: choose from {', '.join(sorted(known))}")
    kind: type[Any] | None = METHODS[transfer.method].options
    if kind is None:
        return None
    own = {entry.name for entry in fields(kind)}
    chosen: DataclassInstance = kind(**{name: value for name, value in transfer.options.items() if name in own})
    return chosen


def with_method(options: Transfer, method: str) -> Transfer:
    """Return the options for another method, without the evidence that it does not use."""
    taken = METHODS[method]
    unused: dict[str, Any] = dict.fromkeys(unused_options(taken, keep_source=options.keep_source))
    if not taken.takes("overrides"):
        unused["overrides"] = {}
    return replace(options, method=method, **unused)


def without_evidence(options: Transfer, names: Sequence[str]) -> Transfer:
    """Return the options without some of the evidence, by the names of its options.

    Raises:
        InputError: There is no evidence of such a name.
    """
    left_out: dict[str, Any] = {choose(name, EVIDENCE_OPTIONS, "evidence"): None for name in names}
    return replace(options, **left_out)


def unused_options(method: Method, *, keep_source: bool = False) -> tuple[str, ...]:
    """Return the evidence options that a method ignores.

    Args:
        method: The method.
        keep_source: Whether the vocabulary is extended, which needs text of the source language with any method.
    """
    used = {name for name, kinds in EVIDENCE_OPTIONS.items() if any(method.takes(kind) for kind in kinds)}
    if keep_source:
        used.add("source_corpus")
    return tuple(name for name in EVIDENCE_OPTIONS if name not in used)


def given_evidence(options: Transfer) -> list[str]:
    """Return the names of the options with evidence that a transfer is given."""
    return [name for name in EVIDENCE_OPTIONS if getattr(options, name) is not None]


def given_translations(options: Transfer) -> list[InputKind]:
    """Return the inputs with translations that a transfer is given, which are options of the same names."""
    return [kind for kind in TRANSLATIONS if getattr(options, kind) is not None]


def transfer_inputs(options: Transfer) -> tuple[Any, ...]:
    """Return everything that a transfer reads, for `check_inputs`."""
    return (
        options.model,
        options.tokenizer,
        options.corpus,
        options.held_out,
        options.source_held_out,
        *(getattr(options, name) for name in EVIDENCE_OPTIONS),
    )


def command_of(options: Transfer) -> dict[str, Any]:
    """Return the options as plain data for `relexify.json`, without the output, since that file is inside it."""
    command = {entry.name: getattr(options, entry.name) for entry in fields(options) if entry.name != "output"}
    plain: dict[str, Any] = json.loads(json.dumps(_as_plain_data(command)))  # with lists for tuples, as json has it
    return plain


def _as_plain_data(value: object) -> Any:
    """Return an option as plain data for json. Texts and dictionaries that are in memory become their names."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple):
        return [_as_plain_data(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _as_plain_data(entry) for key, entry in value.items()}
    if isinstance(value, Corpus) and len(value.sources) > 1:
        return [source.name for source in value.sources]
    name = getattr(value, "name", None)
    if isinstance(name, str) and not isinstance(value, Path):
        return name
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
