"""A whole grid on the invented language, interrupted and resumed; its table and its best cell by hand."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from relexify.errors import InputError, VocabularyError
from relexify.evidence.vectors import VectorTraining
from relexify.progress import report_to
from relexify.recipes.demo import make_material
from relexify.scoring import Score
from relexify.storage.notes import read_notes
from relexify.systems.transfer import checks
from relexify.systems.transfer.grid.cells import GridCell, GridResult, GridSearch, best_cell, grid_rows
from relexify.systems.transfer.grid.run import _open_data, run_grid
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.text import Corpus, split_words
from tests import pico

MATERIAL = make_material(0, 500, limit=150_000)
TOKENIZERS = {"bert": pico.wordpiece, "llama": pico.byte_level}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A bert and a llama that know some English words, with random weights."""
    folder = tmp_path_factory.mktemp("models")
    for name, make in TOKENIZERS.items():
        tokenizer = make(MATERIAL.english, size=800)
        getattr(pico, name)(tokenizer).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def transfer(models, output, name="llama", **options):
    common = {
        "dictionary": MATERIAL.lexicon,
        "source_corpus": Corpus.from_lines(MATERIAL.english),
        "held_out": Corpus.from_lines(MATERIAL.held_out),
        "method": "wechsel",
        "vocab_size": 600,
        "vectors": VectorTraining(width=24, contexts=1_000),
        "held_out_bytes": 1_500,
    }
    return Transfer(str(models / name), output, Corpus.from_lines(MATERIAL.invented), **(common | options))


def pairs(lines):
    """A hypothesis from the same paragraph, or from the next one."""
    halves = [(line[:60], line[60:120]) for line in lines]
    same = [(first, second, "entailment") for first, second in halves]
    other = [(first, halves[index - 1][1], "contradiction") for index, (first, _) in enumerate(halves)]
    return [example for both in zip(same, other, strict=True) for example in both]


def tagged(lines):
    """Words labelled as words, numbers and marks."""
    sentences = [split_words(line)[:20] for line in lines]
    return [(words, ["WORD" if word[0].isalpha() else "OTHER" for word in words]) for words in sentences]


def nli_file(path, lines):
    path.write_text("".join(f"{premise}\t{hypothesis}\t{label}\n" for premise, hypothesis, label in pairs(lines)))
    return path


def pos_file(path, lines):
    blocks = ["\n".join(f"{word}\t{tag}" for word, tag in zip(*each, strict=True)) for each in tagged(lines)]
    path.write_text("\n\n".join(blocks) + "\n")
    return path


def conllu_file(path, lines):
    blocks = []
    for words, tags in tagged(lines):
        numbered = enumerate(zip(words, tags, strict=True), 1)
        blocks.append("".join(f"{n}\t{word}\t_\t{tag}\t_\t_\t{n - 1}\tdep\t_\t_\n" for n, (word, tag) in numbered))
    path.write_text("\n".join(blocks))
    return path


LINES = [line for line in MATERIAL.invented if len(line) > 130]


def test_a_model_with_the_tokenizer_of_another_is_rejected(models, tmp_path):
    graft = run_transfer(transfer(models, tmp_path / "graft", method="random", score=False)).output
    pico.permute_tokens(graft).rename(tmp_path / "llama")
    search = GridSearch(transfer(tmp_path, tmp_path / "out"), neighbours=(1,), temperatures=(1.0,))
    with pytest.raises(VocabularyError, match="is not the one that the embeddings were built for"):
        run_grid(search)


def test_probes_are_trained_on_examples_from_the_whole_file(models, tmp_path):
    search = GridSearch(
        transfer(models, tmp_path / "grid", "bert"),
        pos=(pos_file(tmp_path / "train.txt", LINES[:9]), pos_file(tmp_path / "test.txt", LINES[9:12])),
        training_examples=3,
    )
    train, test = _open_data(search).pos
    assert [tuple(words) for words, _ in train] == [tuple(words) for words, _ in tagged(LINES[:9:3])]
    assert len(test) == 3


