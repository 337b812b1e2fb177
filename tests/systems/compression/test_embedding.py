"""The sub-embedding and its head against the dense matrices that they stand for."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from relexify.errors import InputError
from relexify.systems.compression import loss as factored_loss
from relexify.systems.compression.codes import digit_codes
from relexify.systems.compression.embedding import FactoredHead, SubEmbedding
from relexify.systems.compression.loss import factored_logits

TOKENS, WIDTH = 50, 11


def make(k: int = 3, **options) -> SubEmbedding:
    codes = np.random.default_rng(0).permutation(digit_codes(TOKENS, k, 9 if k == 2 else 5))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return SubEmbedding(TOKENS, WIDTH, k, codes, **options)


def dense_gradients(embedding: SubEmbedding, gradient: torch.Tensor) -> list[torch.Tensor]:
    """The gradient of the dense matrix, added up over the tokens that share a row: by a loop, as an oracle."""
    sums, start = [], 0
    for index, table in enumerate(embedding.tables):
        total = torch.zeros_like(table)
        for token in range(TOKENS):
            total[embedding.codes[token, index]] += gradient[token, start : start + table.shape[1]]
        sums.append(total)
        start += table.shape[1]
    return sums


@pytest.mark.parametrize("k", [1, 2, 3, 5, 11])
def test_rows_are_those_of_the_tables_side_by_side(k):
    embedding = SubEmbedding(TOKENS, WIDTH, k)
    ids = torch.tensor([[0, 7], [49, 7]])
    for row, token in zip(embedding(ids).flatten(0, 1), ids.flatten(), strict=True):
        parts = [table[embedding.codes[token, index]] for index, table in enumerate(embedding.tables)]
        assert torch.equal(row, torch.cat(parts))
    assert embedding(ids).shape == (2, 2, WIDTH)
    assert torch.equal(embedding.weight[ids], embedding(ids))


@pytest.mark.parametrize("rows", [[5, 5, 5], [5, 5, 9], [5, 7, 5]])
@pytest.mark.parametrize("width", [12, 11])
def test_rows_and_gradients_are_the_same_whether_tables_can_be_stacked_or_not(rows, width):
    embedding = SubEmbedding(TOKENS, width, codes=digit_codes(TOKENS, 3, 5), rows=rows, dtype=torch.float64)
    ids, pull = torch.tensor([[3, 49], [3, 0]]), torch.randn(2, 2, width, dtype=torch.float64)
    assert torch.equal(embedding(ids), embedding.weight[ids])
    ours = torch.autograd.grad((embedding(ids) * pull).sum(), list(embedding.tables))
    theirs = torch.autograd.grad((embedding.weight[ids] * pull).sum(), list(embedding.tables))
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("token", [-1, TOKENS])
def test_ids_outside_the_vocabulary_are_rejected_as_by_a_plain_embedding(token):
    for embedding in (make(), nn.Embedding(TOKENS, WIDTH)):
        with pytest.raises(IndexError):
            embedding(torch.tensor([3, token]))


def test_uneven_widths_are_never_padded():
    assert [table.shape[1] for table in make(3).tables] == [4, 4, 3]
    assert make(3).weight.shape == (TOKENS, WIDTH)


def test_gradients_reach_the_tables_as_they_would_a_dense_embedding():
    embedding = make()
    dense = nn.Embedding.from_pretrained(embedding.weight.detach().clone(), freeze=False)
    ids = torch.tensor([3, 3, 9, 40])
    weights = torch.randn(4, WIDTH)
    (embedding(ids) * weights).sum().backward()
    (dense(ids) * weights).sum().backward()
    for table, expected in zip(embedding.tables, dense_gradients(embedding, dense.weight.grad), strict=True):
        assert torch.allclose(table.grad, expected, atol=1e-6)


def test_padding_has_a_row_and_contributes_no_gradient():
    embedding, without = make(padding_idx=3), make()
    ids = torch.tensor([3, 9, 3])
    assert torch.equal(embedding(ids), without(ids))
    embedding(ids).sum().backward()
    without(torch.tensor([9])).sum().backward()
    for table, expected in zip(embedding.tables, without.tables, strict=True):
        assert torch.equal(table.grad, expected.grad)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("k", [2, 3])
def test_the_factored_head_equals_the_dense_one_forward_and_backward(k, bias):
    embedding = make(k, dtype=torch.float64)
    numbers = nn.Parameter(torch.randn(TOKENS, dtype=torch.float64)) if bias else None
    head = FactoredHead(embedding, numbers)
    dense = nn.Linear(WIDTH, TOKENS, bias=bias, dtype=torch.float64)
    dense.weight.data = embedding.weight.detach().clone()
    if bias:
        dense.bias.data = numbers.detach().clone()
    hidden = torch.randn(2, 6, WIDTH, dtype=torch.float64, requires_grad=True)
    twin = hidden.detach().clone().requires_grad_()
    pull = torch.randn(2, 6, TOKENS, dtype=torch.float64)
    assert torch.allclose(head(hidden), dense(twin))
    (head(hidden) * pull).sum().backward()
    (dense(twin) * pull).sum().backward()
    assert torch.allclose(hidden.grad, twin.grad)
    for table, expected in zip(embedding.tables, dense_gradients(embedding, dense.weight.grad), strict=True):
        assert torch.allclose(table.grad, expected)
    assert not bias or torch.allclose(numbers.grad, dense.bias.grad)


def logits_and_gradients(embedding, hidden, pull, logits_of) -> list[torch.Tensor]:
    hidden = hidden.clone().requires_grad_()
    logits = logits_of(hidden, list(embedding.tables), embedding.codes)
    return [logits, *torch.autograd.grad((logits * pull).sum(), [hidden, *embedding.tables])]


def dense_logits(hidden: torch.Tensor, tables: list[torch.Tensor], codes: torch.Tensor) -> torch.Tensor:
    return hidden @ torch.cat([table[codes[:, index]] for index, table in enumerate(tables)], dim=1).t()


def drawn(*shape: int, dtype=torch.float64, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def uneven(rows: list[int], dtype=torch.float64, width: int = WIDTH) -> SubEmbedding:
    codes = np.random.default_rng(0).permutation(digit_codes(TOKENS, len(rows), rows))
    embedding = SubEmbedding(TOKENS, width, codes=codes, rows=rows, dtype=dtype)
    for index, table in enumerate(embedding.tables):
        table.data.copy_(drawn(*table.shape, seed=index))
    return embedding


@pytest.mark.parametrize("positions", [0, 1, 7])
@pytest.mark.parametrize("rows", [[50], [9, 9], [5, 5, 5], [5, 7, 20]])
def test_logits_and_gradients_are_those_of_the_dense_matrix(rows, positions):
    embedding, hidden, pull = uneven(rows), drawn(positions, WIDTH), drawn(positions, TOKENS, seed=2)
    ours = logits_and_gradients(embedding, hidden, pull, factored_logits)
    assert ours[0].shape == (positions, TOKENS)
    for mine, expected in zip(ours, logits_and_gradients(embedding, hidden, pull, dense_logits), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("positions", [3, 300])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4), (torch.bfloat16, 0.06)]
)
@pytest.mark.parametrize("rows", [[5, 5, 5], [5, 7, 20]])
def test_logits_and_gradients_of_a_gpu_are_those_of_a_cpu(rows, dtype, tolerance, positions):
    width = 48
    embedding, hidden = uneven(rows, dtype, width), drawn(positions, width, dtype=dtype) / width**0.5
    pull = drawn(positions, TOKENS, dtype=dtype, seed=2) / positions
    wide = uneven(rows, torch.float64, width)
    for table, narrow in zip(wide.tables, embedding.tables, strict=True):
        table.data.copy_(narrow)
    theirs = logits_and_gradients(wide, hidden.double(), pull.double(), dense_logits)
    ours = logits_and_gradients(embedding.cuda(), hidden.cuda(), pull.cuda(), factored_logits)
    assert [each.dtype for each in ours] == [dtype] * len(ours)
    for mine, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.cpu().double(), expected, rtol=tolerance, atol=tolerance)


def test_half_precision_stays_close_to_full():
    embedding = make()
    head = FactoredHead(embedding, nn.Parameter(torch.randn(TOKENS)))
    hidden = torch.randn(5, WIDTH)
    small, small_head = copy.deepcopy((embedding, head))
    small, small_head = small.bfloat16(), small_head.bfloat16()
    assert small_head.embedding is small
    assert small.codes.dtype == embedding.codes.dtype
    assert small(torch.arange(4)).dtype == small_head(hidden.bfloat16()).dtype == torch.bfloat16
    assert torch.allclose(small_head(hidden.bfloat16()).float(), head(hidden), rtol=0.05, atol=0.15)
    small_head(hidden.bfloat16()).sum().backward()
    assert all(table.grad.dtype == torch.bfloat16 for table in small.tables)


def test_a_tied_head_has_no_tables_of_its_own_and_follows_the_embedding():
    embedding = make()
    head = FactoredHead(embedding)
    assert not list(head.parameters())
    before = head(torch.ones(1, WIDTH))
    with torch.no_grad():
        embedding.tables[0].add_(1.0)
    assert not torch.equal(before, head(torch.ones(1, WIDTH)))
    assert next(name for name, _ in FactoredHead(make(), tied=False).named_parameters()) == "own.tables.0"


def test_it_compiles_to_one_graph_with_the_same_result():
    embedding = make()
    head = FactoredHead(embedding)

    def run(ids):
        return head(embedding(ids))

    ids = torch.arange(12)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(ids), run(ids), atol=1e-5)
    compiled(ids).logsumexp(-1).sum().backward()
    found = [table.grad.clone() for table in embedding.tables]
    embedding.zero_grad()
    run(ids).logsumexp(-1).sum().backward()
    assert all(torch.allclose(each, table.grad, atol=1e-5) for each, table in zip(found, embedding.tables, strict=True))


def test_tables_too_small_for_the_codes_are_rejected():
    with pytest.raises(InputError, match=r"need tables of \[5, 5, 2\] rows"):
        SubEmbedding(TOKENS, WIDTH, 3, digit_codes(TOKENS, 3, 5), rows=[5, 4, 2])


def test_more_logits_than_a_gpu_can_count_are_computed_in_parts(monkeypatch):
    embedding = make(dtype=torch.float64)
    hidden = torch.randn(7, WIDTH, dtype=torch.float64)
    whole = factored_logits(hidden, list(embedding.tables), embedding.codes)
    for most in (2 * TOKENS, 3 * TOKENS + 1, TOKENS - 1):
        monkeypatch.setattr(factored_loss, "MAX_LOGITS", most)
        assert torch.allclose(factored_logits(hidden, list(embedding.tables), embedding.codes), whole)
