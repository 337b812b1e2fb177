"""Precomputed rows, which are not mixtures of source rows, replace those of the mixture."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from relexify.errors import VocabularyError
from relexify.grafting import graft
from relexify.methods.baselines import random
from relexify.mixture import PrecomputedRows
from tests import pico


def rows(ids: list[int], width: int = pico.WIDTH) -> PrecomputedRows:
    values = np.random.default_rng(0).normal(size=(len(ids), width)).astype(np.float32)
    return PrecomputedRows(np.array(ids, dtype=np.int64), values)


def test_ready_rows_are_written_and_all_others_are_as_without_them():
    model, source = pico.pair("bert")
    target = pico.wordpiece(pico.sentences(words=pico.foreign_words()))
    mixture = random(source, target)
    chosen = rows([7, 30, 12])
    plain, result = graft(model, target, mixture), graft(model, target, mixture, precomputed=chosen)
    embedding = result.model.get_input_embeddings().weight.detach()
    assert torch.equal(embedding[chosen.ids], torch.from_numpy(chosen.vectors))
    others = np.setdiff1d(np.arange(len(target)), chosen.ids)
    assert torch.equal(embedding[others], plain.model.get_input_embeddings().weight.detach()[others])
    assert torch.equal(result.model.get_output_embeddings().weight, embedding)
    assert result.report.origins["precomputed"] == 3
    assert sum(result.report.origins.values()) == len(mixture)


def test_an_untied_output_embedding_keeps_the_mixture_with_a_warning(caplog):
    tokenizer = pico.byte_level()
    model = pico.llama_untied(tokenizer)
    mixture = random(tokenizer, tokenizer)
    with caplog.at_level(logging.WARNING):
        result = graft(model, tokenizer, mixture, precomputed=rows([300]))
    assert "not tied" in caplog.text
    plain = graft(model, tokenizer, mixture)
    assert torch.equal(result.model.get_output_embeddings().weight, plain.model.get_output_embeddings().weight)


def test_rows_that_do_not_fit_the_model_are_rejected():
    model, source = pico.pair("bert")
    mixture = random(source, source)
    for wrong in (rows([3], width=5), rows([len(mixture)])):
        with pytest.raises(VocabularyError, match="do not fit an embedding"):
            graft(model, source, mixture, precomputed=wrong)


def test_rows_without_ids_repeated_ids_and_nan_are_rejected():
    vectors = np.zeros((2, 4), np.float32)
    for ids, values, message in (
        ([1], vectors, "a row per id"),
        ([1, 1], vectors, "each token once"),
        ([1, 2], vectors + np.nan, "NaN"),
    ):
        with pytest.raises(VocabularyError, match=message):
            PrecomputedRows(np.array(ids), values)


def test_rows_of_an_untied_output_embedding_are_written_too():
    tokenizer = pico.byte_level()
    model = pico.llama_untied(tokenizer)
    both = PrecomputedRows(np.array([300]), rows([300]).vectors, -rows([300]).vectors)
    result = graft(model, tokenizer, random(tokenizer, tokenizer), precomputed=both).model
    assert torch.equal(result.get_input_embeddings().weight[300], torch.from_numpy(both.vectors[0]))
    assert torch.equal(result.get_output_embeddings().weight[300], torch.from_numpy(-both.vectors[0]))
