"""Which k and τ suit a language: every cell of a grid grafted and scored before training (WECHSEL, Appendix A).

Evidence is gathered once and searched once. What a cell scored is kept in the output folder as soon as it is known, so
that a killed grid goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from relexify.artifacts import write_file
from relexify.errors import InputError
from relexify.evaluation.columns import read_columns
from relexify.evaluation.pairs import read_examples
from relexify.evaluation.probes import PairExample, TaggedWords, probe_pairs, probe_words
from relexify.evaluation.treebank import read_treebank
from relexify.grafting import check_roles, fresh_twin, graft, load_model, load_tokenizer
from relexify.methods import blended, special
from relexify.methods.grid import neighbour_grid
from relexify.mixture import Mixture, first_of
from relexify.progress import Progress, silent
from relexify.recipes.checks import check_recipe, open_texts, with_dictionary
from relexify.recipes.mixing import mix, subwords_in_one_space, told_evidence
from relexify.recipes.recipe import METHODS, Transfer
from relexify.recipes.running import transfer_identity
from relexify.recipes.steps import step_name
from relexify.recipes.transfer import _needed_roles, _tokenizer
from relexify.reports import markdown
from relexify.scoring import Score, language_model_scores, model_kind
from relexify.text import Corpus

__all__ = ["GridCell", "GridResult", "GridSearch", "best_cell", "grid_rows", "run_grid"]

NLI, POS, BITS, PERPLEXITY = "NLI", "POS", "bits per byte", "perplexity"
_DECIDING = (NLI, POS, BITS)  # perplexity says of one tokenizer what bits per byte say
_NOTHING = "–"

Pairs = str | Path | Sequence[PairExample]
Tagged = str | Path | Sequence[TaggedWords]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GridSearch:
    """Everything that a grid needs.

    Attributes:
        transfer: The model, the text and the evidence; its method is one that uses vectors, its `neighbours` and
            `temperature` do not matter. Its `held_out` and `score_bytes` are what language modelling is scored on,
            unless its `score` is off, and its `output` is the folder of the grid.
        neighbours: Values of k.
        temperatures: Values of τ. A single neighbour has all the weight at each of them, so k = 1 is tried at the last.
        nli: Files of premise, hypothesis and label to learn a probe from and to test it on, or the examples.
        pos: The same for words and tags: `.conllu`, or a word and its tag a line.
        baselines: Methods without vectors that are scored beside the cells.
        training_examples: Learn the probes from the first so many examples or sentences; from all where not given.
        penalty: Of the probes' large weights.
        length: Pieces that the model reads at once for a probe.
        batch: Texts at a time for a probe.
    """

    transfer: Transfer
    neighbours: Sequence[int] = (1, 10, 50)
    temperatures: Sequence[float] = (0.1, 1.0)
    nli: tuple[Pairs, Pairs] | None = None
    pos: tuple[Tagged, Tagged] | None = None
    baselines: Sequence[str] = ("random", "fullrand")
    training_examples: int | None = None
    penalty: float = 1.0
    length: int = 512
    batch: int = 32


@dataclass(frozen=True)
class GridCell:
    """One initialisation and what it is worth before training.

    Attributes:
        initialisation: The method.
        neighbours: k; None for a baseline.
        temperature: τ; None for a baseline.
        scores: What was measured, by `"NLI"`, `"POS"`, `"bits per byte"` and `"perplexity"`.
    """

    initialisation: str
    neighbours: int | None
    temperature: float | None
    scores: Mapping[str, Score] = field(default_factory=dict)


@dataclass(frozen=True)
class GridResult:
    """What a grid found.

    Attributes:
        cells: In the order of the grid, baselines last.
        best: The cell to take, as `best_cell` says.
        output: Where everything lies.
    """

    cells: tuple[GridCell, ...]
    best: GridCell
    output: Path


def run_grid(search: GridSearch, *, progress: Progress = silent) -> GridResult:
    """Graft and score every cell of a grid, and the baselines.

    Args:
        search: What to try and what to score it on.
        progress: Told about cells, and about everything in them that takes long.

    Raises:
        InputError: The grid is impossible, or the output folder holds cells of another one.
    """
    planned = _check_grid(search)
    recipe = with_dictionary(search.transfer)
    material = _gather(search, recipe)
    names = {_label(cell): _name(search, recipe, material, cell) for cell in planned}
    cells = {_label(cell): _kept(recipe, cell, names[_label(cell)]) for cell in planned}
    with progress("trying initialisations", len(cells)) as advance:
        pending = [cell for cell in cells.values() if not cell.scores]
        advance(len(cells) - len(pending))
        for cell in _scored(search, recipe, material, pending, progress):
            _keep(recipe, cell, names[_label(cell)])
            cells[_label(cell)] = cell
            advance(1)
    result = GridResult(tuple(cells.values()), best_cell(list(cells.values())), Path(recipe.output))
    header, *rows = grid_rows(result)
    write_file(result.output / "grid.md", markdown(header, rows))
    return result


def best_cell(cells: Sequence[GridCell]) -> GridCell:
    """The cell with the best mean rank over NLI, POS and bits per byte; of equals the first. No baseline is best."""
    grid = [cell for cell in cells if cell.neighbours is not None]
    names = [name for name in _DECIDING if all(name in cell.scores for cell in grid)]
    if not grid or not names:
        raise InputError("no cell of the grid has a score, so none is the best: give something to score on")

    def ranks(cell: GridCell) -> int:
        return sum(_goodness(other, name) > _goodness(cell, name) for name in names for other in grid)

    return min(grid, key=ranks)


def grid_rows(result: GridResult) -> list[list[str]]:
    """The cells as rows in the shape of the paper's Table 8, the header first: accuracies in percent, LM a perplexity.

    Bits per byte come last, since perplexities of different tokenizers cannot be compared.
    """
    columns = {NLI: "NLI", POS: "POS", PERPLEXITY: "LM", BITS: BITS}
    measured = [name for name in columns if any(name in cell.scores for cell in result.cells)]
    header = ["model", "k", "τ", *(columns[name] for name in measured)]
    rows = [
        [
            f"{cell.initialisation}@0",
            _NOTHING if cell.neighbours is None else str(cell.neighbours),
            _NOTHING if cell.temperature is None else f"{cell.temperature:g}",
            *(_score_text(name, cell.scores.get(name)) for name in measured),
        ]
        for cell in result.cells
    ]
    return [header, *rows]


def _check_grid(search: GridSearch) -> list[GridCell]:
    """Refuse impossible grids; the cells to score, baselines last."""
    recipe = search.transfer
    with_neighbours = [name for name, method in METHODS.items() if method.uses_neighbours]
    if recipe.method not in with_neighbours:
        choices = ", ".join(with_neighbours)
        raise InputError(f"the method {recipe.method} has neither neighbours nor temperature: choose one of {choices}")
    for name in search.baselines:
        if name not in METHODS or METHODS[name].uses_vectors or METHODS[name].uses_bitext:
            plain = [name for name, method in METHODS.items() if not (method.uses_vectors or method.uses_bitext)]
            choices = ", ".join(plain)
            raise InputError(f"{name!r} is no baseline: choose from {choices}")
    if not search.neighbours or not search.temperatures:
        raise InputError("a grid needs at least one number of neighbours and one temperature")
    if not (recipe.score or search.nli or search.pos):
        raise InputError("there is nothing to score a grid on: give NLI or POS files, or score language modelling")
    if search.training_examples is not None and search.training_examples < 1:
        raise InputError(f"training_examples = {search.training_examples} is not possible: give 1 or more")
    for count, temperature in product(search.neighbours, search.temperatures):
        check_recipe(replace(recipe, neighbours=count, temperature=temperature, output=_folder(recipe) / "new"))
    cells = [
        GridCell(recipe.method, count, temperature)
        for count in dict.fromkeys(search.neighbours)
        for temperature in dict.fromkeys(search.temperatures[-1:] if count == 1 else search.temperatures)
    ]
    return [*cells, *(GridCell(name, None, None) for name in dict.fromkeys(search.baselines))]


@dataclass(frozen=True)
class _Material:
    """What is read before the work begins: text to learn from and to score on, and examples, training first."""

    corpus: Corpus
    held_out: str
    nli: tuple[Sequence[PairExample], Sequence[PairExample]] | None
    pos: tuple[Sequence[TaggedWords], Sequence[TaggedWords]] | None


def _gather(search: GridSearch, recipe: Transfer) -> _Material:
    corpus, held_out = open_texts(recipe)
    limit, nli, pos = search.training_examples, search.nli, search.pos
    return _Material(
        corpus,
        held_out.sample_bytes(recipe.score_bytes) if recipe.score else "",
        None if nli is None else (_pairs(nli[0])[:limit], _pairs(nli[1])),
        None if pos is None else (_tagged(pos[0])[:limit], _tagged(pos[1])),
    )


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
    if Path(source).suffix == ".conllu":
        return [(sentence.words, sentence.upos) for sentence in read_treebank(source)]
    return [(sentence.words, sentence.tags) for sentence in read_columns(source)]


def _scored(
    search: GridSearch, recipe: Transfer, material: _Material, pending: Sequence[GridCell], progress: Progress
) -> Iterator[GridCell]:
    """The pending cells with their scores, one by one; nothing is loaded where there are none."""
    if not pending:
        return
    model, old = load_model(recipe.model), load_tokenizer(recipe.model)
    new = _tokenizer(recipe, old, material.corpus, progress)
    check_roles(old, new, _needed_roles(model))
    material = _without_language_modelling(material, model) if model_kind(model) == "headless" else material
    for cell, mixture in _mixtures(recipe, model, old, new, material.corpus, pending, progress):
        body = fresh_twin(model, seed=recipe.seed) if cell.initialisation == "fullrand" else model
        result = graft(body, new, mixture, seed=recipe.seed, pad_to_multiple_of=recipe.pad_to_multiple_of)
        scores = _scores(search, result.model.to(recipe.device), new, material, progress)
        logger.info("%s: %s", _label(cell), ", ".join(f"{name} {score.value:.4g}" for name, score in scores.items()))
        yield replace(cell, scores=scores)


def _without_language_modelling(material: _Material, model: Any) -> _Material:
    if not (material.nli or material.pos):
        raise InputError(f"{type(model).__name__} has no language-modelling head: give NLI or POS files to score on")
    logger.warning("%s has no language-modelling head, so its perplexity is not scored", type(model).__name__)
    return replace(material, held_out="")


def _mixtures(
    recipe: Transfer,
    model: Any,
    old: Any,
    new: Any,
    corpus: Corpus,
    pending: Sequence[GridCell],
    progress: Progress,
) -> Iterator[tuple[GridCell, Mixture]]:
    """The mixture of every pending cell; those with neighbours share their evidence and one search."""
    grid = {(cell.neighbours, cell.temperature): cell for cell in pending if cell.neighbours and cell.temperature}
    if grid:
        source, target, _ = subwords_in_one_space(recipe, model, old, new, corpus, progress=progress)
        found = neighbour_grid(
            source,
            target,
            neighbours=sorted({count for count, _ in grid}),
            temperatures=sorted({temperature for _, temperature in grid}),
            device=recipe.device,
            progress=progress,
        )
        complete = _completion(recipe, old, new, progress)
        for key, cell in grid.items():
            yield cell, complete(found[key])
    for cell in pending:
        if cell.neighbours is None:
            baseline = replace(recipe, method=cell.initialisation, overrides={})
            yield cell, mix(baseline, model, old, new, corpus)[0]


def _completion(recipe: Transfer, old: Any, new: Any, progress: Progress) -> Callable[[Mixture], Mixture]:
    """What a method adds to what the vectors say."""
    if recipe.method == "blend":
        told = told_evidence(recipe, old, new, progress=progress)
        return lambda vectors: blended(old, new, vectors, *told, overrides=recipe.overrides)
    steering = special(old, new, overrides=recipe.overrides)
    return lambda vectors: first_of(steering, vectors, method=recipe.method)


def _scores(
    search: GridSearch, model: Any, tokenizer: Any, material: _Material, progress: Progress
) -> dict[str, Score]:
    """Everything that can be measured before training."""
    scores: dict[str, Score] = {}
    options: dict[str, Any] = {
        "penalty": search.penalty,
        "length": search.length,
        "batch": search.batch,
        "progress": progress,
    }
    if material.nli is not None:
        scores[NLI] = probe_pairs(model, tokenizer, *material.nli, **options)
    if material.pos is not None:
        scores[POS] = probe_words(model, tokenizer, *material.pos, **options)
    if material.held_out:
        lines = material.held_out.splitlines()
        scores[BITS], scores[PERPLEXITY] = language_model_scores(model, tokenizer, lines, progress=progress)
    return scores


def _folder(recipe: Transfer) -> Path:
    return Path(recipe.output) / "cells"


def _label(cell: GridCell) -> str:
    return cell.initialisation if cell.neighbours is None else f"k{cell.neighbours}-tau{cell.temperature:.12g}"


def _name(search: GridSearch, recipe: Transfer, material: _Material, cell: GridCell) -> str:
    """A name that changes with everything that a cell's scores depend on, by content."""
    tried = replace(
        recipe,
        method=cell.initialisation,
        neighbours=cell.neighbours or 1,
        temperature=cell.temperature or 1.0,
        held_out=None,
    )
    return step_name(
        "grid cell",
        graft=transfer_identity(tried),
        corpus=material.corpus.fingerprint(),
        held_out=material.held_out,
        nli=_fingerprint(material.nli),
        pos=_fingerprint(material.pos),
        probe=[search.penalty, search.length],
    )


