"""A whole training: what it depends on, what it leaves alone, and what it writes."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BertForPreTraining

from relexify.methods.fvt import fvt
from relexify.mixture import MIXTURE_FILE
from relexify.pretrained.loading import load_tokenizer
from relexify.storage.files import MARKER
from relexify.text import Corpus
from relexify.training.results.curve import Curve
from relexify.training.results.result import CURVE_FILE
from tests import pico
from tests.training.runs import HELD_OUT, LINES, TRAINING, Moment, assert_same_bits, tensors

SHORT = replace(TRAINING, steps=4, evaluate_every=2, save_every=None)


def random_states() -> list[str]:
    """Return the random states of python, numpy and torch."""
    states = (random.getstate(), np.random.get_state(), torch.get_rng_state().tolist())  # noqa: NPY002
    return [repr(state) for state in states]


@pytest.mark.parametrize("plan", ["direct", "embeddings-first"])
def test_the_randomness_of_the_caller_is_left_alone(run_of, plan):
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    before = random_states()
    run_of().train(replace(SHORT, plan=plan))
    assert random_states() == before


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_the_seed_decides_and_nothing_else(run_of, family):
    run = run_of(family)
    first = run.train(SHORT, "first")
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    second = run.train(SHORT, "second")
    assert_same_bits(first.output, second.output)
    assert first.curve == second.curve
    other = run.train(replace(SHORT, seed=1), "other")
    assert any(not tensor.equal(tensors(first.output)[name]) for name, tensor in tensors(other.output).items())
    assert other.curve.first == first.curve.first


def test_how_often_it_is_measured_and_saved_changes_no_weights(run_of):
    run = run_of()
    seldom = run.train(replace(TRAINING, evaluate_every=12, save_every=None), "seldom")
    often = run.train(replace(TRAINING, evaluate_every=1, save_every=1), "often")
    assert [point.step for point in often.curve.points] == list(range(13))
    assert [point.step for point in seldom.curve.points] == [0, 12]
    assert_same_bits(seldom.output, often.output)


def test_steps_without_labels_leave_the_score_unchanged(run_of):
    result = run_of("bert").train(replace(SHORT, masking=1e-9))
    assert result.curve.last.bits_per_byte == pytest.approx(result.curve.first.bits_per_byte, abs=0.05)


@pytest.mark.parametrize("masking", [0.02, 0.08])
def test_scores_do_not_depend_on_fixed_shapes_for_a_low_masking(run_of, masking):
    run = run_of("bert")
    run.held_out.write_text("\n".join(pico.sentences(400, seed=1)))
    few = replace(SHORT, steps=1, batch=64, length=32, masking=masking, held_out_bytes=100_000)
    free = run.train(few, name="free")
    with torch._dynamo.config.patch(disable=True):  # shapes are fixed as for compiled code
        fixed = run.train(replace(few, compile=True), name="fixed")
    assert fixed.curve.first.bits_per_byte == pytest.approx(free.curve.first.bits_per_byte)


def test_training_helps(run_of):
    result = run_of().train(replace(TRAINING, steps=30))
    assert result.curve.last.bits_per_byte < result.curve.first.bits_per_byte - 0.3
    assert result.selected == 30
    assert result.tokens == 30 * TRAINING.batch * TRAINING.length


def test_held_out_lines_in_the_text_are_not_trained_on(run_of):
    run = run_of()
    clean = run.train(SHORT, "clean")
    leaky = run.folder / "leaky.txt"
    leaky.write_text("\n".join([*LINES[:7], *HELD_OUT, *LINES[7:], HELD_OUT[0]]))
    result = replace(run, corpus=leaky).train(SHORT, "leaky")
    assert_same_bits(result.output, clean.output)
    assert result.curve == clean.curve


def test_lines_kept_aside_are_measured_on_and_not_trained_on(run_of):
    run = run_of()
    text = run.folder / "text.txt"
    text.write_text("\n".join(pico.sentences(600)))
    kept = Corpus.open(text).split(100)[1]
    assert len(list(kept)) > 1
    run = replace(run, corpus=text)
    aside, given = run.train(SHORT, "aside", held_out=None), run.train(SHORT, "given", held_out=kept)
    assert_same_bits(aside.output, given.output)
    assert aside.curve == given.curve


def test_a_bfloat16_model_stays_bfloat16_with_its_frozen_parameters_unchanged(run_of):
    run = run_of(dtype=torch.bfloat16)
    run.train(replace(SHORT, plan="embeddings-only", weight_decay=0.5))
    before, after = tensors(run.source), tensors(run.output())
    assert {tensor.dtype for tensor in after.values()} == {torch.bfloat16}
    assert [name for name in before if not torch.equal(before[name], after[name])] == ["transformer.wte.weight"]
    assert json.loads((run.output() / "config.json").read_text())["dtype"] == "bfloat16"


def test_notes_of_a_graft_are_kept(run_of):
    run = run_of()
    source = run.folder / "graft"
    shutil.copytree(run.source, source)
    tokenizer = load_tokenizer(source)
    written = fvt(tokenizer, tokenizer).save(source / MIXTURE_FILE).read_bytes()
    (source / MARKER).write_text(json.dumps({"method": "wechsel", "seed": 3}))
    replace(run, source=source).train(SHORT)
    notes = json.loads((run.output() / MARKER).read_text())
    assert (run.output() / MIXTURE_FILE).read_bytes() == written
    assert (notes["method"], notes["seed"], notes["trained_from"]) == ("wechsel", 3, str(source))
    assert (notes["training"]["steps"], notes["training"]["selected_step"]) == (4, 4)
    assert not notes["training"]["from_trained"]
    replace(run, source=run.output()).train(SHORT, "again")
    assert json.loads((run.output("again") / MARKER).read_text())["training"]["from_trained"]


def test_the_next_sentence_head_of_a_bert_is_kept_as_it_was(run_of):
    run = run_of("bert")
    source = run.folder / "with-head"
    shutil.copytree(run.source, source)
    both = BertForPreTraining.from_pretrained(source)  # the head is drawn
    both.save_pretrained(source)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"architectures": ["BertForMaskedLM"]}))  # as on the Hub
    replace(run, source=source).train(SHORT)
    before, after = tensors(source), tensors(run.output())
    head = {"cls.seq_relationship.weight", "cls.seq_relationship.bias", "bert.pooler.dense.weight"}
    assert head <= after.keys()
    assert all(after[name].equal(before[name]) for name in head)
    assert not after["bert.embeddings.word_embeddings.weight"].equal(before["bert.embeddings.word_embeddings.weight"])


def test_the_output_is_a_model_to_load_with_its_tokenizer_and_its_curve(run_of):
    run = run_of()
    result = run.train(SHORT)
    model = AutoModelForCausalLM.from_pretrained(run.output())
    tokenizer, own = (AutoTokenizer.from_pretrained(folder) for folder in (run.output(), run.source))
    assert tokenizer(LINES).input_ids == own(LINES).input_ids
    assert model.config.use_cache
    assert not model.training
    assert Curve.load(run.output() / CURVE_FILE) == result.curve
    assert {path.name for path in run.folder.iterdir()} == {"out"}


def test_the_tensorboard_log_contains_the_scores(run_of):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = run_of()
    training = replace(TRAINING, report_to=("tensorboard",))
    run.train_until_killed(Moment("step", 9), training)
    result = run.train(training)
    log = events.EventAccumulator(str(run.output() / "logs" / "1-everything")).Reload()
    reported = {event.step: event.value for event in log.Scalars("eval/bits_per_byte")}
    assert reported == {point.step: pytest.approx(point.bits_per_byte) for point in result.curve.points}
