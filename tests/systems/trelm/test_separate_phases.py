"""The phases of TreLM with a vocabulary for each language."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from relexify.evidence.bitext import Bitext, Links, encode_bitext
from relexify.pretrained.architecture import IGNORED
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.systems.trelm.data.batches import PairBatches
from relexify.systems.trelm.data.pairs import align_pairs
from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.systems.trelm.model.folder import load_tokenizers
from relexify.systems.trelm.parameters import half_pattern
from relexify.systems.trelm.phases import combine_directions, train_commonality, train_specific
from tests import pico
from tests.systems.trelm.world import (
    FOREIGN,
    IDLE,
    TRAINING,
    SeparateWorld,
    assert_two_processes_train_as_one,
    changed,
    names_of,
)

DECODER = re.compile(r"^head\.source_decoder\.")
WORDS = "model.source_words.weight"


@pytest.fixture
def world(tmp_path: Path, cache: Path) -> SeparateWorld:
    return SeparateWorld(tmp_path)


def whole(rows: dict[str, torch.Tensor], index: int) -> list[int]:
    """A row as it was before tokens were masked."""
    real = rows["attention_mask"][index] == 1
    filled = torch.where(rows["labels"][index] == IGNORED, rows["input_ids"][index], rows["labels"][index])
    return filled[real].tolist()


def test_pairs_are_framed_masked_and_padded_by_the_vocabulary_of_their_language(world: SeparateWorld) -> None:
    other = pico.roberta_tokenizer(FOREIGN)
    encoded = encode_bitext(Bitext.open(world.folder / "pairs.tsv"), world.own, other)
    pairs = align_pairs(encoded, Links.from_points(np.array([(n, 0, 0) for n in range(60)])), max_tokens=80)
    frames = {0: (world.own.cls_token_id, world.own.sep_token_id), 1: (other.cls_token_id, other.sep_token_id)}
    padding = {0: world.own.pad_token_id, 1: other.pad_token_id}
    assert frames[0] != frames[1]
    assert padding[0] != padding[1]
    for direction, read in (("source-to-target", 0), ("target-to-source", 1)):
        rows = PairBatches(pairs, (world.own, other), direction=direction, masking=0.5).batch(list(range(40)))
        for index in range(40):
            reads, writes = int(rows["languages"][index]), int(rows["target_languages"][index])
            assert (reads, writes) == ((read, 1 - read) if index % 2 == 0 else (1, 1))
            real = rows["attention_mask"][index] == 1
            ids = rows["input_ids"][index]
            assert (int(ids[real][0]), int(ids[real][-1])) == frames[reads]
            assert set(ids[~real].tolist()) <= {padding[reads]}
            labelled = rows["labels"][index][rows["target_attention_mask"][index] == 1]
            if index % 2 == 0:
                assert (int(labelled[0]), int(labelled[-1])) == frames[writes]
                order = rows["order"][index][rows["target_attention_mask"][index] == 1].tolist()
                assert (order[0], order[-1]) == (0, int(real.sum()) - 1)
            else:
                hidden = ids[real][labelled != IGNORED]
                assert (hidden == other.mask_token_id).float().mean() > 0.5
    assert UNALIGNED in rows["order"]


@pytest.mark.parametrize("objective", ["tlm", "brlm"])
def test_both_sentences_in_one_sequence_keep_their_vocabularies(world: SeparateWorld, objective: str) -> None:
    pairs = world.pairs()
    lengths = np.array([sum(len(side.ids) for side in pairs.pair(number)) for number in range(len(pairs))])
    pairs = replace(pairs, lines=pairs.lines[lengths <= 36])
    batches = PairBatches(
        pairs, (world.own, world.new), objective=objective, masking=0.5, direction="target-to-source", length=39
    )
    rows = batches.batch(list(range(0, 40, 2)))
    framed = [
        [world.new.cls_token_id, *y.ids, world.new.sep_token_id, *x.ids, world.own.sep_token_id]
        for x, y in map(pairs.pair, range(len(pairs)))
    ]
    for index in range(20):
        assert whole(rows, index) in framed
        real = rows["attention_mask"][index] == 1
        for language, tokenizer in enumerate((world.own, world.new)):
            own = real & (rows["languages"][index] == language)
            assert int(rows["input_ids"][index][own].max()) < len(tokenizer)
    padded = rows["attention_mask"] == 0
    assert (rows["languages"][padded] == 0).all()
    assert (rows["input_ids"][padded] == world.own.pad_token_id).all()
    model = load_model(world.start)
    with torch.no_grad():
        assert torch.isfinite(model(**rows).loss)


def test_commonality_trains_both_tables_and_scores_both_languages(world: SeparateWorld) -> None:
    output = world.folder / "out"
    result = train_commonality(
        world.start, output, world.texts["xx"], world.texts["en"], TRAINING,
        held_out=world.held_out["xx"], source_held_out=world.held_out["en"],
    )  # fmt: skip
    moved = changed(world.start, output)
    assert not any(".backbone.encoder." in name for name in moved)
    wanted = {
        WORDS,
        "model.backbone.embeddings.word_embeddings.weight",
        "head.decoder.bias",
        "head.source_decoder.bias",
    }
    assert wanted | {"model.placeholder"} <= moved
    assert set(result.curve.points[-1].by_language) == {"en", "xx"}
    first, second = load_tokenizers(output, load_model(output).config)
    assert (first.get_vocab(), second.get_vocab()) == (world.own.get_vocab(), world.new.get_vocab())
    assert load_tokenizer(output).get_vocab() == world.new.get_vocab()


@pytest.mark.parametrize(("direction", "frozen"), [("source-to-target", "lower"), ("target-to-source", "upper")])
def test_a_direction_keeps_one_half_bit_for_bit_and_trains_all_else(
    world: SeparateWorld, direction: str, frozen: str
) -> None:
    output = world.direction(direction)
    moved, model = changed(world.start, output), load_model(output)
    kept = {name for name in names_of(output) if re.search(half_pattern(model, frozen), name)}
    assert kept
    assert not moved & kept
    assert {WORDS, "model.backbone.embeddings.word_embeddings.weight"} <= moved
    still = names_of(output) - moved - kept
    unwritten = "head.source_decoder.bias"  # on the way from the source language nothing is written in it
    assert (unwritten in still) == (direction == "source-to-target")
    still.discard(unwritten)
    assert all(IDLE.search(name) or name.endswith("attention.self.key.bias") for name in still), still


def test_two_directions_are_combined_and_the_last_phase_leaves_the_source_vocabulary_alone(
    world: SeparateWorld,
) -> None:
    there, back = world.direction("source-to-target"), world.direction("target-to-source")
    both, output = world.folder / "combined", world.folder / "out"
    combine_directions(there, back, both)
    first, second, found = (dict(load_model(folder).named_parameters()) for folder in (there, back, both))
    for name, value in found.items():
        index = int(name.split(".")[4]) if name.startswith("model.backbone.encoder.layer.") else None
        mean = (first[name] + second[name]) / 2
        assert torch.equal(value, mean if index is None else second[name] if index < 2 else first[name]), name
    train_specific(both, output, world.texts["xx"], TRAINING, held_out=world.held_out["xx"])
    moved = changed(both, output)
    assert not any(name == WORDS or DECODER.search(name) for name in moved)
    assert {"model.backbone.embeddings.word_embeddings.weight", "next_sentence.weight"} <= moved
    assert load_tokenizers(output, load_model(output).config)[0].get_vocab() == world.own.get_vocab()


def test_a_direction_learns_to_translate(world: SeparateWorld) -> None:
    output = world.direction("source-to-target", training=replace(TRAINING, steps=50, batch=16))
    rows = PairBatches(world.pairs(), (world.own, world.new), length=39).batch(list(range(0, 60, 2)))
    with torch.no_grad():
        before, after = (float(load_model(folder)(**rows).loss) for folder in (world.start, output))
    assert after < 0.8 * before


def test_two_processes_train_the_same_model_as_one(world: SeparateWorld) -> None:
    assert_two_processes_train_as_one(world, "target-to-source")
