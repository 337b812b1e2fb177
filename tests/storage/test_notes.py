"""Notes that somebody edited: rejected with the key that is wrong, or good enough for everything that reads them."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import relexify as rx
from relexify.errors import InputError
from relexify.grafting import GraftReport, check
from relexify.mixture import MIXTURE_FILE
from relexify.reports.html.model import render_model
from relexify.reports.model_card import render_card
from relexify.scoring import Score
from relexify.storage.files import MARKER, record_file
from relexify.storage.notes import inherited_notes, output_notes, read_notes
from relexify.storage.notes_schema import NOTES, check_notes
from relexify.storage.shapes import OptionalShape
from relexify.systems.transfer.assessment.start import DictionaryCheck, ExtensionCheck, TextCoverage
from relexify.systems.trelm import notes as trelm_notes
from relexify.training.results.curve import Curve, Measurement
from relexify.training.results.result import load_result
from tests import pico

WRONG = [None, [], [1], {}, {"a": 1}, "", "x", -1, 0, 2.5, 2**40, 10**30, float("inf"), float("nan"), True]
EVERY = 30
"""How many accepted edits there are for one that is read by everything."""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model whose notes have every entry that reports read."""
    root = tmp_path_factory.mktemp("notes")
    (root / "text.txt").write_text("\n".join(pico.sentences(300, seed=3, words=pico.foreign_words())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(root / "cache"))
        rx.transfer(
            rx.Transfer(
                model=str(pico.saved("gpt2", root / "gpt2")),
                output=root / "model",
                corpus=str(root / "text.txt"),
                method="fvt",
                vocab_size=300,
                held_out_bytes=300,
            )
        )
    notes = read_notes(root / "model")
    source = {"command": {"model": "first", "language": "sw", "method": "fvt"}, "inputs": {"corpus": "0"}}
    notes["provenance"]["source"] = source
    notes["alignment"] = {
        "pairs_used": 40,
        "coverage": 0.5,
        "quality": {"precision": 0.2, "csls_precision": 0.3, "words": 20, "candidates": 90},
    }
    notes["dictionary_check"] = asdict(DictionaryCheck(30, 0.4, 90, 0.56))
    notes["extension"] = asdict(ExtensionCheck(20, [(0, 0.5), (20, 0.4)], 90, 1, {"original": 2.0}))
    notes["training"] = pico.training_notes(command={"corpus": ["text.txt"], "options": {"batch": 4}})
    notes["trained_from"] = "start"
    score = asdict(Score("masked tokens", "bits per word", 7.5, higher_is_better=False, examples=90))
    notes["trelm"] = {"until": "specific", "phases": [score], "translation": [score]}
    (root / "model" / MARKER).write_text(json.dumps(notes))
    return root / "model"


@pytest.fixture
def edited(model, tmp_path):
    """Return a function that writes notes into a copy of the model, and returns its folder."""
    folder = shutil.copytree(model, tmp_path / "model")
    Curve.of(Measurement(step, step * 64, "all", 3 - step / 10, 9.0) for step in (0, 10)).save(
        record_file(folder / "training.json")
    )

    def write(notes: Any) -> Path:
        (folder / MARKER).write_text(json.dumps(notes))
        return folder

    return write


def edits(value: Any, *, change: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield the value with one part replaced, removed or added, and the name of the part; of lists, the first part."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield key, {name: each for name, each in value.items() if name != key}
            for name, changed in edits(part):
                yield f"{key}.{name}".rstrip("."), {**value, key: changed}
        yield "unknown", {**value, "unknown": 1}
    elif isinstance(value, list) and value:
        for name, changed in edits(value[0]):
            yield f"[0].{name}".rstrip("."), [changed, *value[1:]]
    if change:
        yield from (("", wrong) for wrong in WRONG)


def rejection(folder: Path, *readers: Callable[[Path], object]) -> str:
    """Return with what message one of several readers rejects a folder; empty if none does."""
    try:
        for read in readers:
            read(folder)
    except InputError as error:
        return str(error)
    return ""


def test_the_verdict_of_another_schema_is_rejected_in_one_sentence(model, edited):
    notes = json.loads((model / MARKER).read_text())
    folder = edited(notes | {"verdict": {"start": "poor", "reason": "There is little text. Give more."}})
    with pytest.raises(
        InputError, match=r"verdict\.finding is missing, but text is expected: .* write the folder again"
    ):
        read_notes(folder)


def test_every_edit_of_the_notes_is_rejected_by_name_or_harmless(model, edited):
    notes = json.loads((model / MARKER).read_text())
    assert check_notes(notes, model) is notes
    (edited(notes) / MIXTURE_FILE).unlink()  # whose atlas takes most of the time of a report, and reads no notes
    messages = {}
    accepted = []
    for name, changed in edits(notes, change=False):
        if message := rejection(model, partial(check_notes, changed)):
            messages[name] = message
        else:
            accepted.append((name, changed))
    assert all(str(model) in message for message in messages.values())
    for name, changed in accepted[::EVERY]:
        message = rejection(edited(changed), load_result, render_card, render_model, inherited_notes)
        assert not message or MARKER in message, name
    assert {"graft.origins", "training.selected_step", "samples.[0].source", "provenance.source"} <= set(messages)


@pytest.mark.parametrize("part", ["graft", "files"])
def test_checks_of_a_model_survive_every_edit(model, edited, part):
    notes = json.loads((model / MARKER).read_text())
    notes["files"] = notes["files"][:1]
    changes = [{**notes, part: each} for _, each in edits(notes[part])]
    accepted = [each for each in changes if not rejection(model, partial(check_notes, each))]
    assert accepted
    for changed in accepted[:: EVERY // 3]:
        assert not rejection(edited(changed), check)


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ("graft", GraftReport),
        ("held_out_text", TextCoverage),
        ("dictionary_check", DictionaryCheck),
        ("extension", ExtensionCheck),
    ],
)
def test_every_field_that_is_read_again_is_validated(entry, kind):
    shape = NOTES[entry].shape
    shape = shape.shape if isinstance(shape, OptionalShape) else shape
    assert {*shape.required, *shape.optional} == {each.name for each in fields(kind)}


def test_every_field_of_a_score_in_the_notes_of_trelm_is_validated():
    assert {*trelm_notes._SCORE.required, *trelm_notes._SCORE.optional} == {each.name for each in fields(Score)}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (("graft",), [], "graft is a list, but an object is expected"),
        (("graft", "origins"), {"mixed": "3"}, 'graft.origins.mixed is "3", but a whole number from 0 on is expected'),
        (("held_out_text", "words"), 0, "held_out_text.words is 0, but a whole number from 1 on is expected"),
        (("samples",), [{"source": [["a"]]}], r"samples[0].source[0] is a list, but a list of two is expected"),
        (("provenance", "source", "command"), "x", 'command is "x", but an object is expected'),
        (("training", "tokens_seen"), 10**30, "training.tokens_seen is 1000000000000000000000000000000, but a whole"),
    ],
)
def test_a_message_names_the_file_and_the_key(model, key, value, message, tmp_path):
    notes = copy.deepcopy(json.loads((model / MARKER).read_text()))
    inner = notes
    for name in key[:-1]:
        inner = inner[name]
    inner[key[-1]] = value
    with pytest.raises(InputError) as caught:
        check_notes(notes, tmp_path / MARKER)
    assert str(caught.value).startswith(f"{tmp_path / MARKER}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("content", ["[1]", "{", "3", '{"a": ' + "9" * 5_000 + "}", "[" * 100_000])
def test_a_file_without_an_object_is_rejected_unless_it_is_an_output_to_be_replaced(tmp_path, content):
    assert read_notes(tmp_path) == {}
    (tmp_path / MARKER).write_text(content)
    with pytest.raises(InputError, match=r"relexify\.json: its content is .*, but an object is expected"):
        read_notes(tmp_path)
    assert output_notes(tmp_path) == {}
