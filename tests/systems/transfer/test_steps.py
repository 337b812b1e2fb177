"""Kept steps and early checks of a recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from relexify.errors import InputError
from relexify.evidence.vectors import VectorTraining
from relexify.pretrained.loading import load_model
from relexify.systems.compression.folder import compress_folder
from relexify.systems.compression.options import Compression
from relexify.systems.transfer.steps import kept_file, step_name
from tests import pico

TINY = VectorTraining(width=8, epochs=1, minimum_count=1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


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


def test_clusters_are_found_once_and_damaged_ones_again(cache, tmp_path):
    model, tokenizer = pico.pair("gpt2")
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")

    def codes_with(**options) -> np.ndarray:
        compress_folder(tmp_path / "model", tmp_path / "small", Compression(k=2, **options), overwrite=True)
        return load_model(tmp_path / "small").get_input_embeddings().codes.numpy()

    codes_with(codes="digits")
    assert not (cache / "codes").exists()
    first = codes_with(clusters=25)
    (kept,) = (cache / "codes").iterdir()
    written = kept.stat().st_mtime_ns
    assert np.array_equal(codes_with(clusters=25, init="random"), first)
    assert kept.stat().st_mtime_ns == written
    kept.write_bytes(b"damaged")
    assert np.array_equal(codes_with(clusters=25), first)
    assert not np.array_equal(codes_with(clusters=25, equal_size=True), first)
    assert len(list((cache / "codes").iterdir())) == 2
