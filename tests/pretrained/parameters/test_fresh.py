"""Untrained models can be trained: no row of the embedding is zero."""

from __future__ import annotations

import pytest
import torch

from relexify.pretrained.parameters.fresh import fresh_model
from tests import pico


@pytest.mark.parametrize("family", ["llama tied", "bert"])
def test_the_row_of_the_padding_token_is_drawn_like_the_others(family, tmp_path):
    model, _ = pico.pair(family)
    model.config.pad_token_id = 3
    model.save_pretrained(tmp_path)
    fresh = fresh_model(tmp_path, {}, seed=1)
    rows = fresh.get_input_embeddings().weight.detach()
    assert float(rows[3].std()) == pytest.approx(float(rows.std()), rel=0.5)
    again, other = fresh_model(tmp_path, {}, seed=1), fresh_model(tmp_path, {}, seed=2)
    assert torch.equal(again.get_input_embeddings().weight, rows)
    assert not torch.equal(other.get_input_embeddings().weight[3], rows[3])


def test_the_other_parameters_are_those_that_the_architecture_draws(tmp_path):
    model, _ = pico.pair("llama tied")
    model.config.pad_token_id = 3
    model.save_pretrained(tmp_path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        expected = type(model)(model.config).state_dict()
    for name, tensor in fresh_model(tmp_path, {}, seed=1).state_dict().items():
        kept = torch.arange(len(tensor)) != 3 if tensor.shape[0] == model.config.vocab_size else slice(None)
        assert torch.equal(tensor[kept], expected[name][kept]), name
