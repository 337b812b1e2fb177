"""The invented language as ground truth: the more a method knows, the better it is."""

from __future__ import annotations

import numpy as np
import pytest

from relexify.methods.baselines import random
from relexify.methods.translations import translations
from relexify.recipes.demo import Demonstration, make_material, oracle, run_demonstration
from relexify.tokens import train_tokenizer_like, vocabulary_of
from relexify.training.plan import Training
from tests import pico

MATERIAL = make_material(0, 500, limit=150_000)
SOURCE = pico.byte_level(MATERIAL.english, size=2000)
TARGET = train_tokenizer_like(SOURCE, lambda: MATERIAL.invented, 1500)


def test_the_three_texts_share_no_paragraph_and_the_dictionary_is_true():
    assert not set(MATERIAL.invented) & set(MATERIAL.held_out)
    for english, invented in MATERIAL.lexicon.pairs:
        assert MATERIAL.language.translate(english) == invented


def test_the_oracle_knows_what_a_whole_word_means():
    mixture = oracle(MATERIAL, SOURCE, TARGET)
    vocabulary = vocabulary_of(TARGET)
    checked = 0
    for english, invented in MATERIAL.lexicon.pairs[:200]:
        ids = SOURCE(f" {english}", add_special_tokens=False).input_ids
        whole = [i for i, form in enumerate(vocabulary.forms) if form.starts_word and form.text == invented]
        if whole and len(ids) == 1:
            heaviest = mixture.sources(whole[0], 1)[0][0]
            checked += heaviest == SOURCE.convert_ids_to_tokens(ids[0])
    assert checked > 50


def test_the_oracle_agrees_with_the_dictionary_on_whole_words():
    translated = translations(SOURCE, TARGET, MATERIAL.lexicon)
    known = oracle(MATERIAL, SOURCE, TARGET)
    both = np.flatnonzero(translated.known)
    agreeing = np.mean([translated.sources(int(id), 1)[0][0] == known.sources(int(id), 1)[0][0] for id in both])
    assert agreeing > 0.8
    assert not random(SOURCE, TARGET).known.any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("cache")
def test_the_demonstration_runs_and_leaves_a_model_that_loads(tmp_path):
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
        score_bytes=2000,
        training=Training(steps=3, batch=4, length=32),
    )
    result = run_demonstration(options, report=reported.append)
    assert list(result.before) == ["random", "shuffle", "wechsel", "blend", "oracle"]
    assert set(result.after) == {"random", "blend"}
    assert all(0 < value < 40 for value in (*result.before.values(), *result.after.values()))
    assert {entry.name for entry in (tmp_path / "demo").iterdir()} == {
        "dictionary.tsv",
        "english.txt",
        "held-out.txt",
        "invented.txt",
        "model",
        "relexify.json",
    }
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "demo" / "model")
    assert loaded.config.vocab_size == len(AutoTokenizer.from_pretrained(tmp_path / "demo" / "model"))
    assert reported
