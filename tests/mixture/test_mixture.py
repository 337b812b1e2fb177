"""Mixtures: weights, order of evidence, blends, round trips."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save_file
from scipy.sparse import csr_array

from relexify.errors import InputError, VocabularyError
from relexify.mixture import (
    Fallback,
    Mixture,
    Origin,
    blend,
    first_of,
    mixture_of_rows,
    mixture_of_weights,
    rows_to_csr,
    softmax_weights,
)
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.files import Provenance
from relexify.tokens import Vocabulary, vocabulary_of
from tests import pico

SOURCE = vocabulary_of(pico.byte_level(size=280))
TARGET = vocabulary_of(pico.byte_level(size=270))


def mixture(rows, origin=Origin.MIXED, method="test"):
    padded = [*rows, *([[]] * (len(TARGET) - len(rows)))]
    return mixture_of_rows(padded, SOURCE, TARGET, method=method, origin=origin)


@given(
    arrays(np.float32, st.tuples(st.integers(1, 20), st.integers(1, 12)), elements=st.floats(-1, 1, width=32)),
    st.one_of(st.floats(1e-6, 10), st.sampled_from([5e-324, 1e-320, 1e-300, 1e308])),
)
def test_softmax_rows_are_convex_and_finite_down_to_tiny_temperatures(similarities, temperature):
    weights = softmax_weights(similarities, temperature)
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert np.allclose(weights.sum(axis=1), 1)


def test_softmax_equals_the_equation_of_the_paper():
    similarities, temperature = np.array([[0.9, 0.5, -0.2]]), 0.1
    top = [np.exp(value / temperature) for value in similarities[0]]
    assert np.allclose(softmax_weights(similarities, temperature)[0], [value / sum(top) for value in top])


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_softmax_rejects_a_temperature_that_is_not_positive(temperature):
    with pytest.raises(InputError, match="positive"):
        softmax_weights(np.ones((1, 2)), temperature)


def test_rows_to_csr_puts_weights_where_they_belong_in_any_order():
    matrix = rows_to_csr(np.array([3, 0]), np.array([[1, 2], [0, 4]]), np.array([[0.25, 0.75], [1.0, 2.0]]), (5, 6))
    dense = np.zeros((5, 6))
    dense[3, [1, 2]], dense[0, [0, 4]] = [0.25, 0.75], [1, 2]
    assert np.array_equal(matrix.toarray(), dense)


def test_rows_with_repeated_pieces_count_them_as_often_as_they_occur():
    made = mixture([[5, 5, 6, 7]], Origin.PIECES)
    assert made.sources(0) == [(SOURCE.tokens[5], 0.5), (SOURCE.tokens[6], 0.25), (SOURCE.tokens[7], 0.25)]


def test_sources_of_equal_weights_are_listed_as_they_spell_the_token():
    names = ("e", "l", "Ġsh", "u", "Ċ", "Ġschool"), ("Ġshule", "Ġx")
    source, target = (Vocabulary(each, tuple(map(SOURCE.spelling.read, each)), {}, SOURCE.spelling) for each in names)
    weights = [[0.1, 0.1 + 1e-9, 0.1, 0.1, 0.1, 0.5], [0.2, 0.0, 0.0, 0.3, 0.0, 0.5]]
    made = mixture_of_weights(
        csr_array(np.array(weights, np.float32)), source, target, method="test", origin=Origin.MIXED
    )
    assert [token for token, _ in made.sources(0)] == ["Ġschool", "Ġsh", "u", "l", "e", "Ċ"]
    assert [token for token, _ in made.sources(1)] == ["Ġschool", "u", "e"]


def test_apply_equals_the_dense_product():
    made = mixture([[1, 2], [], [3]])
    table = np.random.default_rng(0).standard_normal((len(SOURCE), 4)).astype(np.float32)
    rows = made.apply(table)
    assert np.allclose(rows[0], (table[1] + table[2]) / 2)
    assert np.array_equal(rows[1], np.zeros(4))
    assert np.array_equal(rows[2], table[3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_apply_takes_the_weight_of_a_model(dtype):
    weight = torch.nn.Embedding(len(SOURCE) + 2, 3, dtype=dtype).weight  # requires gradients
    made = mixture([[5, 6], [7]])
    assert np.array_equal(made.apply(weight), made.apply(weight.detach().float().numpy()))


def test_the_first_mixture_that_knows_a_row_wins_and_keeps_its_origin():
    composed = first_of(mixture([[1], [], []], Origin.SPECIAL), mixture([[2], [3], []], Origin.COPIED))
    assert composed.sources(0) == [(SOURCE.tokens[1], 1.0)]
    assert composed.sources(1) == [(SOURCE.tokens[3], 1.0)]
    assert composed.origin[:3].tolist() == [Origin.SPECIAL, Origin.COPIED, Origin.NONE]


def test_a_blend_shares_rows_that_only_one_side_knows():
    composed = blend((0.25, mixture([[1], [2], []])), (0.75, mixture([[3], [], [4]], Origin.COPIED)))
    assert dict(composed.sources(0)) == {SOURCE.tokens[1]: 0.25, SOURCE.tokens[3]: 0.75}
    assert composed.sources(1) == [(SOURCE.tokens[2], 1.0)]
    assert composed.sources(2) == [(SOURCE.tokens[4], 1.0)]
    assert composed.origin[:4].tolist() == [Origin.MIXED, Origin.MIXED, Origin.COPIED, Origin.NONE]


def test_a_blend_of_mixtures_that_agree_on_the_same_token_copies_it():
    copies = mixture([[1], [2], [3]], Origin.COPIED)
    assert copies.origin[:3].tolist() == [Origin.COPIED] * 3
    agreeing = blend((0.25, copies), (0.75, mixture([[1], [2, 4], []])))
    assert agreeing.origin[:3].tolist() == [Origin.COPIED, Origin.MIXED, Origin.COPIED]
    related = blend((0.5, mixture([[1]])), (0.5, mixture([[1]])))  # the same source token, but another word
    assert related.origin[0] == Origin.MIXED


def test_signed_weights_are_kept():
    weights = csr_array(([-0.5, 1.5], ([0, 0], [1, 2])), shape=(len(TARGET), len(SOURCE)))
    made = mixture_of_weights(weights, SOURCE, TARGET, method="signed", origin=Origin.MIXED)
    assert made.sources(0) == [(SOURCE.tokens[2], 1.5), (SOURCE.tokens[1], -0.5)]


def test_saving_and_loading_keeps_everything_and_gives_the_same_bytes(tmp_path):
    made = first_of(mixture([[1, 2], [3]]), mixture([[], [], [4]], Origin.COPIED))
    provenance = Provenance(version="1", command={"method": "test"}, inputs={"a": "b"}, seed=3)
    made.save(tmp_path / "a.safetensors", provenance)
    loaded = Mixture.load(tmp_path / "a.safetensors")
    assert np.array_equal(loaded.weights.toarray(), made.weights.toarray())
    assert np.array_equal(loaded.origin, made.origin)
    assert (loaded.method, loaded.source_tokens, loaded.target_tokens) == (made.method, SOURCE.tokens, TARGET.tokens)
    assert loaded.provenance["inputs"] == {"a": "b"}
    loaded.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_damaged_or_foreign_file_is_rejected_in_one_sentence(tmp_path):
    path = mixture([[1]]).save(tmp_path / "a.safetensors")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="not a readable safetensors file"):
        Mixture.load(path)
    save_arrays(path, {"x": np.zeros(2)}, {"kind": "rotation"})
    with pytest.raises(InputError, match="holds rotation, but mixture is expected"):
        Mixture.load(path)
    with pytest.raises(InputError, match="is not a file"):
        Mixture.load(tmp_path / "missing")


def test_mixtures_of_other_vocabularies_do_not_compose():
    other = mixture_of_rows([[1]] * len(SOURCE), SOURCE, SOURCE, method="x", origin=Origin.MIXED)
    with pytest.raises(VocabularyError, match="cannot be composed"):
        first_of(mixture([[1]]), other)


def test_a_matrix_with_too_few_rows_is_rejected():
    with pytest.raises(VocabularyError, match="source tokens"):
        mixture([[1]]).apply(np.zeros((3, 2)))


def test_the_fallback_of_the_last_mixture_is_kept_by_compositions_and_on_disk(tmp_path):
    narrow = replace(mixture([[1]]), fallback=Fallback.NARROW)
    plain = mixture([[2]])
    assert first_of(plain, narrow).fallback is blend((1, plain), (1, narrow)).fallback is Fallback.NARROW
    assert first_of(narrow, plain).fallback is blend((1, narrow), (1, plain)).fallback is Fallback.SOURCE_ROWS
    assert Mixture.load(narrow.save(tmp_path / "narrow.safetensors")).fallback is Fallback.NARROW
    assert Mixture.load(plain.save(tmp_path / "plain.safetensors")).fallback is Fallback.SOURCE_ROWS


def test_a_mixture_saved_without_a_fallback_gets_the_default(tmp_path):
    arrays, metadata = load_arrays(mixture([[2]]).save(tmp_path / "now.safetensors"), "mixture")
    metadata.pop("fallback")
    save_arrays(tmp_path / "before.safetensors", arrays, metadata)
    assert Mixture.load(tmp_path / "before.safetensors").fallback is Fallback.SOURCE_ROWS


def _saved(path):
    mixture([[1, 2], [3], [0, 4, 5]]).save(path)
    return load_arrays(path, "mixture")


DAMAGE = {
    "index too large": lambda a, m: a["indices"].__setitem__(0, 1 << 30),
    "index beyond the vocabulary": lambda a, m: a["indices"].__setitem__(0, len(SOURCE)),
    "negative index": lambda a, m: a["indices"].__setitem__(0, -1),
    "indptr not monotone": lambda a, m: a["indptr"].__setitem__(1, 5),
    "indptr starts late": lambda a, m: a["indptr"].__setitem__(0, 1),
    "indptr ends late": lambda a, m: a["indptr"].__setitem__(-1, 1 << 40),
    "indptr too short": lambda a, m: a.update(indptr=a["indptr"][:-1]),
    "data too short": lambda a, m: a.update(data=a["data"][:-1]),
    "NaN": lambda a, m: a["data"].__setitem__(0, np.nan),
    "other dtype": lambda a, m: a.update(indices=a["indices"].astype(np.float32)),
    "two-dimensional": lambda a, m: a.update(data=a["data"][None]),
    "no such origin": lambda a, m: a["origin"].__setitem__(0, 200),
    "origins too short": lambda a, m: a.update(origin=a["origin"][:-1]),
    "no origins": lambda a, m: a.pop("origin"),
    "tokens missing": lambda a, m: m.pop("source_tokens"),
    "fewer tokens": lambda a, m: m["target_tokens"].pop(),
    "tokens are numbers": lambda a, m: m.update(source_tokens=list(range(len(SOURCE)))),
    "tokens are a text": lambda a, m: m.update(source_tokens="x" * len(SOURCE)),
    "no method": lambda a, m: m.pop("method"),
    "unknown fallback": lambda a, m: m.update(fallback="none"),
    "unknown spelling": lambda a, m: m["source_spelling"].update(family="none"),
    "spelling with other fields": lambda a, m: m["source_spelling"].update(other=1),
    "spelling is a number": lambda a, m: m.update(target_spelling=3),
}


def test_a_mixture_with_half_a_surrogate_pair_is_rejected(tmp_path):
    found, metadata = _saved(tmp_path / "m.safetensors")
    metadata["target_tokens"][0] = "\ud800"
    copies = {name: array.copy() for name, array in found.items()}
    save_file(copies, tmp_path / "m.safetensors", metadata={"relexify": json.dumps(metadata)})
    with pytest.raises(InputError, match="not a valid mixture"):
        Mixture.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_mixture_is_rejected_by_name_and_never_read_out_of_bounds(tmp_path, damage):
    path = tmp_path / "damaged.safetensors"
    found, metadata = _saved(path)
    changed = {name: array.copy() for name, array in found.items()}
    DAMAGE[damage](changed, metadata)
    save_arrays(path, changed, metadata)
    with pytest.raises(InputError, match=r"damaged\.safetensors.*write it again"):
        Mixture.load(path)


@pytest.mark.parametrize("side", ["source_tokens", "target_tokens"])
def test_mixtures_for_other_tokens_are_not_composed_even_if_the_sizes_match(side):
    one = mixture([[1], [2]])
    tokens = list(getattr(one, side))
    tokens[3], tokens[4] = tokens[4], tokens[3]
    other = replace(one, **{side: tuple(tokens)})
    for compose in (lambda: first_of(one, other), lambda: blend((0.5, one), (0.5, other))):
        with pytest.raises(VocabularyError, match=rf"other {side.partition('_')[0]} tokens \(2 of .* 3: "):
            compose()


def test_a_mixture_is_described_in_one_short_line():
    assert len(repr(mixture([[5, 6], [7]]))) < 150
    assert "mixed 2" in repr(mixture([[5, 6], [7]]))
