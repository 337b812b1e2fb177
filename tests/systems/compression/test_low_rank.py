"""Embeddings of two factors: exact where the rank suffices, saved, loaded, expanded and trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relexify.errors import InputError
from relexify.pretrained.loading import load_model
from relexify.systems.compression.compress import compressed
from relexify.systems.compression.low_rank import LowRankEmbedding, LowRankHead
from relexify.systems.compression.model import expanded, is_compressed
from relexify.systems.compression.options import Compression
from relexify.training.engine.freezing import trained_names
from relexify.training.loss.chunked import chunked_loss
from relexify.training.protocol import chunked_head
from tests import pico
from tests.systems.compression.test_model import logits

RANK = 5


def low_rank(family):
    """A model whose embedding, and head if it has one of its own, has the rank 5."""
    model, _ = pico.pair(family)
    for rows in {model.get_input_embeddings().weight, model.get_output_embeddings().weight}:
        left, values, right = np.linalg.svd(rows.detach().numpy(), full_matrices=False)
        rows.data.copy_(torch.from_numpy(left[:, :RANK] * values[:RANK] @ right[:RANK]))
    return model


@pytest.mark.parametrize("family", pico.FAMILIES)
def test_factors_of_a_sufficient_rank_give_the_same_logits_saved_loaded_and_expanded(family, tmp_path):
    model = low_rank(family)
    small, report = compressed(model, Compression(rank=RANK, head="compress"))
    tokens, width = model.get_input_embeddings().weight.shape
    assert report.shapes == [(tokens, RANK), (RANK, width)]
    assert report.error < 1e-5
    assert report.embedding_after < report.embedding_before
    assert torch.allclose(logits(small), logits(model), atol=1e-4)
    small.save_pretrained(tmp_path / "small")
    loaded = load_model(tmp_path / "small")
    assert is_compressed(loaded)
    assert isinstance(loaded.get_input_embeddings(), LowRankEmbedding)
    assert torch.equal(logits(loaded), logits(small))
    assert sum(each.numel() for each in loaded.parameters()) == report.model_after
    expanded(loaded).save_pretrained(tmp_path / "plain")
    plain = type(model).from_pretrained(tmp_path / "plain")  # transformers alone
    assert torch.allclose(logits(plain), logits(small), atol=1e-5)


def test_factors_have_the_same_root_mean_square_and_the_product_of_the_truncated_svd():
    model, _ = pico.pair("llama untied")
    small, _ = compressed(model, Compression(rank=RANK, head="compress"))
    heads = (model.get_output_embeddings(), small.get_output_embeddings().embedding)
    for dense, factored in ((model.get_input_embeddings(), small.get_input_embeddings()), heads):
        coordinates, basis = (factor.detach().square().mean().sqrt() for factor in factored.parameters())
        assert torch.allclose(coordinates, basis, rtol=1e-5)
        left, values, right = torch.linalg.svd(dense.weight.detach(), full_matrices=False)
        assert torch.allclose(factored.weight, left[:, :RANK] * values[:RANK] @ right[:RANK], atol=1e-5)


def test_factors_of_an_embedding_of_zeros_are_finite():
    model, _ = pico.pair("llama tied")
    model.get_input_embeddings().weight.data.zero_()
    small, report = compressed(model, Compression(rank=RANK))
    assert report.error == 0.0
    assert all(factor.isfinite().all() for factor in small.get_input_embeddings().parameters())


def test_the_error_includes_the_rounding_of_the_factors():
    model = low_rank("llama tied").bfloat16()
    small, report = compressed(model, Compression(rank=RANK))
    rows, found = (each.get_input_embeddings().weight.detach().float() for each in (model, small))
    assert report.error == pytest.approx(float((rows - found).norm() / rows.norm()), rel=1e-4)


def test_the_loss_in_chunks_is_that_of_the_logits_and_reaches_both_factors():
    small, _ = compressed(pico.pair("bert")[0], Compression(rank=RANK))
    head = small.get_output_embeddings()
    assert isinstance(head, LowRankHead)
    hidden, labels = torch.randn(7, head.in_features), torch.randint(head.out_features, (7,))
    factors = [head.embedding.coordinates, head.embedding.basis]
    expected = torch.nn.functional.cross_entropy(head(hidden), labels, reduction="sum")
    gradients = torch.autograd.grad(expected, factors)
    protocol = chunked_head(head)
    assert protocol is head
    found = chunked_loss(hidden, head.loss_weight(), head.bias, labels, chunk=3, loss=head.chunk_loss())
    assert torch.allclose(found, expected)
    for one, other in zip(torch.autograd.grad(found, factors), gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_both_factors_belong_to_the_vocabulary():
    small, _ = compressed(pico.pair("llama tied")[0], Compression(rank=RANK))
    trained = trained_names(small, "embeddings")
    assert {name.rsplit(".", 1)[1] for name in trained} == {"coordinates", "basis"}


def test_a_padding_token_passes_no_gradient_to_either_factor():
    embedding = LowRankEmbedding(6, 4, 2, padding_idx=3)
    embedding.fill(np.ones((6, 2), np.float32), np.ones((2, 4), np.float32))
    embedding(torch.tensor([3, 3])).sum().backward()
    assert not embedding.coordinates.grad.any()
    assert not embedding.basis.grad.any()
    embedding(torch.tensor([1])).sum().backward()
    assert embedding.coordinates.grad[1].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Compression(rank=32), "width 32 has no factors of rank 32"),
        (Compression(rank=0), "`rank=0"),
        (Compression(rank=5, k=2), "no tables, codes and clusters"),
        (Compression(rank=5, codes="digits"), "leave out their options"),
    ],
)
def test_impossible_factors_are_rejected(options, message):
    with pytest.raises(InputError, match=message):
        compressed(pico.pair("gpt2")[0], options)
