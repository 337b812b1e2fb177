"""Explained variance and similarities of layers against plain loops, and their pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relexify.errors import EvidenceError, InputError
from relexify.reports import (
    HiddenStates,
    embedding_changes,
    hidden_states,
    layer_similarities,
    neighbourhood,
    plot_embedding,
    plot_neighbourhoods,
    plot_similarities,
    plot_states,
    principal_components,
)
from relexify.systems.trelm.model.building import with_trilayer
from tests import pico


def test_explained_variance_is_that_of_a_singular_value_decomposition():
    rows = np.random.default_rng(0).normal(size=(80, 6)) * np.array([5, 3, 1, 0.5, 0.2, 0.1]) + 7
    found = principal_components(rows, 3)
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    assert np.allclose(found.ratios, values[:3] / values.sum(), atol=1e-5)
    assert np.allclose(found.points.var(axis=0, ddof=1), values[:3] / 79, rtol=1e-4)
    assert found.explained == pytest.approx(values[:3].sum() / values.sum(), abs=1e-5)


def test_similarities_are_the_mean_cosines_of_all_pairs_of_positions():
    model, _ = pico.pair("gpt2")
    windows = [[5, 6, 5, 7], [6, 5, 9, 9]]
    found = layer_similarities(hidden_states(model, windows))
    with torch.no_grad():
        states = [model(torch.tensor([window]), output_hidden_states=True).hidden_states for window in windows]
    ids = [token for window in windows for token in window]
    for layer, (inter, intra) in enumerate(zip(found.inter, found.intra, strict=True)):
        vectors = torch.cat([each[layer][0] for each in states])
        cosine = torch.nn.functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1).double()
        different = [cosine[a, b] for a in range(8) for b in range(8) if ids[a] != ids[b]]
        same = [
            np.mean([cosine[a, b] for a in range(8) for b in range(8) if a != b and ids[a] == ids[b] == token])
            for token in (5, 6, 9)
        ]
        assert inter == pytest.approx(float(np.mean(different)), abs=1e-5)
        assert intra == pytest.approx(float(np.mean(same)), abs=1e-5)
    assert found.positions == 8
    assert len(found.inter) == 3


def test_a_state_of_zeros_has_a_cosine_of_zero_with_every_state():
    units = np.array([[1, 0], [0, 0], [0.6, 0.8], [1, 0]])
    found = layer_similarities(HiddenStates(np.array([7, 7, 8, 8]), (units,)))
    assert found.inter == pytest.approx([(0.6 + 1 + 0 + 0) / 4])
    assert found.intra == pytest.approx([(0 + 0.6) / 2])


def test_special_tokens_around_a_window_are_read_and_not_compared():
    model, _ = pico.pair("bert")
    found = layer_similarities(hidden_states(model, [[7, 8, 9], [8, 7]], before=[2], after=[3]))
    with torch.inference_mode():
        states = [
            model(torch.tensor([row]), output_hidden_states=True).hidden_states[-1][0, 1:-1]
            for row in ([2, 7, 8, 9, 3], [2, 8, 7, 3])
        ]
    units = torch.nn.functional.normalize(torch.cat(states).double(), dim=-1)
    ids = [7, 8, 9, 8, 7]
    different = [float(units[a] @ units[b]) for a in range(5) for b in range(5) if ids[a] != ids[b]]
    assert found.positions == 5
    assert found.inter[-1] == pytest.approx(np.mean(different), abs=1e-5)


def test_text_of_one_token_is_rejected():
    with pytest.raises(EvidenceError, match="fewer than two different tokens"):
        hidden_states(pico.pair("gpt2")[0], [[3, 3, 3]])


def test_a_trilayer_s_placeholder_is_no_position_of_the_text():
    model = with_trilayer(pico.pair("bert")[0])
    found = hidden_states(model, [[5, 6, 5, 7], [6, 9]])
    assert len(found.layers) == 4  # two layers of the BERT, the TRILayer, and what goes into the first
    assert {len(layer) for layer in found.layers} == {6}


def test_the_most_frequent_tokens_are_chosen_among_those_that_may_be():
    states = HiddenStates(np.array([4, 2, 2, 1, 1, 1, 3, 3]), ())
    assert states.most_frequent(np.ones(5, bool), 3) == [1, 2, 3]
    assert states.most_frequent(np.array([True, False, True, True, False]), 9) == [2, 3]


def test_neighbours_are_the_words_with_the_highest_cosines():
    rows = np.random.default_rng(3).normal(size=(40, 5)) * np.geomspace(1, 50, 40)[:, None]
    words = [f"w{index}" for index in range(40)]
    found = neighbourhood(rows, words, 7, count=6)
    cosines = {
        word: float(row @ rows[7] / np.linalg.norm(row) / np.linalg.norm(rows[7]))
        for word, row in zip(words, rows, strict=True)
        if word != "w7"
    }
    assert list(found.words) == ["w7", *sorted(cosines, key=cosines.__getitem__, reverse=True)[:6]]
    assert np.allclose(found.cosines, list(cosines.values()), atol=1e-5)
    chosen = rows[[int(word[1:]) for word in found.words]]
    assert np.allclose(np.abs(found.points), np.abs(principal_components(chosen, 2).points))


def test_pictures_are_written_and_repeat_byte_for_byte(tmp_path):
    points = principal_components(np.random.default_rng(1).normal(size=(50, 8)))
    panels = {"plain": (points, None), "small": (points, np.arange(50) % 9)}
    states = hidden_states(pico.pair("gpt2")[0], [[5, 6, 5, 7]])
    found, near = layer_similarities(states), neighbourhood(points.points, [f"w{index}" for index in range(50)], 0)
    for name in ("first", "second"):
        plot_embedding(panels, tmp_path / f"{name}.png")
        plot_similarities({"a": found, "b": found}, tmp_path / f"{name}.svg")
        plot_states({"a": (states, {5: "the"}), "b": (states, {})}, tmp_path / f"{name}.states.svg")
        plot_neighbourhoods({"a": near, "b": near}, tmp_path / f"{name}.near.svg")
    for kind in ("png", "svg", "states.svg", "near.svg"):
        assert (tmp_path / f"first.{kind}").read_bytes() == (tmp_path / f"second.{kind}").read_bytes()
    assert "mean cosine" in (tmp_path / "first.svg").read_text()
    assert (tmp_path / "first.states.svg").read_text().count("layer 2") == 2
    assert ">the<" in (tmp_path / "first.states.svg").read_text()
    assert ">w0<" in (tmp_path / "first.near.svg").read_text()
    with pytest.raises(InputError, match="not the name of a picture"):
        plot_similarities({"a": found}, tmp_path / "first.txt")
    with pytest.raises(InputError, match="nothing to draw"):
        plot_embedding({}, tmp_path / "first.svg")


def test_changes_of_embeddings_are_means_over_tenths_of_the_vocabulary_in_the_order_of_ids():
    generator = np.random.default_rng(0)
    before = generator.normal(size=(25, 4))
    before[7] = 0.0  # was not there before
    after = before.copy()
    after[:10] = -2 * before[:10]  # the first tokens are turned round and doubled
    after[10:20] += generator.normal(size=(10, 4))
    first, second, third = embedding_changes(before, after, groups=3)
    assert [(change.first, change.last) for change in (first, second, third)] == [(0, 8), (9, 16), (17, 24)]
    assert (first.cosine, first.distance) == (pytest.approx(-1), pytest.approx(3))
    ids = range(9, 17)
    cosines = [before[i] @ after[i] / np.linalg.norm(before[i]) / np.linalg.norm(after[i]) for i in ids]
    assert second.cosine == pytest.approx(np.mean(cosines))
    distances = [np.linalg.norm(after[i] - before[i]) / np.linalg.norm(before[i]) for i in ids]
    assert second.distance == pytest.approx(np.mean(distances))
    assert third.cosine > second.cosine
    with pytest.raises(EvidenceError, match="two states of one model"):
        embedding_changes(before, after[:9])
