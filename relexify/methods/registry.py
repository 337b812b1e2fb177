"""The registry of initialisation methods.

A method is one file in this package: a pure function with the paper's equation, and its entry here:

    __all__ = ["mean"]

    def mean(source_tokenizer, target_tokenizer) -> Mixture:
        source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
        rest = empty_mixture(source, target, method="mean", fallback=Fallback.MEAN)
        return first_of(special(source, target), rest, method="mean")

    METHODS.add("mean", Method(
        becomes="the mean of the source embedding",
        evidence="nothing",
        paper="…",
        build=lambda inputs: mean(inputs.source, inputs.target),
    ))

Mixtures are sparse: tokens without evidence have empty rows, and a `Fallback` says how to fill all of them. Commands,
recipes, comparisons and `rx.methods` read the registry and the package; nothing else has to change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from relexify.registry import Registry

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from transformers import PreTrainedTokenizerFast

    from relexify.evidence.alignment import Rotation
    from relexify.evidence.evidence import Evidence
    from relexify.methods.inputs import Inputs
    from relexify.mixture import Mixture, PrecomputedRows

__all__ = ["METHODS", "TRANSLATIONS", "Initialisation", "InputKind", "Method", "TokenizerTraining"]

InputKind = Literal[
    "vectors",
    "target vectors",
    "dictionary",
    "bitext",
    "source text",
    "token vectors",
    "donor",
    "embedding",
    "model",
    "neighbours",
    "overrides",
]
"""The inputs of a method, in addition to the two tokenizers and text in the target language:

- vectors: aligned word vectors of both languages, from files, from text, or from the model's embedding
- target vectors: word vectors of only the target language
- dictionary: a bilingual dictionary
- bitext: parallel text
- source text: text in the source model's language
- token vectors: vectors of the target tokens by their spelling
- donor: a model of the target language
- embedding: rows of the source model, to combine into precomputed rows
- model: the source model itself, to run it
- neighbours: the options k and τ
- overrides: tokens to copy from named source tokens
"""

TRANSLATIONS: tuple[InputKind, ...] = ("dictionary", "bitext")
"""The inputs with translations, which may replace others (`Method.replaced_by`)."""


@dataclass(frozen=True)
class Initialisation:
    """The result of a method.

    Attributes:
        mixture: How every target token is mixed from source tokens.
        precomputed: Rows that are not mixtures of source rows; they replace rows of the mixture.
        rotation: The vector alignment that the mixture is based on, if any.
    """

    mixture: Mixture
    precomputed: PrecomputedRows | None = None
    rotation: Rotation | None = None


class TokenizerTraining(Protocol):
    """Trains the target tokenizer of a method that defines its own vocabulary."""

    def __call__(
        self, source: PreTrainedTokenizerFast, evidence: Evidence, *, vocab_size: int, options: Any
    ) -> PreTrainedTokenizerFast:
        """Return a tokenizer with the special tokens of `source`; `options` are the method's own."""
        ...


@dataclass(frozen=True)
class Method:
    """An initialisation that a transfer can choose.

    Attributes:
        becomes: What a target token becomes, in one line.
        evidence: The evidence that it needs or uses, for help and documentation.
        paper: The paper that describes it.
        build: Returns the mixture, or an `Initialisation` if there are also precomputed rows or a rotation.
        without_translations: What a token becomes without dictionary and parallel text; if empty, as in `becomes`.
        needs: Required inputs.
        uses: Optional inputs.
        replaced_by: For an optional input, the inputs that make it unused.
        train_tokenizer: Trains the target tokenizer; if None, a tokenizer of the same type as the source model's is
            trained.
        fresh_inner: Whether the inner parameters are drawn at random too.
        unigram_prior: The default of `Transfer.unigram_prior`: whether the grafted model gets the unigram distribution
            of the text. It is off for the methods of papers, which have no such step.
        is_baseline: Whether it is a baseline, which uses no evidence about the target language.
        revision: Raise it when `build` gives another result for the same inputs, so that cached mixtures are rebuilt.
        options: A dataclass with the method's own options; it validates them when it is created.
    """

    becomes: str
    evidence: str
    paper: str
    build: Callable[[Inputs], Mixture | Initialisation]
    without_translations: str = ""
    needs: tuple[InputKind, ...] = ()
    uses: tuple[InputKind, ...] = ()
    replaced_by: Mapping[InputKind, tuple[InputKind, ...]] = field(default_factory=dict)
    train_tokenizer: TokenizerTraining | None = None
    fresh_inner: bool = False
    unigram_prior: bool = False
    is_baseline: bool = False
    revision: int = 1
    options: type[DataclassInstance] | None = None

    def takes(self, kind: InputKind, *, beside: Collection[InputKind] = ()) -> bool:
        """Whether the method needs or uses an input if it also has the inputs `beside`."""
        replaced = any(other in beside for other in self.replaced_by.get(kind, ()))
        return kind in self.needs or (kind in self.uses and not replaced)

    def initialise(self, inputs: Inputs) -> Initialisation:
        """Call `build`, and return an `Initialisation` that keeps the source rows if the vocabulary is extended."""
        built = self.build(inputs)
        if not isinstance(built, Initialisation):
            built = Initialisation(built)
        return replace(built, mixture=inputs.keep_rows(built.mixture), precomputed=inputs.keep_added(built.precomputed))


METHODS: Registry[Method] = Registry("method")
"""All methods, by the name in `Transfer.method`."""
