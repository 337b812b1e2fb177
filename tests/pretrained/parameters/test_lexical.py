"""Which parameters belong to the vocabulary is found out once per model, and again when its shapes change."""

from __future__ import annotations

import pytest
import torch
from transformers import BertForMaskedLM

from relexify.errors import GraftError
from relexify.pretrained.parameters.lexical import lexical_axes, resize
from tests import pico


def test_a_model_is_examined_once_and_again_when_its_shapes_change(monkeypatch):
    model, _ = pico.pair("bert")
    twins, own = [], BertForMaskedLM.__init__

    def counted(twin, config):
        twins.append(twin)
        own(twin, config)

    monkeypatch.setattr(BertForMaskedLM, "__init__", counted)
    axes = lexical_axes(model)
    lexical_axes(model).clear()  # a copy: nobody changes what is remembered
    assert lexical_axes(model) == axes != {}
    assert len(twins) == 1
    resize(model, 250)
    assert lexical_axes(model) == axes
    assert len(twins) == 2
    model.extra = torch.nn.Parameter(torch.zeros(250))
    with pytest.raises(GraftError, match=r"does not resize extra \[250\] together with its 250 tokens"):
        lexical_axes(model)
