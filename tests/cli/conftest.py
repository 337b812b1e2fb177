"""Inputs of commands: models, text in two languages, a dictionary, vectors."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import pico
from tests.cli.command import Outcome, assert_error, relexify

FAMILIES = ("gpt2", "bert", "t5")
SIZE = 330


@dataclass(frozen=True)
class World:
    """Inputs that tests only read."""

    gpt2: Path
    bert: Path
    t5: Path
    corpus: Path
    source_corpus: Path
    dictionary: Path
    source_vectors: Path
    target_vectors: Path
    bitext: Path

    @property
    def vectors(self) -> tuple[object, ...]:
        """Options that give vectors and a dictionary."""
        files = ("--source-vectors", self.source_vectors, "--target-vectors", self.target_vectors)
        return (*files, "--dictionary", self.dictionary)

    @property
    def text(self) -> tuple[object, ...]:
        """Options that give text and the size of the vocabulary."""
        return ("--corpus", self.corpus, "--vocab-size", SIZE)

    def bilingual_recipe(self, model: Path, languages: tuple[str, str], *, save_every: int | None = None) -> str:
        """A recipe: transfer a model, train its embeddings, train it with both languages; four steps each."""
        training = "steps = 4\nbatch = 4\nlength = 16\nlearning_rate = 1e-3\nevaluate_every = 2\nreport_to = []"
        if save_every is not None:
            training += f"\nsave_every = {save_every}"
        return f"""
output = "out"
model = "{model}"
corpus = "{self.corpus}"
[transfer]
method = "fvt"
vocab_size = {SIZE}
[training]
plan = "embeddings-only"
{training}
[bilingual]
languages = ["{languages[0]}", "{languages[1]}"]
source_corpus = "{self.source_corpus}"
[bilingual.training]
{training}
"""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    for family in FAMILIES:
        pico.saved(family, root / family)
    words = sorted({word for line in pico.sentences() for word in line.lower().split() if word.isalpha()})
    draw = random.Random(1)
    foreign = ["".join(draw.choices(["šo", "mü", "ra", "ki", "tên", "lo", "ба"], k=4)) for _ in words]
    (root / "target.txt").write_text("\n".join(pico.sentences(500, seed=3, words=foreign)) + "\n")
    (root / "source.txt").write_text("\n".join(pico.sentences(500, seed=4, words=words)) + "\n")
    (root / "dictionary.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(words, foreign, strict=True)))
    sides = (pico.sentences(200, seed=5, words=side) for side in (words, foreign))
    (root / "bitext.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(*sides, strict=True)))
    for name in ("source", "target"):
        options = ("--width", 16, "--set", "epochs=3", "--set", "minimum_count=1")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RELEXIFY_CACHE", str(root / "cache"))
            trained = relexify("vectors", "train", root / f"{name}.txt", "-o", root / f"{name}.safetensors", *options)
        assert trained.status == 0, trained.err
    return World(
        gpt2=root / "gpt2",
        bert=root / "bert",
        t5=root / "t5",
        corpus=root / "target.txt",
        source_corpus=root / "source.txt",
        dictionary=root / "dictionary.tsv",
        source_vectors=root / "source.safetensors",
        target_vectors=root / "target.safetensors",
        bitext=root / "bitext.tsv",
    )


@pytest.fixture(scope="session")
def transferred(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """The folder of one transfer with all evidence, and the outcome of the command."""
    root = tmp_path_factory.mktemp("transferred")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(root / "cache"))
        patch.setenv("COLUMNS", "160")
        outcome = relexify("transfer", world.gpt2, root / "out", *world.text, *world.vectors)
    assert outcome.status == 0, outcome.err
    return root / "out", outcome


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test, and a terminal that is wide enough for tables."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("RELEXIFY_CACHE", str(folder))
    monkeypatch.setenv("COLUMNS", "160")
    return folder


@pytest.fixture
def rejects(tmp_path: Path) -> Callable[..., None]:
    """Return a check that a command fails with an error that contains the given words, and writes no file."""

    def check(arguments: tuple[object, ...], *words: str) -> None:
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        assert_error(relexify(*arguments), *words)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before

    return check
