"""Alignment without a dictionary, or with a small one, from the command line."""

from __future__ import annotations

import numpy as np
import pytest

from relexify.evidence.alignment import Rotation
from relexify.evidence.vectors import WordVectors
from tests.cli.command import relexify
from tests.evidence.alignment.clouds import cloud, turned

WORDS = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Vectors of two languages that are one another's rotation, a third that is not, and the dictionary."""
    root = tmp_path_factory.mktemp("spaces")
    source, target, truth = turned(WORDS, 6, 3, noise=0.02)
    for name, matrix in (("s", source), ("t", target), ("u", cloud(WORDS, 6, 50))):
        words = [f"{name}{row}" for row in range(WORDS)]
        WordVectors(words, matrix.astype(np.float32)).save(root / f"{name}.safetensors")
    (root / "dictionary.tsv").write_text("".join(f"s{row}\tt{index}\n" for row, index in enumerate(truth)))
    return root


def test_two_languages_are_aligned_with_no_dictionary_and_measured_with_one(folder, tmp_path):
    files = folder / "s.safetensors", folder / "t.safetensors"
    output = tmp_path / "rotation.safetensors"
    outcome = relexify("align", *files, "--unsupervised", "--dictionary", folder / "dictionary.tsv", "-o", output)
    assert outcome.status == 0, outcome.err
    assert "precision at 1" in outcome.out
    rotation = Rotation.load(output)
    assert rotation.quality is not None
    assert rotation.quality.precision > 0.9


def test_spaces_that_do_not_fit_are_rejected_in_a_sentence_and_nothing_is_written(folder, tmp_path):
    output = tmp_path / "rotation.safetensors"
    files = folder / "s.safetensors", folder / "u.safetensors"
    outcome = relexify("align", *files, "--unsupervised", "--restarts", 0, "-o", output)
    assert outcome.status == 2
    assert "could not be aligned without a dictionary" in " ".join(outcome.err.split())
    assert not output.exists()


def test_a_small_dictionary_is_extended(folder, tmp_path):
    lines = (folder / "dictionary.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "small.tsv").write_text("".join(lines[:15]))
    files = folder / "s.safetensors", folder / "t.safetensors"
    output = tmp_path / "rotation.safetensors"
    given = ("--dictionary", tmp_path / "small.tsv", "-o", output)
    assert relexify("align", *files, *given).status == 0
    plain = Rotation.load(output)
    assert relexify("align", *files, *given, "--self-learning", "--overwrite").status == 0
    learned = Rotation.load(output)
    assert learned.pairs_used == plain.pairs_used == 15
    assert not np.allclose(learned.matrix, plain.matrix, atol=1e-3)
    both = relexify("align", *files, *given, "--self-learning", "--unsupervised", "--overwrite")
    assert both.status == 2
    assert "choose one of them" in both.err
