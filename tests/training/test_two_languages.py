"""Training on text of two languages, so that the first one is not forgotten."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relexify.errors import InputError
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.storage.files import MARKER
from relexify.systems.bilingual.training import train_bilingual
from relexify.systems.transfer.assessment.start import ExtensionCheck
from relexify.text import Corpus
from relexify.training.data.batches import MixedTexts
from relexify.training.data.texts import training_data
from relexify.training.plan import plan_stages
from relexify.training.run import train
from tests import pico
from tests.training.data.test_batches import counting, numbers
from tests.training.runs import HELD_OUT, TRAINING, Moment, assert_same_bits, tensors

SHORT = replace(TRAINING, steps=6, evaluate_every=3, save_every=None)
FOREIGN = pico.sentences(25, words=pico.foreign_words())


def trained(run, name="out", share=0.5):
    return train(
        run.source,
        run.output(name),
        Corpus.from_lines(FOREIGN),
        replace(SHORT, source_share=share, source_corpus=run.corpus, source_held_out=Corpus.from_lines(HELD_OUT)),
        held_out=Corpus.from_lines(pico.sentences(12, words=pico.foreign_words(), seed=1)),
    )


@settings(max_examples=25, deadline=None)
@given(share=st.floats(0, 0.99), first=st.integers(0, 99), size=st.integers(1, 50))
def test_any_run_of_positions_has_the_share_and_every_block_in_turn(share, first, size):
    ours, others = counting(150), counting(150, seed=1)
    found = MixedTexts(ours, others, share).batch(list(range(first, first + size)))
    whole = MixedTexts(ours, others, share).batch(list(range(first + size)))
    of_ours = [value // 16 for value in whole["input_ids"][:, 0].tolist()]
    split = int((first + size) * share)
    assert abs(split - share * (first + size)) <= 1
    expected = [(ours, range(split)), (others, range(first + size - split))]
    assert of_ours == [number for text, taken in expected if len(taken) for number in numbers(text, taken)]
    assert len(found["input_ids"]) == size


def test_both_languages_are_scored_and_the_first_is_forgotten_less(run_of, caplog):
    caplog.set_level(logging.INFO, logger="relexify")
    run = run_of()
    alone, both = trained(run, "alone", share=0.0), trained(run, "both", share=0.5)
    assert list(alone.curve.first.by_language) == ["source", "target"]
    assert alone.curve.first.by_language == both.curve.first.by_language
    assert both.curve.last.by_language["source"] < alone.curve.last.by_language["source"]
    assert alone.curve.last.by_language["target"] < alone.curve.first.by_language["target"]
    for point in both.curve.points:
        source, target = point.by_language.values()
        scores = f"source {source:.3f}, target {target:.3f}, mean {point.bits_per_byte:.3f} bits per byte"
        assert f"step {point.step}: {scores}" in caplog.text
    assert "tokens of text (source)" in caplog.text
    assert "tokens of text (target)" in caplog.text


def test_a_run_with_both_languages_resumes_with_the_same_bits(run_of):
    run = run_of()
    training = replace(SHORT, save_every=2, source_corpus=run.held_out, source_held_out=run.corpus)
    whole = run.train(training, "whole")
    run.train_until_killed(Moment("step", 5), training, "again")
    assert_same_bits(whole.output, run.train(training, "again").output)


@pytest.mark.parametrize(("share", "source_lines"), [(0.0, 5), (0.5, 5), (0.5, 200), (0.25, 40)])
def test_text_is_new_until_a_sequence_of_either_language_is_seen_again(run_of, share, source_lines):
    run = run_of()
    options = replace(
        SHORT,
        source_share=share,
        source_corpus=Corpus.from_lines(pico.sentences(source_lines)),
        source_held_out=Corpus.from_lines(HELD_OUT),
    )
    model, tokenizer = load_model(run.source), load_tokenizer(run.source)
    data, _ = training_data(model, tokenizer, Corpus.from_lines(FOREIGN), Corpus.from_lines(HELD_OUT), options)
    mixed, seen = data.batches, []
    for position in range(data.new_sequences + 5):
        ours, others = mixed.divide([position])
        text, index = (mixed.first, ours[0]) if ours else (mixed.second, others[0])
        seen.append((bool(ours), index % text.count))
    again = next(position for position in range(1, len(seen)) if seen[position] in seen[:position])
    assert again - 4 < data.new_sequences <= again  # one in four positions is of the source text


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5])
def test_an_impossible_share_is_rejected(share):
    with pytest.raises(InputError, match="source_share"):
        plan_stages(replace(SHORT, source_share=share))


def test_held_out_text_without_text_is_rejected():
    with pytest.raises(InputError, match="source_corpus"):
        plan_stages(replace(SHORT, source_held_out="english.txt"))


def test_a_bilingual_model_has_its_own_text_of_the_source_language(run_of):
    run, other = run_of("bert"), run_of("bert")
    training = replace(SHORT, source_corpus=run.corpus)
    texts = {"held_out": run.held_out, "source_held_out": run.held_out}
    with pytest.raises(InputError, match="source_corpus"):
        train_bilingual(run.source, other.source, run.output(), run.corpus, run.corpus, training, **texts)


@pytest.mark.parametrize("options", [{}, {"average": 0.9}, {"plan": "embeddings-only", "average": 0.9, "warmup": 0.0}])
def test_the_rows_of_the_source_are_kept_bit_for_bit_while_others_are_trained(run_of, tmp_path, options):
    run = run_of("llama untied")
    folder = shutil.copytree(run.source, tmp_path / "extended")
    extension = ExtensionCheck(40, [(0, 0.5), (40, 0.4)], source_tokens=9, source_added=0, source_bits_per_byte={})
    (folder / MARKER).write_text(json.dumps({"extension": asdict(extension)}))
    tokens = len(load_tokenizer(folder))
    training = replace(SHORT, learning_rate=None, keep_rows=True, **{"plan": "relexify", **options})
    trained = train(folder, tmp_path / "trained", run.corpus, training, held_out=run.held_out)
    before, after = tensors(folder), tensors(trained.output)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert torch.equal(before[name][: tokens - 40], after[name][: tokens - 40])
        assert not torch.equal(before[name][tokens - 40 :], after[name][tokens - 40 :])


def test_rows_of_a_model_without_added_tokens_cannot_be_kept(run_of):
    run = run_of()
    with pytest.raises(InputError, match="no added tokens"):
        run.train(replace(SHORT, keep_rows=True))