def test_an_encoder_is_scored_by_probes_and_by_language_modelling_from_files(models, tmp_path):
    search = GridSearch(
        transfer(models, tmp_path / "grid", "bert"),
        neighbours=(1, 10),
        nli=(nli_file(tmp_path / "train.tsv", LINES[:40]), nli_file(tmp_path / "test.tsv", LINES[40:55])),
        pos=(conllu_file(tmp_path / "train.conllu", LINES[:30]), pos_file(tmp_path / "test.txt", LINES[30:40])),
        training_examples=60,
        length=48,
    )
    result = run_grid(search)
    found = [(cell.initialisation, cell.neighbours, cell.temperature) for cell in result.cells]
    assert found == [
        ("wechsel", 1, 1.0),
        ("wechsel", 10, 0.1),
        ("wechsel", 10, 1.0),
        ("random", None, None),
        ("fullrand", None, None),
    ]
    for cell in result.cells:
        assert list(cell.scores) == ["NLI", "POS", "bits per byte", "perplexity"]
        assert cell.scores["NLI"].examples == 30
        assert cell.scores["POS"].examples == sum(len(words) for words, _ in tagged(LINES[30:40]))
        assert cell.scores["POS"].value > 0.7
        assert cell.scores["perplexity"].metric == "pseudo-perplexity"
    assert result.best in result.cells[:3]
    assert (tmp_path / "grid" / "grid.md").read_text().startswith("| model")
    assert len(list((tmp_path / "grid" / "cells").iterdir())) == 5


def test_a_cell_scores_like_a_transfer_with_its_k_and_temperature(models, tmp_path):
    # Paragraphs end at line feeds alone: other separators are text, for a transfer and for a grid.
    held_out = Corpus.from_lines([line.replace(" ", "\u2028", 3) for line in MATERIAL.held_out])
    for method, changes in {"wechsel": {}, "blend": {"dictionary": None, "aligned_by": "nothing"}}.items():
        recipe = transfer(models, tmp_path / method, method=method, held_out=held_out, **changes)
        search = GridSearch(recipe, neighbours=(3, 7), temperatures=(0.1, 0.5), baselines=("random",))
        cells = {(cell.neighbours, cell.temperature): cell for cell in run_grid(search).cells}
        alone = run_transfer(replace(recipe, output=tmp_path / f"{method} alone", neighbours=3, temperature=0.5))
        assert cells[3, 0.5].scores["bits per byte"].value == alone.scores[method]
        assert cells[None, None].scores["bits per byte"].value == alone.scores["random"]
        assert cells[3, 0.5].initialisation == method
        assert cells[3, 0.5].scores != cells[7, 0.5].scores
        assert (read_notes(alone.output)["unigram_prior"] is not None) == (method == "blend"), (
            "it is for one by default"
        )


def stopping_after(cells):
    """A reporter that stops the work after a number of cells."""

    def reporter(description, total=None):
        if description != "trying initialisations":
            return nullcontext(lambda amount: None)
        done = []

        class Counting:
            def __enter__(self):
                return self.advance

            def advance(self, amount):
                done.append(amount)
                if sum(done) == cells:
                    raise KeyboardInterrupt

            def __exit__(self, *_):
                return False

        return Counting()

    return reporter


def test_an_interrupted_grid_resumes_and_a_finished_one_is_not_repeated(models, tmp_path):
    shutil.copytree(models / "llama", tmp_path / "llama")
    recipe = transfer(tmp_path, tmp_path / "stopped")
    search = GridSearch(recipe, neighbours=(1, 4), temperatures=(0.2,), pos=(tagged(LINES[:5]), tagged(LINES[5:9])))
    with pytest.raises(KeyboardInterrupt), report_to(stopping_after(2)):
        run_grid(search)
    kept = sorted((tmp_path / "stopped" / "cells").iterdir())
    assert [path.name for path in kept] == ["k1-tau0.2.json", "k4-tau0.2.json"]
    times = [path.stat().st_mtime_ns for path in kept]
    kept[1].write_text("damaged")
    result = run_grid(search)
    assert kept[0].stat().st_mtime_ns == times[0]
    whole = run_grid(replace(search, transfer=replace(recipe, output=tmp_path / "whole")))
    assert whole.cells == result.cells
    times = [path.stat().st_mtime_ns for path in kept]
    assert run_grid(search) == result
    assert [path.stat().st_mtime_ns for path in kept] == times


