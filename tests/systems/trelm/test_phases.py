from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from relexify.errors import InputError
from relexify.pretrained.loading import load_model
from relexify.systems.trelm.data.batches import PairBatches
from relexify.systems.trelm.data.pairs import AlignedPairs
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.parameters import half_pattern, phase_pattern
from relexify.systems.trelm.phases import combine_directions, train_direction, train_specific
from relexify.training.engine.trainer import StageTrainer
from relexify.training.loss.forward import loss_forward
from tests import pico
from tests.processes import in_a_process
from tests.systems.trelm.world import IDLE, TRAINING, JointWorld, assert_two_processes_train_as_one, changed, names_of


@pytest.fixture(params=["bert", "roberta"])
def world(request: Any, tmp_path: Path, cache: Path) -> JointWorld:
    return JointWorld(tmp_path, request.param)


@pytest.fixture
def bert_world(tmp_path: Path, cache: Path) -> JointWorld:
    return JointWorld(tmp_path, "bert")


def test_commonality_trains_embeddings_and_trilayer_and_nothing_else(world: JointWorld) -> None:
    output = world.commonality()
    moved = changed(world.start, output)
    layers = {name for name in names_of(output) if ".backbone.encoder." in name}
    assert not moved & layers
    assert not any(name.startswith("head.dense") or IDLE.search(name) for name in moved)
    wanted = {name for name in names_of(output) if name.startswith(("model.trilayer.", "model.backbone.embeddings."))}
    keys = {"model.trilayer.attention.self.key.bias"}  # no score depends on it: its gradient is zero
    wanted |= {"model.language_embeddings.weight", "model.placeholder", "head.decoder.bias"}
    assert wanted - moved <= keys
    assert isinstance(load_model(output), TriLayerForMaskedLM)


def test_a_weight_that_is_nan_is_reported_before_text_is_packed(bert_world: JointWorld, monkeypatch: Any) -> None:
    weights = load_file(bert_world.start / "model.safetensors")
    name = next(name for name in sorted(weights) if name.endswith("LayerNorm.weight"))
    weights[name][3] = float("nan")
    save_file(weights, bert_world.start / "model.safetensors", metadata={"format": "pt"})
    monkeypatch.setattr("relexify.systems.trelm.phases.language_data", None)
    with pytest.raises(InputError, match=rf"{re.escape(name)} of TriLayerForMaskedLM has NaN"):
        bert_world.commonality()


@pytest.mark.parametrize(("direction", "frozen"), [("source-to-target", "lower"), ("target-to-source", "upper")])
def test_a_direction_keeps_one_half_bit_for_bit_and_trains_all_else(
    world: JointWorld, direction: str, frozen: str
) -> None:
    output = world.direction(direction)
    moved, model = changed(world.start, output), load_model(output)
    kept = {name for name in names_of(output) if re.search(half_pattern(model, frozen), name)}
    assert kept
    assert not moved & kept
    still = names_of(output) - moved - kept
    assert all(IDLE.search(name) or name.endswith("attention.self.key.bias") for name in still), still


@pytest.mark.parametrize("warmup", [0.0, 1.0])
def test_every_phase_warms_up(bert_world: JointWorld, warmup: float) -> None:
    """A warm-up starts with a learning rate of zero, so that its first step changes nothing."""
    training = replace(TRAINING, steps=1, warmup=warmup)
    specific = bert_world.folder / "specific"
    train_specific(bert_world.start, specific, bert_world.texts["xx"], training, held_out=bert_world.held_out["xx"])
    directions = [bert_world.direction(name, training=training) for name in ("source-to-target", "target-to-source")]
    for output in (bert_world.commonality(training=training), *directions, specific):
        assert bool(changed(bert_world.start, output)) == (warmup == 0), output.name


@pytest.mark.parametrize("setting", [{"schedule": "constant"}, {"learning_rate": TRAINING.learning_rate / 2}])
def test_a_phase_follows_its_schedule_and_learning_rate(bert_world: JointWorld, setting: dict[str, Any]) -> None:
    plain = bert_world.commonality("plain")
    other = bert_world.commonality("other", training=replace(TRAINING, **setting))
    assert changed(plain, other)


