"""From evidence to the mixture of a transfer."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from relexify.errors import EvidenceError
from relexify.evidence.alignment import Rotation, align
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import SubwordVectors, WordVectors, subwords_from_words
from relexify.methods import (
    aligned_tokens,
    blended,
    focus,
    fvt,
    ramen,
    ramen_random,
    ramen_vectors,
    random,
    shuffle,
    special,
    subword_vectors,
    trans_tokens,
    translations,
    vector_neighbours,
)
from relexify.mixture import Fallback, Mixture, first_of
from relexify.neighbours import normalise_rows
from relexify.systems.transfer.aligned_text import count_aligned_tokens
from relexify.systems.transfer.evidence import (
    TokensInSpace,
    choose_lexicon,
    embedding_vectors,
    gather_vectors,
    identical_words,
    token_vectors,
)
from relexify.systems.transfer.options import METHODS, Transfer
from relexify.text import Corpus

__all__ = ["mix", "subwords_in_one_space", "told_evidence"]

RAMEN_WORDS = 50_000
"""Words of each language that RAMEN makes its subword vectors of (section 3.2)."""

logger = logging.getLogger(__name__)


def mix(recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus) -> tuple[Mixture, Rotation | None]:
    """The mixture of the chosen method, and the alignment it rests on.

    Args:
        recipe: What is wanted.
        model: The source model.
        old: Its tokenizer.
        new: The new tokenizer.
        corpus: Text of the new language to learn from.
    """
    if recipe.method == "trelm":  # its rows are no mixture: `trelm_rows` has them
        steering = special(old, new, overrides=recipe.overrides)
        return replace(steering, method="trelm", fallback=Fallback.FRESH), None
    if not METHODS[recipe.method].uses_vectors:
        return _without_word_vectors(recipe, old, new, corpus), None
    if recipe.method == "blend":
        return _blend(recipe, model, old, new, corpus)
    if recipe.method == "ramen-vectors":
        source, target, rotation = subwords_in_one_space(recipe, model, old, new, corpus)
        mixture = ramen_vectors(source, target, overrides=recipe.overrides, device=recipe.device)
        return mixture, rotation
    vectors, rotation = _from_vectors(recipe, model, old, new, corpus)
    steering = special(old, new, overrides=recipe.overrides)
    return first_of(steering, vectors, method=recipe.method), rotation


def _without_word_vectors(recipe: Transfer, old: Any, new: Any, corpus: Corpus) -> Mixture:
    """The methods that look at tokenizers, at text or at parallel text alone."""
    match recipe.method:
        case "shuffle":
            return shuffle(old, new, seed=recipe.seed)
        case "ramen-random":
            return ramen_random(old, new)
        case "fvt":
            return fvt(old, new, overrides=recipe.overrides)
        case "focus":
            vectors = token_vectors(corpus, new, replace(recipe.vectors, seed=recipe.seed))
            return focus(old, vectors, overrides=recipe.overrides, device=recipe.device)
        case "ramen" | "trans-tokens":
            counts = count_aligned_tokens(recipe, old, new)
            make = ramen if recipe.method == "ramen" else trans_tokens
            return make(old, new, counts, **_counting(recipe), overrides=recipe.overrides)
    return replace(random(old, new), method=recipe.method)


def _blend(recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus) -> tuple[Mixture, Rotation | None]:
    """All the evidence there is, and old pieces alone where there is none."""
    evidence, rotation = [], None
    try:
        vectors, rotation = _from_vectors(recipe, model, old, new, corpus)
        evidence.append(vectors)
    except EvidenceError as error:
        logger.warning("the vectors tell nothing: %s", error)
    evidence.extend(told_evidence(recipe, old, new))
    if not evidence:
        logger.warning("going on with old pieces alone")
        return fvt(old, new, overrides=recipe.overrides), None
    return blended(old, new, *evidence, overrides=recipe.overrides), rotation


def told_evidence(recipe: Transfer, old: Any, new: Any) -> list[Mixture]:
    """What a dictionary and parallel text tell, each where there is one; arguments as for `mix`."""
    evidence = []
    if (lexicon := _lexicon(recipe)) is not None:
        evidence.append(translations(old, new, lexicon))
    if recipe.bitext is not None:
        counts = count_aligned_tokens(recipe, old, new)
        try:
            evidence.append(aligned_tokens(old, new, counts, **_counting(recipe)))
        except EvidenceError as error:
            logger.warning("the parallel text tells nothing: %s", error)
    return evidence


def _from_vectors(recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus) -> tuple[Mixture, Rotation]:
    """Neighbours in aligned vectors."""
    source, target, rotation = subwords_in_one_space(recipe, model, old, new, corpus)
    mixture = vector_neighbours(
        source, target, neighbours=recipe.neighbours, temperature=recipe.temperature, device=recipe.device
    )
    return mixture, rotation


def subwords_in_one_space(
    recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus
) -> tuple[SubwordVectors, SubwordVectors, Rotation]:
    """Vectors of old and new tokens, and the alignment that brought them together; arguments as for `mix`."""
    text = None if recipe.source_corpus is None else Corpus.open(recipe.source_corpus)
    source, target = gather_vectors(
        recipe.source_vectors or text, recipe.target_vectors or corpus, replace(recipe.vectors, seed=recipe.seed)
    )
    tokens_in_space: TokensInSpace | None = None
    if source is None:
        source, tokens_in_space = _vectors_of_the_model(recipe, model, old)
    rotation = Rotation.load(recipe.rotation) if recipe.rotation is not None else _aligned(recipe, source, target)
    source, target = rotation.apply(source, target)
    tokens = tokens_in_space(source) if tokens_in_space else _subwords(recipe, old, source)
    if tokens_in_space and recipe.method == "ramen-vectors":  # dot products need one scale on both sides
        tokens = replace(tokens, matrix=normalise_rows(tokens.matrix))
    return tokens, _subwords(recipe, new, target), rotation


def _aligned(recipe: Transfer, source: WordVectors, target: WordVectors) -> Rotation:
    """By the dictionary, by identical words, or by the shapes of the spaces, as the recipe says."""
    given = _lexicon(recipe)
    if recipe.aligned_by == "unsupervised":
        from relexify.evidence.alignment.unsupervised import align_unsupervised

        return align_unsupervised(*(source, target), lexicon=given, reduce=True, seed=recipe.seed, device=recipe.device)
    known = METHODS[recipe.method].uses_dictionary and recipe.aligned_by == "dictionary"
    lexicon = choose_lexicon(given, source, target) if known else identical_words(source, target)
    return align(source, target, lexicon, reduce=True, seed=recipe.seed)


def _vectors_of_the_model(recipe: Transfer, model: Any, old: Any) -> tuple[WordVectors, TokensInSpace]:
    logger.warning(
        "neither vectors nor text of the model's language given: its own embedding stands in for word vectors; "
        "--source-corpus or --source-vectors usually do better"
    )
    lexicon = _lexicon(recipe)
    words = [word for word in lexicon.source_words if " " not in word] if lexicon else []
    return embedding_vectors(old, model.get_input_embeddings().weight.detach().float().cpu().numpy(), words)


def _counting(recipe: Transfer) -> dict[str, float]:
    return {"smoothing": recipe.aligning.smoothing, "min_count": recipe.aligning.min_count}


def _lexicon(recipe: Transfer) -> BilingualLexicon | None:
    if recipe.dictionary is None or isinstance(recipe.dictionary, BilingualLexicon):
        return recipe.dictionary
    return BilingualLexicon.load(recipe.dictionary, swapped=recipe.dictionary_swapped)


def _subwords(recipe: Transfer, tokenizer: Any, vectors: WordVectors) -> SubwordVectors:
    if recipe.method == "ramen-vectors":
        return subwords_from_words(tokenizer, vectors, top_words=RAMEN_WORDS, unit_length=True)
    return subword_vectors(tokenizer, vectors, "words" if recipe.method == "wechsel-tfr" else "auto")
