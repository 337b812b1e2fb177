"""The demonstration, and the invented language as ground truth."""

from __future__ import annotations

import html
import re

import pytest

from relexify.methods.baselines import random
from relexify.methods.parts.translations import translations
from relexify.recipes.demo import Demonstration, make_material, run_demonstration
from relexify.storage.notes import read_notes
from relexify.tokens import train_tokenizer_like, vocabulary_of
from relexify.training.options import Training
from tests import pico

MATERIAL = make_material(0, 500, limit=150_000)
SOURCE = pico.byte_level(MATERIAL.english, size=2000)
TARGET = train_tokenizer_like(SOURCE, lambda: MATERIAL.invented, 1500)


def test_the_three_texts_share_no_paragraph_and_the_dictionary_is_true():
    assert not set(MATERIAL.invented) & set(MATERIAL.held_out)
    for english, invented in MATERIAL.lexicon.pairs:
        assert MATERIAL.language.translate(english) == invented


def test_a_whole_word_is_mixed_from_what_it_means():
    mixture = translations(SOURCE, TARGET, MATERIAL.lexicon)
    vocabulary = vocabulary_of(TARGET)
    checked = 0
    for english, invented in MATERIAL.lexicon.pairs[:200]:
        ids = SOURCE(f" {english}", add_special_tokens=False).input_ids
        whole = [i for i, form in enumerate(vocabulary.forms) if form.starts_word and form.text == invented]
        if whole and len(ids) == 1:
            heaviest = mixture.sources(whole[0], 1)[0][0]
            checked += heaviest == SOURCE.convert_ids_to_tokens(ids[0])
    assert checked > 50
    assert not random(SOURCE, TARGET).known.any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("cache")
def test_the_demonstration_leaves_a_model_a_report_and_samples_that_can_be_read(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = pico.gpt2(SOURCE), SOURCE
    model.save_pretrained(tmp_path / "gpt2")
    tokenizer.save_pretrained(tmp_path / "gpt2")
    reported: list[str] = []
    options = Demonstration(
        output=tmp_path / "demo",
        model=str(tmp_path / "gpt2"),
        vocab_size=1000,
        dictionary_size=500,
        text_bytes=150_000,
        training=Training(steps=3, batch=4, length=32),
    )
    result = run_demonstration(options, report=reported.append)
    assert reported
    assert list(result.comparison.curves) == ["random", "blend"]
    points = [point for (curve,) in result.comparison.curves.values() for point in (curve.first, curve.last)]
    assert [point.step for point in points] == [0, 3, 0, 3]
    assert all(0 < value < 40 for value in (result.original, result.oracle, *(each.bits_per_byte for each in points)))
    assert result.prompt.gloss != result.prompt.text
    assert result.before.text
    assert result.after.text
    assert MATERIAL.language.gloss(result.after.text) == result.after.gloss
    assert {entry.name for entry in (tmp_path / "demo").iterdir()} == {
        "comparison.json",
        "comparison.md",
        "curves.svg",
        "dictionary.tsv",
        "english.txt",
        "held-out.txt",
        "invented.txt",
        "model",
        "relexify.json",
        "report.html",
    }
    folder = tmp_path / "demo" / "model"
    assert "atlas" in (folder / "report.html").read_text()
    report = html.unescape(re.sub("<[^>]*>", "", (folder / "report.html").read_text()))
    assert re.search(rf"relexify (evaluate|train) model.* --held-out {tmp_path / 'demo' / 'held-out.txt'}", report)
    assert read_notes(folder)["training"]["command"]["corpus"] == [str(tmp_path / "demo" / "invented.txt")]
    notes = (folder / "relexify.json").read_text()
    assert str(tmp_path / "gpt2") in notes
    assert "blend.start" not in notes  # a folder that is no longer there
    assert AutoModelForCausalLM.from_pretrained(folder).config.vocab_size == len(AutoTokenizer.from_pretrained(folder))
