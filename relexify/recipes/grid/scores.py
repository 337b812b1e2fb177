"""What the cells of a grid score before training; evidence is gathered once and searched once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.evaluation.data.columns import read_tagged
from relexify.evaluation.data.examples import read_examples
from relexify.evaluation.probing.probes import PairExample, TaggedWords, probe_pairs, probe_words
from relexify.evidence.evidence import Evidence
from relexify.grafting import check_roles, graft
from relexify.methods.registry import METHODS
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.fresh import fresh_twin
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.recipes.grid.plan import GridCell, GridSearch, Pairs, Tagged, label_of
from relexify.scoring import Score, language_model_scores
from relexify.systems.transfer.checks import check_transfer
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import method_inputs, needed_roles, target_tokenizer

__all__ = ["BITS", "NLI", "PERPLEXITY", "POS", "GridMaterial", "gather", "scored_cells"]

NLI, POS, BITS, PERPLEXITY = "NLI", "POS", "bits per byte", "perplexity"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GridMaterial:
    """What is read before the work begins: evidence, text to score on, and examples, training first."""

    evidence: Evidence
    held_out: str
    nli: tuple[Sequence[PairExample], Sequence[PairExample]] | None
    pos: tuple[Sequence[TaggedWords], Sequence[TaggedWords]] | None


def gather(search: GridSearch, recipe: Transfer) -> GridMaterial:
    """Read texts and examples.

    Raises:
        InputError: Something is missing, unreadable or empty.
    """
    evidence = check_transfer(recipe)
    limit, nli, pos = search.training_examples, search.nli, search.pos
    return GridMaterial(
        evidence,
        evidence.held_out.sample_bytes(recipe.score_bytes) if recipe.score else "",
        None if nli is None else (_pairs(nli[0])[:limit], _pairs(nli[1])),
        None if pos is None else (_tagged(pos[0])[:limit], _tagged(pos[1])),
    )


def scored_cells(
    search: GridSearch, recipe: Transfer, material: GridMaterial, pending: Sequence[GridCell]
) -> Iterator[GridCell]:
    """The pending cells with their scores, one by one; nothing is loaded where there are none."""
    if not pending:
        return
    model, old = load_model(recipe.model), load_tokenizer(recipe.model)
    new = target_tokenizer(recipe, old, material.evidence)
    check_roles(old, new, needed_roles(model))
    material = _without_language_modelling(material, model) if architecture_of(model) == "headless" else material
    inputs = method_inputs(recipe, material.evidence, model, old, new)
    # The nearest k are the first k of the nearest K, so the largest number of neighbours comes first.
    for cell in sorted(pending, key=lambda cell: -(cell.neighbours or 0)):
        method = METHODS[cell.initialisation]
        if cell.neighbours is not None and cell.temperature is not None:
            built = method.initialise(inputs.at(cell.neighbours, cell.temperature))
        else:
            built = method.initialise(replace(inputs, overrides={}))
        body = fresh_twin(model, seed=recipe.seed) if method.fresh_inner else model
        result = graft(
            body,
            new,
            built.mixture,
            precomputed=built.precomputed,
            seed=recipe.seed,
            pad_to_multiple_of=recipe.pad_to_multiple_of,
        )
        scores = _scores(search, result.model.to(recipe.device), new, material)
        logger.info("%s: %s", label_of(cell), ", ".join(f"{name} {score.value:.4g}" for name, score in scores.items()))
        yield replace(cell, scores=scores)


def _pairs(source: Pairs) -> Sequence[PairExample]:
    if not isinstance(source, str | Path):
        return source
    examples = read_examples(source)
    if any(example.second is None for example in examples):
        raise InputError(f"{source} has texts without a second one: give premises and hypotheses")
    return [(example.first, example.second or "", example.label) for example in examples]


def _tagged(source: Tagged) -> Sequence[TaggedWords]:
    if not isinstance(source, str | Path):
        return source
    return [(sentence.words, sentence.tags) for sentence in read_tagged(source)]


def _without_language_modelling(material: GridMaterial, model: Any) -> GridMaterial:
    if not (material.nli or material.pos):
        raise InputError(f"{type(model).__name__} has no language-modelling head: give NLI or POS files to score on")
    logger.warning("%s has no language-modelling head, so its perplexity is not scored", type(model).__name__)
    return replace(material, held_out="")


def _scores(search: GridSearch, model: Any, tokenizer: Any, material: GridMaterial) -> dict[str, Score]:
    """Everything that can be measured before training."""
    scores: dict[str, Score] = {}
    options: dict[str, Any] = {"penalty": search.penalty, "length": search.length, "batch": search.batch}
    if material.nli is not None:
        scores[NLI] = probe_pairs(model, tokenizer, *material.nli, **options)
    if material.pos is not None:
        scores[POS] = probe_words(model, tokenizer, *material.pos, **options)
    if material.held_out:
        lines = material.held_out.splitlines()
        scores[BITS], scores[PERPLEXITY] = language_model_scores(model, tokenizer, lines)
    return scores
