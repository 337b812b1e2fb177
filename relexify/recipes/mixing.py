"""From evidence to the mixture of a transfer."""

from __future__ import annotations

import logging
from typing import Any

from relexify.errors import EvidenceError
from relexify.lexicon import BilingualLexicon
from relexify.methods import blended, fvt, random, shuffle, special, subword_vectors, vector_neighbours
from relexify.mixture import Mixture, first_of
from relexify.progress import Progress, silent
from relexify.recipes.evidence import TokensInSpace, choose_lexicon, embedding_vectors, gather_vectors
from relexify.recipes.recipe import Transfer
from relexify.text import Corpus
from relexify.tokens import SubwordVectors
from relexify.vectors import Rotation, WordVectors, align

__all__ = ["mix"]

logger = logging.getLogger(__name__)


def mix(
    recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus, *, progress: Progress = silent
) -> tuple[Mixture, Rotation | None]:
    """The mixture of the chosen method, and the alignment it rests on.

    Args:
        recipe: What is wanted.
        model: The source model.
        old: Its tokenizer.
        new: The new tokenizer.
        corpus: Text of the new language to learn from.
        progress: Told about everything that takes long.
    """
    if recipe.method == "random":
        return random(old, new), None
    if recipe.method == "shuffle":
        return shuffle(old, new, seed=recipe.seed), None
    steering = special(old, new, overrides=recipe.overrides)
    if recipe.method == "fvt":
        return first_of(steering, fvt(old, new), method="fvt"), None
    try:
        vectors, rotation = _from_vectors(recipe, model, old, new, corpus, progress)
    except EvidenceError as error:
        if recipe.method != "blend":
            raise
        logger.warning("the vectors tell nothing (%s); going on with old pieces alone", error)
        return first_of(steering, fvt(old, new), method="fvt"), None
    if recipe.method == "blend":
        return blended(old, new, vectors, share=recipe.share, overrides=recipe.overrides), rotation
    return first_of(steering, vectors, method=recipe.method), rotation


def _from_vectors(
    recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus, progress: Progress
) -> tuple[Mixture, Rotation]:
    """Neighbours in aligned vectors."""
    text = None if recipe.source_corpus is None else Corpus.open(recipe.source_corpus)
    source, target = gather_vectors(
        recipe.source_vectors or text, recipe.target_vectors or corpus, recipe.vectors, progress=progress
    )
    tokens_in_space: TokensInSpace | None = None
    if source is None:
        source, tokens_in_space = _vectors_of_the_model(recipe, model, old)
    lexicon = choose_lexicon(recipe.dictionary, source, target, swapped=recipe.dictionary_swapped)
    rotation = align(source, target, lexicon, reduce=True, seed=recipe.seed, progress=progress)
    source, target = rotation.apply(source, target)
    mixture = vector_neighbours(
        tokens_in_space(source) if tokens_in_space else _subwords(recipe, old, source, progress),
        _subwords(recipe, new, target, progress),
        neighbours=recipe.neighbours,
        temperature=recipe.temperature,
        device=recipe.device,
        progress=progress,
    )
    return mixture, rotation


def _vectors_of_the_model(recipe: Transfer, model: Any, old: Any) -> tuple[WordVectors, TokensInSpace]:
    logger.warning(
        "neither vectors nor text of the model's language given: its own embedding stands in for word vectors; "
        "--source-corpus or --source-vectors usually do better"
    )
    lexicon = recipe.dictionary
    if lexicon is not None and not isinstance(lexicon, BilingualLexicon):
        lexicon = BilingualLexicon.load(lexicon, swapped=recipe.dictionary_swapped)
    words = [word for word in lexicon.source_words if " " not in word] if lexicon else []
    return embedding_vectors(old, model.get_input_embeddings().weight.detach().float().cpu().numpy(), words)


def _subwords(recipe: Transfer, tokenizer: Any, vectors: WordVectors, progress: Progress) -> SubwordVectors:
    by_words = recipe.method == "wechsel-tfr" or vectors.ngrams is None
    return subword_vectors(tokenizer, vectors, "words" if by_words else "ngrams", progress=progress)