def test_cells_of_another_grid_are_rejected_unless_they_may_be_replaced(models, tmp_path):
    recipe = transfer(models, tmp_path / "grid")
    search = GridSearch(recipe, neighbours=(2,), temperatures=(0.2,), baselines=())
    first = run_grid(search)
    assert run_grid(replace(search, neighbours=(2, 3))).cells[0] == first.cells[0]  # more cells beside a known one
    other = replace(recipe, held_out_bytes=700)
    with pytest.raises(InputError, match=r"k2-tau0\.2\.json belongs to another grid"):
        run_grid(replace(search, transfer=other))
    again = run_grid(replace(search, transfer=replace(other, overwrite=True)))
    assert again.cells[0].scores["bits per byte"].examples < first.cells[0].scores["bits per byte"].examples


def test_cells_of_other_code_are_rejected_unless_they_may_be_replaced(models, tmp_path, monkeypatch):
    search = GridSearch(transfer(models, tmp_path / "grid"), neighbours=(2,), temperatures=(0.2,), baselines=())
    first = run_grid(search)
    monkeypatch.setattr(checks, "TRANSFER_REVISIONS", {**checks.TRANSFER_REVISIONS, "scores": 99})
    with pytest.raises(InputError, match=r"k2-tau0\.2\.json belongs to another version .*\(changed: scores\)"):
        run_grid(search)
    again = run_grid(replace(search, transfer=replace(search.transfer, overwrite=True)))
    assert again.cells == first.cells
    assert run_grid(search).cells == first.cells


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"method": "fvt"}, {}, "fvt has neither neighbours nor temperature"),
        ({"method": "blend"}, {}, "blend does not depend on .*: choose transfer.method=ofa or wechsel"),
        ({}, {"neighbours": ()}, "at least one number"),
        ({}, {"neighbours": (10, 0)}, "`neighbours=0"),
        ({}, {"temperatures": (0.0,)}, r"`temperature=0\.0`"),
        ({}, {"baselines": ("blend",)}, "'blend' is not a baseline"),
        ({"score": False}, {}, "nothing to score a grid on"),
        ({}, {"training_examples": 0}, "training_examples = 0"),
        ({}, {"nli": (Path("nowhere.tsv"), Path("nowhere.tsv"))}, "nowhere"),
    ],
)
def test_impossible_grids_are_rejected_before_anything_is_loaded(tmp_path, changes, options, message):
    with pytest.raises(InputError, match=message):
        run_grid(GridSearch(transfer(Path("nobody"), tmp_path / "grid", **changes), **options))


def cell(name, k, temperature, nli=None, bits=None, perplexity=None):
    scores = {}
    if nli is not None:
        scores["NLI"] = Score("NLI probe", "accuracy", nli, True, 100)
    if bits is not None:
        scores["bits per byte"] = Score("language modelling", "bits per byte", bits, False, 100)
        scores["perplexity"] = Score("language modelling", "perplexity", perplexity, False, 100)
    return GridCell(name, k, temperature, scores)


CELLS = (
    cell("wechsel", 1, 1.0, 0.584, 4.0, 2.5e5),
    cell("wechsel", 10, 0.1, 0.5984, 3.9, 9876.54),
    cell("wechsel", 50, 1.0, 0.54, 5.25, 1.8e17),
    cell("fullrand", None, None, 0.9, 0.1, 5.0),
)


def test_the_table_has_the_shape_of_the_papers():
    assert grid_rows(GridResult(CELLS, CELLS[1], Path("out"))) == [
        ["model", "k", "τ", "NLI", "LM", "bits per byte"],
        ["wechsel@0", "1", "1", "58.4", "2.5e+5", "4.000"],
        ["wechsel@0", "10", "0.1", "59.8", "9876.5", "3.900"],
        ["wechsel@0", "50", "1", "54.0", "1.8e+17", "5.250"],
        ["fullrand@0", "–", "–", "90.0", "5.0", "0.100"],
    ]


def test_the_best_cell_has_the_best_mean_rank_and_is_no_baseline():
    assert best_cell(CELLS) == CELLS[1]
    first, second = cell("wechsel", 1, 1.0, 0.5, 4.0, 9.0), cell("wechsel", 2, 1.0, 0.6, 5.0, 9.0)
    assert best_cell([first, second]) == first  # equals: the first
    broken = cell("wechsel", 3, 1.0, bits=float("nan"), perplexity=float("nan"))
    assert best_cell([broken, cell("wechsel", 4, 1.0, bits=9.0, perplexity=9.0)]).neighbours == 4
    with pytest.raises(InputError, match="none is the best"):
        best_cell([cell("random", None, None, 0.5)])