def test_two_directions_are_combined_parameter_by_parameter(bert_world: JointWorld) -> None:
    there, back = bert_world.direction("source-to-target"), bert_world.direction("target-to-source")
    output = bert_world.folder / "combined"
    combine_directions(there, back, output)
    first, second, both = (dict(load_model(folder).named_parameters()) for folder in (there, back, output))
    for name, value in both.items():
        index = int(name.split(".")[4]) if name.startswith("model.backbone.encoder.layer.") else None
        mean = (first[name] + second[name]) / 2
        wanted = mean if index is None else second[name] if index < 2 else first[name]
        assert torch.equal(value, wanted), name


@pytest.mark.parametrize("objective", ["tlm", "brlm"])
@pytest.mark.usefixtures("cache")
def test_other_objectives_train_without_a_trilayer(tmp_path: Path, objective: str) -> None:
    world = JointWorld(tmp_path, "roberta", trilayer=False)
    pairs = aligned_pairs_of(world, together=35)
    output = tmp_path / objective
    train_direction(
        world.start, output, pairs, TRAINING, direction="source-to-target", held_out=world.held_out["xx"],
        objective=objective,
    )  # fmt: skip
    assert changed(world.start, output)
    with pytest.raises(InputError, match="CdLM needs a TRILayer"):
        world.direction("source-to-target", "rejected")


def aligned_pairs_of(world: JointWorld, together: int) -> AlignedPairs:
    whole = world.pairs()
    lengths = np.array([sum(len(side.ids) for side in whole.pair(number)) for number in range(len(whole))])
    return replace(whole, lines=whole.lines[lengths <= together])


def test_language_specific_training_predicts_next_sentences_if_the_model_has_the_head(bert_world: JointWorld) -> None:
    output, without = bert_world.folder / "out", bert_world.folder / "without"
    kept = {"held_out": bert_world.held_out["xx"]}
    train_specific(bert_world.start, output, bert_world.texts["xx"], TRAINING, **kept)
    moved = changed(bert_world.start, output)
    assert "next_sentence.weight" in moved
    assert "model.backbone.pooler.dense.weight" in moved
    train_specific(
        bert_world.start,
        without,
        bert_world.texts["xx"],
        TRAINING,
        held_out=bert_world.held_out["xx"],
        next_sentence=False,
    )
    assert not any(IDLE.search(name) for name in changed(bert_world.start, without))


@pytest.mark.usefixtures("cache")
def test_next_sentences_are_rejected_without_the_head(tmp_path: Path) -> None:
    world = JointWorld(tmp_path, "roberta")
    with pytest.raises(InputError, match="no head for next sentences"):
        train_specific(
            world.start,
            tmp_path / "out",
            world.texts["xx"],
            TRAINING,
            held_out=world.held_out["xx"],
            next_sentence=True,
        )


def test_the_loss_of_a_step_is_that_of_the_model_itself(bert_world: JointWorld) -> None:
    model, batches = load_model(bert_world.start), PairBatches(bert_world.pairs(), bert_world.tokenizer, masking=0.5)
    rows = batches.batch(list(range(6)))
    with torch.no_grad():
        whole = model(**rows).loss * (rows["labels"] != -100).sum()
        with loss_forward(model):
            nats = model(**rows)
    assert torch.allclose(nats, whole, rtol=1e-5)


@pytest.mark.parametrize(
    ("objective", "weighting"),
    [("cdlm", "objectives"), ("tlm", "objectives"), ("brlm", "objectives"), ("cdlm", "tokens")],
)
@pytest.mark.parametrize("micro_batch", [None, 2])
def test_pairs_and_masked_sentences_have_a_mean_loss_each_unless_all_tokens_count_the_same(
    bert_world: JointWorld, objective: str, weighting: str, micro_batch: int | None, monkeypatch: Any
) -> None:
    config = bert_world.start / "config.json"
    config.write_text(re.sub(r'("\w*dropout_prob": )0\.1', r"\g<1>0.0", config.read_text()))
    reported, own = [], StageTrainer.compute_loss

    def listening(trainer: Any, *inputs: Any, **options: Any) -> torch.Tensor:
        reported.append(own(trainer, *inputs, **options))
        return reported[-1]

    monkeypatch.setattr(StageTrainer, "compute_loss", listening)
    training = replace(TRAINING, steps=1, micro_batch=micro_batch)
    bert_world.direction("source-to-target", objective=objective, weighting=weighting, training=training)
    batches = PairBatches(bert_world.pairs(), bert_world.tokenizer, objective=objective, length=24)
    rows = batches.batch(list(range(TRAINING.batch)))
    with torch.no_grad():
        model = load_model(bert_world.start)
        halves = [{name: array[turn::2] for name, array in rows.items()} for turn in (0, 1)]
        expected = sum(model(**half).loss for half in (halves if weighting == "objectives" else [rows]))
    assert sum(reported).item() == pytest.approx(float(expected), rel=1e-4)


