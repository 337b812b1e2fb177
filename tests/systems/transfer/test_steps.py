"""Kept steps and early checks of a recipe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relexify.errors import InputError
from relexify.evidence.vectors import VectorTraining
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods import fvt
from relexify.storage.files import MARKER, load_arrays, save_arrays
from relexify.systems.transfer.checks import check_recipe, open_texts, with_dictionary
from relexify.systems.transfer.evidence import gather_vectors
from relexify.systems.transfer.options import METHODS, Transfer
from relexify.systems.transfer.steps import kept_file, kept_mixture, step_name
from relexify.text import Corpus
from tests import pico

TINY = VectorTraining(width=8, epochs=1, minimum_count=1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def recipe(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(pico.sentences(400)))
    return Transfer(model="nobody/nothing", output=tmp_path / "out", corpus=text)


def test_a_step_is_named_by_every_input():
    names = {step_name("vectors", corpus="a", size=1), step_name("vectors", corpus="a", size=2)}
    names |= {step_name("tokenizer", corpus="a", size=1), step_name("vectors", corpus="b", size=1)}
    assert len(names) == 4
    assert step_name("vectors", corpus="a", size=1) == step_name("vectors", size=1, corpus="a")


def test_a_kept_file_is_made_once_and_a_damaged_one_made_again(cache, tmp_path):
    made = []

    def load(path: Path) -> str:
        if path.read_text() == "damaged":
            raise InputError("damaged")
        return path.read_text()

    def make() -> str:
        made.append(1)
        return "content"

    def save(result: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(result)

    assert [kept_file("things", "name", load, make, save) for _ in range(3)] == ["content"] * 3
    assert len(made) == 1
    (kept,) = (cache / "things").iterdir()
    kept.write_text("damaged")
    assert kept_file("things", "name", load, make, save) == "content"
    assert len(made) == 2


@pytest.mark.parametrize("marker", ["", None])
def test_a_damaged_mixture_in_the_cache_is_rebuilt(cache, marker):
    tokenizer, made = pico.pair("gpt2")[1], []

    def make():
        made.append(1)
        return fvt(tokenizer, tokenizer), None

    first, _ = kept_mixture("name", make)
    path = cache / "mixtures" / "name" / "mixture.safetensors"
    arrays, metadata = load_arrays(path, "mixture")
    changed = {name: array.copy() for name, array in arrays.items()}
    changed["indices"][0] |= 1 << 30
    save_arrays(path, changed, metadata)
    if marker is not None:
        (path.parent / MARKER).write_text(marker)
    for _ in range(2):
        again, _ = kept_mixture("name", make)
        assert (again.weights != first.weights).nnz == 0
    assert len(made) == 2


def test_both_languages_come_back_on_their_own_side(tmp_path):
    old, new = Corpus.from_lines(pico.sentences()), Corpus.from_lines(pico.sentences(words=pico.foreign_words()))
    source, target = gather_vectors(old, new, TINY)
    assert source is not None
    assert "river" in source.words
    assert "river" not in target.words
    target.save(tmp_path / "new.safetensors")
    again, loaded = gather_vectors(old, tmp_path / "new.safetensors", TINY)
    assert again is not None
    assert list(loaded.words) == list(load_vectors(tmp_path / "new.safetensors").words) == list(target.words)
    assert gather_vectors(None, new, TINY)[0] is None


def test_a_failure_while_vectors_are_trained_reaches_the_caller():
    def broken():
        yield from pico.sentences(20)
        raise InputError("the text ends in the middle")

    with pytest.raises(InputError, match="in the middle"):
        gather_vectors(Corpus.from_lines(broken), Corpus.from_lines(pico.sentences()), TINY)


def test_training_and_held_out_text_never_meet(recipe):
    training, held_out = open_texts(recipe)
    assert set(training).isdisjoint(held_out)
    assert sorted([*training, *held_out]) == sorted(pico.sentences(400))


@pytest.mark.parametrize(("field", "value"), [("temperature", 0.0), ("temperature", float("nan")), ("score_bytes", 0)])
def test_impossible_values_are_refused_before_anything_is_loaded(recipe, field, value):
    with pytest.raises(InputError, match=f"{field} = "):
        check_recipe(replace(recipe, **{field: value}))


def test_a_dictionary_is_read_once_and_in_the_order_it_has(recipe, tmp_path):
    file = tmp_path / "dictionary.tsv"
    file.write_text("haus\thouse\n")
    read = with_dictionary(replace(recipe, dictionary=file, dictionary_swapped=True))
    assert read.dictionary.pairs == (("house", "haus"),)
    assert with_dictionary(read) is read


def test_every_method_tells_what_it_does_and_the_default_is_one_of_them(recipe):
    assert recipe.method in METHODS
    assert all(method.becomes and method.evidence and method.paper for method in METHODS.values())
