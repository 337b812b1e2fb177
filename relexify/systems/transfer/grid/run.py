"""Search a grid: which k and τ suit a language (WECHSEL, Appendix A).

Every cell is transferred and scored before training. Evidence is opened once and neighbours are searched once. The
scores of a cell are written as soon as they are known, so that an interrupted grid resumes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.device import resolve_device
from relexify.errors import InputError
from relexify.evaluation.data.columns import read_tagged
from relexify.evaluation.data.examples import read_examples
from relexify.evaluation.data.files import evenly_spaced
from relexify.evaluation.probing.probes import PairExample, TaggedWords, probe_pairs, probe_words
from relexify.evidence.evidence import Evidence
from relexify.grafting import check_roles, load_own_tokenizer
from relexify.markdown import markdown_table
from relexify.methods.registry import METHODS
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.loading import load_model
from relexify.progress import track
from relexify.scoring import Score, language_model_scores, report_sample_size, sample_size
from relexify.storage.files import write_file
from relexify.storage.fingerprint import fingerprint
from relexify.storage.json import read_result
from relexify.storage.revisions import GRID_REVISIONS, changed_revisions
from relexify.systems.transfer.checks import check_transfer, transfer_revisions
from relexify.systems.transfer.grid.cells import (
    BITS,
    NLI,
    PERPLEXITY,
    POS,
    GridCell,
    GridResult,
    GridSearch,
    Pairs,
    Tagged,
    best_cell,
    grid_rows,
    plan_cells,
)
from relexify.systems.transfer.initialisation import graft_initialisation, method_inputs
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.prior import add_prior, has_prior, prior_text
from relexify.systems.transfer.tokenizer.target import needed_roles, target_tokenizer

__all__ = ["run_grid"]

logger = logging.getLogger(__name__)


def run_grid(search: GridSearch) -> GridResult:
    """Transfer and score every cell of a grid, and the baselines.

    Args:
        search: What to try and what to score it on.

    Raises:
        InputError: The grid is impossible, or the output folder holds cells of another one.
        VocabularyError: The tokenizer does not belong to the model.
    """
    planned = plan_cells(search)
    options = replace(search.transfer, device=resolve_device(search.transfer.device))
    search = replace(search, transfer=options)
    data = _open_data(search)
    fingerprints = {cell.label: _cell_fingerprint(search, data, cell) for cell in planned}
    cells = {cell.label: _read_cell(options, cell, fingerprints[cell.label]) for cell in planned}
    pending = [cell for cell in cells.values() if not cell.scores]
    with track("trying initialisations", len(cells)) as advance:
        advance(len(cells) - len(pending))
        for cell in _score_cells(search, data, pending):
            content = {"name": fingerprints[cell.label], "revisions": _cell_revisions(options, cell), **asdict(cell)}
            write_file(_cell_file(options, cell), json.dumps(content, indent=1) + "\n")
            cells[cell.label] = cell
            advance(1)
    result = GridResult(tuple(cells.values()), best_cell(list(cells.values())), Path(options.output))
    header, *rows = grid_rows(result)
    write_file(result.output / "grid.md", markdown_table(header, rows))
    return result


@dataclass(frozen=True)
class _Data:
    """Data that is read before the work begins: evidence, text to score on, and examples, those for training first."""

    evidence: Evidence
    held_out: str
    nli: tuple[Sequence[PairExample], Sequence[PairExample]] | None
    pos: tuple[Sequence[TaggedWords], Sequence[TaggedWords]] | None


def _open_data(search: GridSearch) -> _Data:
    """Read texts and examples.

    Raises:
        InputError: Something is missing, unreadable or empty.
    """
    evidence, options = check_transfer(search.transfer), search.transfer
    limit, nli, pos = search.training_examples, search.nli, search.pos
    held_out = ""
    if options.score:
        report_sample_size(evidence.held_out, options.held_out_bytes, options.device)
        held_out = evidence.held_out.sample_bytes(sample_size(options.held_out_bytes, options.device))
    return _Data(
        evidence=evidence,
        held_out=held_out,
        nli=None if nli is None else (evenly_spaced(_read_pairs(nli[0]), limit), _read_pairs(nli[1])),
        pos=None if pos is None else (evenly_spaced(_read_tagged_words(pos[0]), limit), _read_tagged_words(pos[1])),
    )


def _read_pairs(source: Pairs) -> Sequence[PairExample]:
    if not isinstance(source, str | Path):
        return source
    examples = read_examples(source)
    if any(example.second is None for example in examples):
        raise InputError(f"{source} has texts without a second one: give premises and hypotheses")
    return [(example.first, example.second or "", example.label) for example in examples]


def _read_tagged_words(source: Tagged) -> Sequence[TaggedWords]:
    if not isinstance(source, str | Path):
        return source
    return [(sentence.words, sentence.tags) for sentence in read_tagged(source)]


def _cell_file(options: Transfer, cell: GridCell) -> Path:
    return Path(options.output) / "cells" / f"{cell.label}.json"


def _cell_fingerprint(search: GridSearch, data: _Data, cell: GridCell) -> str:
    """Return the fingerprint of everything that the scores of a cell depend on, except the code."""
    options = replace(
        search.transfer,
        method=cell.initialisation,
        neighbours=cell.neighbours or 1,
        temperature=cell.temperature or 1.0,
        unigram_prior=has_prior(search.transfer),  # baselines have a prior if the grid's method has one
        held_out=None,  # only the part that is scored matters, see below
    )
    return fingerprint(
        {
            "transfer": options,
            "corpus": data.evidence.corpus,
            "held_out": data.held_out,
            "nli": data.nli,
            "pos": data.pos,
            "probe": [search.penalty, search.length],
        }
    )


def _read_cell(options: Transfer, cell: GridCell, own_fingerprint: str) -> GridCell:
    """Return the cell with the scores of an earlier run, if there are any.

    Raises:
        InputError: The scores are those of another grid, which may not be overwritten.
    """

    def parse(notes: Any) -> tuple[dict[str, Any], GridCell]:
        return notes, replace(cell, scores={key: Score(**score) for key, score in notes["scores"].items()})

    path = _cell_file(options, cell)
    found = read_result(path, parse, otherwise="scoring the cell again")
    if found is None:
        return cell
    notes, scored = found
    owner = "another grid"
    if notes.get("name") == own_fingerprint:
        owner = changed_revisions(notes.get("revisions"), _cell_revisions(options, cell))  # empty if nothing changed
    if owner and not options.overwrite:
        raise InputError(f"{path} belongs to {owner}: choose another output, or remove that file")
    return cell if owner else scored


def _cell_revisions(options: Transfer, cell: GridCell) -> dict[str, int]:
    """Return the revisions of the code that scores a cell."""
    return {**transfer_revisions(replace(options, method=cell.initialisation)), **GRID_REVISIONS}


def _score_cells(search: GridSearch, data: _Data, pending: Sequence[GridCell]) -> Iterator[GridCell]:
    """Yield the pending cells with their scores; nothing is loaded if there are none."""
    if not pending:
        return
    options = search.transfer
    source, model = load_own_tokenizer(options.model), load_model(options.model)
    target = target_tokenizer(options, source, data.evidence)
    check_roles(source, target, needed_roles(model))
    if architecture_of(model) == "headless":
        if not (data.nli or data.pos):
            raise InputError(
                f"{type(model).__name__} has no language-modelling head: give NLI or POS files to score on"
            )
        logger.warning("%s has no language-modelling head, so its perplexity is not scored", type(model).__name__)
        data = replace(data, held_out="")
    inputs = method_inputs(options, data.evidence, model, source, target)
    counted = prior_text(options, model, data.evidence)
    # The nearest k are the first k of the nearest K, so the largest number of neighbours comes first.
    for cell in sorted(pending, key=lambda cell: -(cell.neighbours or 0)):
        method = METHODS[cell.initialisation]
        if cell.neighbours is not None and cell.temperature is not None:
            built = method.initialise(inputs.at(cell.neighbours, cell.temperature))
        else:
            built = method.initialise(replace(inputs, overrides={}))
        result = graft_initialisation(options, cell.initialisation, model, target, built)
        add_prior(options, result, counted)
        scores = _score_model(search, result.model.to(options.device), target, data)
        logger.info("%s: %s", cell.label, ", ".join(f"{name} {score.value:.4g}" for name, score in scores.items()))
        yield replace(cell, scores=scores)


def _score_model(
    search: GridSearch, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, data: _Data
) -> dict[str, Score]:
    """Return everything that can be scored before training."""
    scores: dict[str, Score] = {}
    if data.nli is not None:
        scores[NLI] = probe_pairs(
            model, tokenizer, *data.nli, penalty=search.penalty, length=search.length, batch=search.batch
        )
    if data.pos is not None:
        scores[POS] = probe_words(
            model, tokenizer, *data.pos, penalty=search.penalty, length=search.length, batch=search.batch
        )
    if data.held_out:
        lines = data.held_out.split("\n")
        scores[BITS], scores[PERPLEXITY] = language_model_scores(model, tokenizer, lines)
    return scores
