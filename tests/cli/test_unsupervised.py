"""Alignment without a dictionary, from the command line."""

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


def test_spaces_that_do_not_fit_are_rejected_in_a_sentence_and_nothing_is_written(folder, tmp_path, monkeypatch):
    from relexify.evidence.alignment.unsupervised import options

    short = options.AdversarialTraining(restarts=1, epochs=1, steps=20)
    monkeypatch.setattr(options, "AdversarialTraining", lambda: short)
    output = tmp_path / "rotation.safetensors"
    files = folder / "s.safetensors", folder / "u.safetensors"
    outcome = relexify("align", *files, "--unsupervised", "-o", output)
    assert outcome.status == 2
    assert "could not be aligned without a dictionary" in " ".join(outcome.err.split())
    assert not output.exists()
