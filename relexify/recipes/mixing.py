"""From evidence to the mixture of a transfer."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from relexify.errors import EvidenceError
from relexify.lexicon import BilingualLexicon
from relexify.methods import (
    blended,
    fvt,
    random,
    shuffle,
    special,
    subword_vectors,
    translations,
    vector_neighbours,
)
from relexify.mixture import Mixture, first_of
from relexify.progress import Progress, silent
from relexify.recipes.evidence import TokensInSpace, choose_lexicon, embedding_vectors, gather_vectors
from relexify.recipes.recipe import Transfer
from relexify.text import Corpus
from relexify.tokens import SubwordVectors
from relexify.vectors import Rotation, WordVectors, align

__all__ = ["mix", "subwords_in_one_space"]

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
    if recipe.method in ("random", "fullrand"):
        return replace(random(old, new), method=recipe.method), None
    if recipe.method == "trelm":  # its rows are no mixture: `trelm_rows` has them
        return replace(special(old, new, overrides=recipe.overrides), method="trelm"), None
    if recipe.method == "shuffle":
        return shuffle(old, new, seed=recipe.seed), None
    if recipe.method == "fvt":
        return fvt(old, new, overrides=recipe.overrides), None
    if recipe.method == "blend":
        return _blend(recipe, model, old, new, corpus, progress)
    vectors, rotation = _from_vectors(recipe, model, old, new, corpus, progress)
    steering = special(old, new, overrides=recipe.overrides)
    return first_of(steering, vectors, method=recipe.method), rotation


def _blend(
    recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus, progress: Progress
) -> tuple[Mixture, Rotation | None]:
    """All the evidence there is, and old pieces alone where there is none."""
    evidence, rotation = [], None
    try:
        vectors, rotation = _from_vectors(recipe, model, old, new, corpus, progress)
        evidence.append(vectors)
    except EvidenceError as error:
        logger.warning("the vectors tell nothing: %s", error)
    if (lexicon := _lexicon(recipe)) is not None:
        evidence.append(translations(old, new, lexicon))
    if not evidence:
        logger.warning("going on with old pieces alone")
        return fvt(old, new, overrides=recipe.overrides), None
    return blended(old, new, *evidence, overrides=recipe.overrides), rotation


def _from_vectors(
    recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus, progress: Progress
) -> tuple[Mixture, Rotation]:
    """Neighbours in aligned vectors."""
    source, target, rotation = subwords_in_one_space(recipe, model, old, new, corpus, progress=progress)
    mixture = vector_neighbours(
        source,
        target,
        neighbours=recipe.neighbours,
        temperature=recipe.temperature,
        device=recipe.device,
        progress=progress,
    )
    return mixture, rotation


def subwords_in_one_space(
    recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus, *, progress: Progress = silent
) -> tuple[SubwordVectors, SubwordVectors, Rotation]:
    """Vectors of old and new tokens, and the alignment that brought them together; arguments as for `mix`."""
    text = None if recipe.source_corpus is None else Corpus.open(recipe.source_corpus)
    source, target = gather_vectors(
        recipe.source_vectors or text,
        recipe.target_vectors or corpus,
        replace(recipe.vectors, seed=recipe.seed),
        progress=progress,
    )
    tokens_in_space: TokensInSpace | None = None
    if source is None:
        source, tokens_in_space = _vectors_of_the_model(recipe, model, old)
    if recipe.rotation is not None:
        rotation = Rotation.load(recipe.rotation)
    else:
        rotation = _aligned(recipe, source, target, progress)
    source, target = rotation.apply(source, target)
    return (
        tokens_in_space(source) if tokens_in_space else _subwords(recipe, old, source, progress),
        _subwords(recipe, new, target, progress),
        rotation,
    )


def _aligned(recipe: Transfer, source: WordVectors, target: WordVectors, progress: Progress) -> Rotation:
    """By the dictionary, by identical words, or by the shapes of the spaces, as the recipe says."""
    given = _lexicon(recipe)
    if recipe.alignment == "unsupervised":
        from relexify.adversarial import align_unsupervised

        return align_unsupervised(
            *(source, target), lexicon=given, reduce=True, seed=recipe.seed, device=recipe.device, progress=progress
        )
    lexicon = choose_lexicon(given if recipe.alignment == "dictionary" else None, source, target)
    return align(source, target, lexicon, reduce=True, seed=recipe.seed, progress=progress)


def _vectors_of_the_model(recipe: Transfer, model: Any, old: Any) -> tuple[WordVectors, TokensInSpace]:
    logger.warning(
        "neither vectors nor text of the model's language given: its own embedding stands in for word vectors; "
        "--source-corpus or --source-vectors usually do better"
    )
    lexicon = _lexicon(recipe)
    words = [word for word in lexicon.source_words if " " not in word] if lexicon else []
    return embedding_vectors(old, model.get_input_embeddings().weight.detach().float().cpu().numpy(), words)


def _lexicon(recipe: Transfer) -> BilingualLexicon | None:
    if recipe.dictionary is None or isinstance(recipe.dictionary, BilingualLexicon):
        return recipe.dictionary
    return BilingualLexicon.load(recipe.dictionary, swapped=recipe.dictionary_swapped)


def _subwords(recipe: Transfer, tokenizer: Any, vectors: WordVectors, progress: Progress) -> SubwordVectors:
    return subword_vectors(tokenizer, vectors, "words" if recipe.method == "wechsel-tfr" else "auto", progress=progress)
