"""Worlds that the phases of TreLM are trained in: a model at its start, texts of two languages, and pairs."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from relexify.evidence.bitext import Bitext, Links, encode_bitext
from relexify.pretrained.loading import load_model
from relexify.systems.trelm.data.pairs import AlignedPairs, align_pairs
from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.model.folder import save_with_tokenizers
from relexify.systems.trelm.phases import train_commonality, train_direction
from relexify.training.options import Training
from tests import pico
from tests.processes import in_a_process, in_two_processes
from tests.training.runs import assert_close

ENGLISH, FOREIGN = pico.sentences(60), pico.sentences(60, words=pico.foreign_words())
SIZES = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
TRAINING = Training(steps=4, batch=4, length=24, learning_rate=1e-2, save_every=2, evaluate_every=50, report_to=())
IDLE = re.compile(r"pooler|^next_sentence")


class World:
    """Texts of two languages and pairs in a folder, and the tokenizers of both; a subclass adds the model."""

    def __init__(self, folder: Path, own: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast) -> None:
        self.folder, self.start = folder, folder / "start"
        self.own, self.new = own, new
        self.texts, self.held_out = {}, {}
        for name, text in (("en", ENGLISH), ("xx", FOREIGN)):
            self.texts[name], self.held_out[name] = folder / f"{name}.txt", folder / f"{name}.held.txt"
            self.texts[name].write_text("\n".join(text[:50]))
            self.held_out[name].write_text("\n".join(text[50:]))
        (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(ENGLISH, FOREIGN, strict=True)))

    def pairs(self) -> AlignedPairs:
        encoded = encode_bitext(Bitext.open(self.folder / "pairs.tsv"), self.own, self.new)
        points = [
            (line, index, index)
            for line in range(len(encoded))
            for index in range(0, int(min(encoded.source.lengths[line], encoded.target.lengths[line])), 2)
        ]
        return align_pairs(encoded, Links.from_points(np.array(points)), max_tokens=22)

    def commonality(self, name: str = "commonality", **options: Any) -> Path:
        train_commonality(
            self.start,
            self.folder / name,
            self.texts["xx"],
            self.texts["en"],
            held_out=self.held_out["xx"],
            source_held_out=self.held_out["en"],
            **({"training": TRAINING} | options),
        )
        return self.folder / name

    def direction(self, direction: str, name: str | None = None, **options: Any) -> Path:
        output = self.folder / (name or direction)
        train_direction(
            self.start,
            output,
            self.pairs(),
            direction=direction,
            held_out=self.held_out["xx"],
            **({"training": TRAINING} | options),
        )
        return output


class JointWorld(World):
    """A model with one vocabulary for both languages."""

    def __init__(self, folder: Path, family: str, **options: Any) -> None:
        lines = ENGLISH + FOREIGN
        self.tokenizer = pico.wordpiece(lines, size=300) if family == "bert" else pico.roberta_tokenizer(lines)
        super().__init__(folder, self.tokenizer, self.tokenizer)
        positions = {"bert": 40, "roberta": 42}[family]
        sizes = SIZES | {"vocab_size": len(self.tokenizer), "max_position_embeddings": positions}
        sizes |= {"pad_token_id": self.tokenizer.pad_token_id}
        with torch.random.fork_rng():
            torch.manual_seed(0)
            backbone = (
                BertForPreTraining(BertConfig(**sizes))
                if family == "bert"
                else RobertaForMaskedLM(RobertaConfig(**sizes, type_vocab_size=1))
            )
        with_trilayer(backbone, ("en", "xx"), **options).save_pretrained(self.start)
        self.tokenizer.save_pretrained(self.start)


class SeparateWorld(World):
    """Two models with one encoder, joined, each with its own vocabulary."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, pico.wordpiece(ENGLISH, size=150), pico.wordpiece(FOREIGN, size=220))
        sizes = SIZES | {"max_position_embeddings": 40, "pad_token_id": 0}
        with torch.random.fork_rng():
            torch.manual_seed(0)
            source = BertForPreTraining(BertConfig(**sizes, vocab_size=len(self.own)))
            target = BertForMaskedLM(BertConfig(**sizes, vocab_size=len(self.new)))
        shared = {n: v for n, v in source.state_dict().items() if n in target.state_dict() and "word_emb" not in n}
        target.load_state_dict(
            {n: v for n, v in shared.items() if v.shape == target.state_dict()[n].shape}, strict=False
        )
        model = with_trilayer(source, ("en", "xx"), target=target)
        self.start.mkdir(parents=True)
        save_with_tokenizers(model, (self.own, self.new), self.start)


def changed(before: Path, after: Path) -> set[str]:
    first, second = (dict(load_model(folder).named_parameters()) for folder in (before, after))
    return {name for name in first if not torch.equal(first[name], second[name])}


def names_of(folder: Path) -> set[str]:
    return {name for name, _ in load_model(folder).named_parameters()}


def assert_two_processes_train_as_one(world: World, direction: str) -> None:
    model = load_model(world.start)
    model.config.backbone.hidden_dropout_prob = model.config.backbone.attention_probs_dropout_prob = 0.0
    model.save_pretrained(world.start)
    assert in_a_process(_train_in_a_process, world, direction, "one") == 0
    assert in_two_processes(_train_in_a_process, world, direction, "two") == 0
    assert_close(world.folder / "one", world.folder / "two")


def _train_in_a_process(world: World, direction: str, name: str) -> None:
    os.environ["RELEXIFY_CACHE"] = str(world.folder / "cache")
    world.direction(direction, name, training=replace(TRAINING, batch=8))
