from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relexify.errors import InputError
from relexify.evidence.alignment import Rotation
from relexify.evidence.vectors import Ngrams, WordVectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.storage.arrays import load_arrays, save_arrays
from tests.evidence.vectors.fasttext_file import FastTextFile

GENERATOR = np.random.default_rng(1)
KNOWN = np.array([2, 3, 11])
FULL = WordVectors(
    ["das", "", "häuser", "家"],
    GENERATOR.standard_normal((4, 6), np.float32),
    np.array([9, 5, 5, 1]),
    Ngrams(GENERATOR.standard_normal((3, 6), np.float32), 2, 3, 12, KNOWN),
    GENERATOR.standard_normal((6, 6)),
)


def test_everything_survives_saving_and_loading(tmp_path: Path) -> None:
    path = FULL.save(tmp_path / "vectors.safetensors", {"provenance": {"seed": 0}})
    loaded = WordVectors.load(path)
    assert loaded.words == FULL.words
    for name in ("matrix", "counts", "rotation"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(FULL, name))
    np.testing.assert_array_equal(loaded.ngrams.known, KNOWN)
    words = ["das", "neu", "", "家"]
    np.testing.assert_array_equal(loaded.lookup(words), FULL.lookup(words))
    assert isinstance(loaded.matrix, np.memmap)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(), max_size=6), min_size=1, max_size=8))
def test_any_words_survive_saving_and_loading(tmp_path: Path, words: list[str]) -> None:
    vectors = WordVectors(words, np.ones((len(words), 2), np.float32))
    assert load_vectors(vectors.save(tmp_path / "words.safetensors")).words == words


def test_a_mapped_fasttext_model_can_be_saved(tmp_path: Path, write_fasttext: Callable[..., Path]) -> None:
    model = load_vectors(write_fasttext())
    saved = load_vectors(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(saved.lookup(["haus", "neu"]), model.lookup(["haus", "neu"]))


def test_the_same_vectors_give_the_same_bytes(tmp_path: Path) -> None:
    assert FULL.save(tmp_path / "a").read_bytes() == FULL.save(tmp_path / "b").read_bytes()


def test_a_limit_keeps_the_most_frequent_words_of_any_format(
    tmp_path: Path, write_fasttext: Callable[..., Path]
) -> None:
    assert load_vectors(write_fasttext(), limit=2).words == ["</s>", "haus"]
    assert load_vectors(FULL.save(tmp_path / "saved"), limit=1).words == ["das"]
    with pytest.raises(InputError, match="A limit of 0 words leaves no vectors"):
        load_vectors(tmp_path / "saved", limit=0)


def test_files_that_are_not_vectors_are_rejected(tmp_path: Path) -> None:
    empty, packed, archive = tmp_path / "empty", tmp_path / "model.bin.gz", tmp_path / "wiki.zip"
    empty.write_bytes(b"")
    packed.write_bytes(gzip.compress(FastTextFile().content()))
    archive.write_bytes(b"PK\x03\x04rest")
    expected = {
        tmp_path: "is a folder: give the file of word vectors inside it",
        tmp_path / "missing": "cannot be read .No such file",
        Path("/dev/zero"): "is not a regular file",
        empty: "is empty",
        packed: "is a compressed fastText model: unpack it",
        archive: "is a zip archive: unpack it",
    }
    for path, message in expected.items():
        with pytest.raises(InputError, match=message) as caught:
            load_vectors(path)
        assert str(path) in str(caught.value)


def test_another_artifact_and_an_incomplete_one_are_rejected(tmp_path: Path) -> None:
    foreign = save_arrays(tmp_path / "foreign", {"matrix": np.eye(2)}, {"kind": "mixture"})
    with pytest.raises(InputError, match="holds mixture, but word vectors is expected"):
        load_vectors(foreign)
    incomplete = save_arrays(tmp_path / "incomplete", {"matrix": np.eye(2)}, {"kind": "word vectors"})
    with pytest.raises(InputError, match="is not a complete file of word vectors"):
        load_vectors(incomplete)
    arrays = {"matrix": np.eye(2), "words": np.frombuffer(b"abc", np.uint8), "offsets": np.array([0, 1, 2, 3])}
    uneven = save_arrays(tmp_path / "uneven", arrays, {"kind": "word vectors", "ngrams": None})
    with pytest.raises(InputError, match="holds 3 words and 2 rows"):
        load_vectors(uneven)


@pytest.mark.parametrize("damage", ["matrix", "rotation", "ngrams", "known", "buckets", "metadata"])
def test_a_file_whose_arrays_do_not_fit_each_other_is_rejected(tmp_path, damage):
    ngrams = Ngrams(np.ones((2, 3), np.float32), 3, 6, 10, known=np.array([1, 4]))
    vectors = WordVectors(["a", "b"], np.eye(2, 3, dtype=np.float32), None, ngrams, np.eye(3))
    path = vectors.save(tmp_path / "x.safetensors")
    assert load_vectors(path).width == 3
    arrays, metadata = load_arrays(path, "word vectors")
    changed = {name: array.copy() for name, array in arrays.items()}
    if damage == "buckets":
        metadata["ngrams"]["buckets"] = "many"
    elif damage == "metadata":
        metadata["ngrams"] = 3
    else:
        changed[damage] = changed[damage][:, :2] if damage == "matrix" else changed[damage][:1]
    save_arrays(path, changed, metadata)
    with pytest.raises(InputError, match=r"x\.safetensors.*write it again"):
        load_vectors(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": np.array(3)},
        {"known": np.array(3)},
        {"known": np.array([1.0, 4.0])},
        {"words": np.frombuffer(b"a", np.uint8)},
        {"words": np.frombuffer(b"abc", np.uint8)},
        {"offsets": np.array([0, 2, 1])},
        {"offsets": np.array([0, -1, 2])},
        {"ngrams": np.ones((2, 3), np.int64)},
    ],
    ids="-".join,
)
def test_lists_of_the_wrong_type_and_words_that_are_cut_off_are_rejected(tmp_path, changes):
    ngrams = Ngrams(np.ones((2, 3), np.float32), 3, 6, 10, known=np.array([1, 4]))
    vectors = WordVectors(["a", "b"], np.eye(2, 3, dtype=np.float32), np.array([5, 4]), ngrams)
    path = vectors.save(tmp_path / "x.safetensors")
    arrays, metadata = load_arrays(path, "word vectors")
    save_arrays(path, {**{name: array.copy() for name, array in arrays.items()}, **changes}, metadata)
    with pytest.raises(InputError, match=r"x\.safetensors.*write it again"):
        load_vectors(path)


@pytest.mark.parametrize("damage", ["nan", "vector", "matrix", "direction", "coverage", "quality"])
def test_a_damaged_rotation_is_rejected(tmp_path, damage):
    path = Rotation(np.eye(3), 5, 0.5).save(tmp_path / "x.safetensors")
    arrays, facts = load_arrays(path, "rotation")
    matrix = {"nan": np.full((3, 3), np.nan), "vector": np.ones(3)}.get(damage, arrays["matrix"])
    facts.update({"direction": {"direction": "up"}, "quality": {"quality": 5}}.get(damage, {}))
    if damage == "coverage":
        del facts["coverage"]
    save_arrays(path, {} if damage == "matrix" else {"matrix": matrix.copy()}, facts)
    with pytest.raises(InputError, match=r"x\.safetensors.*write it again"):
        Rotation.load(path)