def test_next_sentences_count_as_the_mean_over_the_rows(bert_world: JointWorld) -> None:
    model = load_model(bert_world.start)
    ids = torch.randint(5, 50, (3, 10), generator=torch.Generator().manual_seed(0))
    labels = torch.where(ids > 30, ids, -100)
    rows = {"input_ids": ids, "labels": labels, "next_sentence_label": torch.tensor([0, 1, 1])}
    with torch.no_grad():
        mean = model(**rows).loss
        with loss_forward(model):
            assert torch.allclose(model(**rows) / (labels != -100).sum(), mean, rtol=1e-5)


def test_phases_name_every_parameter_once(world: JointWorld) -> None:
    model = load_model(world.start)
    there, back = (phase_pattern(model, phase) for phase in ("source-to-target", "target-to-source"))
    for name, _ in model.named_parameters():
        halves = [re.search(half_pattern(model, half), name) is not None for half in ("lower", "upper")]
        assert bool(re.search(there, name)) == (not halves[0] and not IDLE.search(name))
        assert bool(re.search(back, name)) == (not halves[1] and not IDLE.search(name))


def killed(world: JointWorld, output: Path) -> None:
    """Dies after the third step, a checkpoint behind it."""
    import os
    import signal

    from relexify.training.engine.trainer import StageTrainer

    own, count = StageTrainer.training_step, [0]

    def step(self: Any, *inputs: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return own(self, *inputs, **options)

    StageTrainer.training_step = step
    os.environ["RELEXIFY_CACHE"] = str(world.folder / "cache")
    train_direction(
        world.start, output, world.pairs(), TRAINING, direction="source-to-target", held_out=world.held_out["xx"]
    )


def test_a_killed_direction_resumes_to_the_same_bits(bert_world: JointWorld) -> None:
    whole = bert_world.direction("source-to-target")
    output = bert_world.folder / "again"
    assert in_a_process(killed, bert_world, output) == -9
    assert list((bert_world.folder / "again.training").glob("*/checkpoint-2"))
    bert_world.direction("source-to-target", "again")
    assert not changed(whole, output)


def test_two_processes_train_the_same_model_as_one(bert_world: JointWorld) -> None:
    assert_two_processes_train_as_one(bert_world, "source-to-target")


def test_a_direction_learns_to_translate(bert_world: JointWorld) -> None:
    training = replace(TRAINING, steps=50, batch=16)
    output = bert_world.direction("source-to-target", training=training)
    batches = PairBatches(bert_world.pairs(), bert_world.tokenizer)
    rows = batches.batch(list(range(0, 60, 2)))
    with torch.no_grad():
        before, after = (float(load_model(folder)(**rows).loss) for folder in (bert_world.start, output))
    assert after < 0.8 * before


def test_texts_and_options_that_do_not_fit_are_rejected(bert_world: JointWorld) -> None:
    with pytest.raises(InputError, match="odd"):
        bert_world.commonality(training=replace(TRAINING, batch=3))
    with pytest.raises(InputError, match="`length=40` is more than the 39 tokens"):
        bert_world.commonality(training=replace(TRAINING, length=40))
    with pytest.raises(InputError, match="no objective 'x'"):
        bert_world.direction("source-to-target", objective="x")
    plain = bert_world.folder / "plain"
    pico.bert(bert_world.tokenizer).save_pretrained(plain)
    bert_world.tokenizer.save_pretrained(plain)
    with pytest.raises(InputError, match="has no language embeddings"):
        train_specific(
            plain, bert_world.folder / "out", bert_world.texts["xx"], TRAINING, held_out=bert_world.held_out["xx"]
        )