def _fingerprint(sides: tuple[Sequence[Any], Sequence[Any]] | None) -> str | None:
    if sides is None:
        return None
    digest = hashlib.sha256()
    for side in sides:
        for first, second, *label in side:
            texts = [list(part) if not isinstance(part, str) else part for part in (first, second)]
            digest.update(json.dumps([texts, label], default=str).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _keep(recipe: Transfer, cell: GridCell, name: str) -> None:
    path = _folder(recipe) / f"{_label(cell)}.json"
    write_file(path, json.dumps({"name": name, **asdict(cell)}, indent=1) + "\n")


def _kept(recipe: Transfer, cell: GridCell, name: str) -> GridCell:
    """The cell with the scores of an earlier run, where there are any."""
    path = _folder(recipe) / f"{_label(cell)}.json"
    if not path.exists():
        return cell
    try:
        notes = json.loads(path.read_text())
        scores = {key: Score(**score) for key, score in notes["scores"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning("%s is damaged, and scored anew (%r)", path, error)
        return cell
    if notes.get("name") == name:
        return replace(cell, scores=scores)
    if not recipe.overwrite:
        raise InputError(f"{path} belongs to another grid: give another output, or pass --overwrite to do it anew")
    return cell


def _goodness(cell: GridCell, name: str) -> float:
    """The value of a score, turned so that more is better; what is no number is worst."""
    score = cell.scores[name]
    return -math.inf if math.isnan(score.value) else score.value if score.higher_is_better else -score.value


def _score_text(name: str, score: Score | None) -> str:
    if score is None:
        return _NOTHING
    if name in (NLI, POS):
        return f"{100 * score.value:.1f}"
    if name == BITS:
        return f"{score.value:.3f}"
    if not 10_000 <= score.value < math.inf:
        return f"{score.value:.1f}"
    mantissa, _, exponent = f"{score.value:.1e}".partition("e+")
    return f"{mantissa}e+{int(exponent)}"
