"""Scores added up by a matrix product: the sums, and the gradients, of adding them up one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from relexify.systems.compression import code_product
from relexify.systems.compression import head as factored_head
from relexify.systems.compression.code_product import summed_scores
from relexify.systems.compression.codes import digit_codes
from relexify.systems.compression.embedding import SubEmbedding
from relexify.systems.compression.head import FactoredHead, factored_logits

TOKENS, WIDTH = 50, 11
TABLES = [[50], [9, 9], [5, 5, 5], [5, 7, 20]]

# Said once by torch, on a CPU without bfloat16.
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def an_embedding(rows: list[int], dtype=torch.float64, width: int = WIDTH) -> SubEmbedding:
    codes = np.random.default_rng(0).permutation(digit_codes(TOKENS, len(rows), rows))
    embedding = SubEmbedding(TOKENS, width, codes=codes, rows=rows, dtype=dtype)
    draw = torch.Generator().manual_seed(0)
    for table in embedding.tables:
        table.data.copy_(torch.randn(table.shape, generator=draw, dtype=torch.float64))
    return embedding


def drawn(*shape: int, dtype=torch.float64, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def logits_and_gradients(embedding: SubEmbedding, hidden: torch.Tensor, pull: torch.Tensor, how) -> list[torch.Tensor]:
    hidden = hidden.clone().requires_grad_()
    logits = how(hidden, list(embedding.tables), embedding.codes)
    return [logits, *torch.autograd.grad((logits * pull).sum(), [hidden, *embedding.tables])]


def dense(hidden: torch.Tensor, tables: list[torch.Tensor], codes: torch.Tensor) -> torch.Tensor:
    return hidden @ torch.cat([table[codes[:, place]] for place, table in enumerate(tables)], dim=1).t()


def assert_same(ours: list[torch.Tensor], theirs: list[torch.Tensor], tolerance: float = 1e-12) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.cpu().double(), other.cpu().double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("how", ["_summed_by_product", "_summed_by_bags"])
@pytest.mark.parametrize("places", [0, 1, 7])
@pytest.mark.parametrize("rows", TABLES)
def test_logits_and_gradients_are_those_of_the_dense_matrix(rows, places, how):
    embedding, hidden, pull = an_embedding(rows), drawn(places, WIDTH), drawn(places, TOKENS, seed=2)
    ours = logits_and_gradients(embedding, hidden, pull, getattr(factored_head, how))
    assert ours[0].shape == (places, TOKENS)
    assert_same(ours, logits_and_gradients(embedding, hidden, pull, dense))


@pytest.mark.parametrize("cells", [1, 3 * 32, 32 * (TOKENS - 1), 32 * TOKENS])
def test_tokens_in_blocks_give_what_all_at_once_give(cells, monkeypatch):
    embedding, hidden, pull = an_embedding([5, 7, 20]), drawn(6, WIDTH), drawn(6, TOKENS, seed=2)
    monkeypatch.setattr(code_product, "MOST_CELLS", cells)
    assert (len(code_product._blocks(TOKENS, 32)) > 1) == (cells < 32 * TOKENS)
    ours = logits_and_gradients(embedding, hidden, pull, factored_head._summed_by_product)
    assert_same(ours, logits_and_gradients(embedding, hidden, pull, dense))


def columns_of(rows: list[int]) -> torch.Tensor:
    embedding = an_embedding(rows)
    return factored_head._places(list(embedding.tables), embedding.codes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cells", [2**26, 100])
def test_sums_and_gradients_are_rounded_as_little_as_their_dtype_allows(dtype, cells, monkeypatch):
    monkeypatch.setattr(code_product, "MOST_CELLS", cells)
    places = columns_of([5, 7, 20])
    scores = drawn(9, 32, dtype=dtype).requires_grad_()
    found = summed_scores(scores, places)
    exact = scores.double()[:, places].sum(-1)
    assert found.dtype == dtype
    # In steps of the dtype, of the largest number that was added: the result lies one rounding off.
    step = torch.finfo(dtype).eps * scores.double().abs()[:, places].amax(-1)
    assert ((found.double() - exact).abs() <= 3 * step).all()
    pull = drawn(9, TOKENS, dtype=dtype, seed=2)
    (slopes,) = torch.autograd.grad((found * pull).sum(), scores)
    ones = torch.zeros(TOKENS, 32, dtype=torch.float64).scatter_(1, places.long(), 1)
    assert slopes.dtype == dtype
    most = 20 if cells == 100 else 3  # blocks of three tokens are rounded each
    bound = most * torch.finfo(dtype).eps * (pull.double().abs() @ ones)
    assert ((slopes.double() - pull.double() @ ones).abs() <= bound + 1e-300).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_whole_numbers_are_added_up_exactly(dtype):
    places = columns_of([5, 7, 20])
    scores = torch.randint(-40, 40, (9, 32), generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(summed_scores(scores, places), scores[:, places].sum(-1))


def test_derivatives_of_first_and_second_order_are_right(monkeypatch):
    places = columns_of([5, 7, 20])[:12]
    scores = drawn(3, 32).requires_grad_()
    for cells in (2**26, 5 * 32):
        monkeypatch.setattr(code_product, "MOST_CELLS", cells)
        assert torch.autograd.gradcheck(summed_scores, (scores, places))
        assert torch.autograd.gradgradcheck(lambda given: summed_scores(given, places).square(), (scores,))


def test_the_matrix_of_zeros_and_ones_is_not_kept_for_the_backward_pass():
    sizes = []
    embedding, hidden = an_embedding([5, 5, 5]), drawn(4, WIDTH).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: sizes.append(kept.numel()) or kept, lambda kept: kept):
        factored_head._summed_by_product(hidden, list(embedding.tables), embedding.codes)
    assert sizes
    assert max(sizes) <= TOKENS * 3


def test_autocast_narrows_scores_and_not_their_sums():
    places, scores = columns_of([5, 7, 20]), drawn(9, 32, dtype=torch.float32).requires_grad_()
    pull = drawn(9, TOKENS, dtype=torch.float32, seed=2)
    plain = summed_scores(scores, places)
    expected = torch.autograd.grad((plain * pull).sum(), scores)
    with torch.autocast("cpu", torch.bfloat16):
        found = summed_scores(scores, places)
        assert torch.equal(found, plain)
        assert torch.equal(torch.autograd.grad((found * pull).sum(), scores)[0], expected[0])
        embedding = an_embedding([5, 7, 20], torch.float32)
        hidden = drawn(9, WIDTH, dtype=torch.float32)
        both = [
            how(hidden, list(embedding.tables), embedding.codes)
            for how in (factored_head._summed_by_product, factored_head._summed_by_bags)
        ]
    assert [each.dtype for each in both] == [torch.bfloat16] * 2
    torch.testing.assert_close(both[0], both[1], rtol=0.02, atol=0.03)


@pytest.mark.parametrize("bias", [False, True])
def test_a_head_that_multiplies_equals_the_dense_one(bias, monkeypatch):
    monkeypatch.setattr(factored_head, "_product_pays", lambda hidden, tables: True)
    monkeypatch.setattr(factored_head, "_summed_by_bags", lambda *given: pytest.fail("bags were added up"))
    embedding = an_embedding([5, 7, 20])
    head = FactoredHead(embedding, nn.Parameter(drawn(TOKENS)) if bias else None)
    hidden, pull = drawn(2, 3, WIDTH).requires_grad_(), drawn(2, 3, TOKENS, seed=2)
    leaves = [hidden, *embedding.tables, *([head.bias] if bias else [])]
    found, expected = head(hidden), nn.functional.linear(hidden, head.weight, head.bias)
    assert_same(
        [found, *torch.autograd.grad((found * pull).sum(), leaves)],
        [expected, *torch.autograd.grad((expected * pull).sum(), leaves)],
    )


@pytest.mark.parametrize("cells", [2**26, 32 * 20])
def test_a_compiler_sees_one_whole_graph_of_the_product(cells, monkeypatch):
    monkeypatch.setattr(code_product, "MOST_CELLS", cells)
    embedding, hidden, pull = an_embedding([5, 7, 20]), drawn(6, WIDTH), drawn(6, TOKENS, seed=2)
    compiled = torch.compile(factored_head._summed_by_product, fullgraph=True, backend="aot_eager")
    ours = logits_and_gradients(embedding, hidden, pull, compiled)
    assert_same(ours, logits_and_gradients(embedding, hidden, pull, dense))


def test_cpus_and_few_places_take_bags(monkeypatch):
    tables = [torch.zeros(4, 2)] * 3
    assert not factored_head._product_pays(torch.zeros(1_000, 6), tables)
    monkeypatch.setattr(factored_head, "_summed_by_product", lambda *given: pytest.fail("a matrix was made"))
    embedding = an_embedding([5, 7, 20])
    assert factored_logits(drawn(200, WIDTH), list(embedding.tables), embedding.codes).shape == (200, TOKENS)


def test_a_gpu_multiplies_for_many_places_and_tables_that_are_not_too_long():
    def pays(places: int, rows: int, dtype: torch.dtype) -> bool:
        hidden = torch.empty(places, 12, dtype=dtype, device="cuda")
        return factored_head._product_pays(hidden, [torch.empty(rows, 4, device="cuda")] * 3)

    with FakeTensorMode():
        assert pays(64, 4, torch.float32)
        assert not pays(63, 4, torch.float32)
        assert not pays(64, 5, torch.float32)
        assert pays(64, 8, torch.bfloat16)
        assert not pays(64, 9, torch.bfloat16)


@on_gpu
@pytest.mark.parametrize("cells", [2**26, 32 * 20])
@pytest.mark.parametrize("places", [3, 300])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4), (torch.bfloat16, 0.06)]
)
@pytest.mark.parametrize("rows", [[5, 5, 5], [5, 7, 20]])
def test_logits_and_gradients_of_a_gpu_are_those_of_a_cpu(rows, dtype, tolerance, places, cells, monkeypatch):
    monkeypatch.setattr(code_product, "MOST_CELLS", cells)
    width = 48  # more than rows, so that many places are multiplied
    embedding, hidden = an_embedding(rows, dtype, width), drawn(places, width, dtype=dtype) / width**0.5
    pull = drawn(places, TOKENS, dtype=dtype, seed=2) / places
    wide = an_embedding(rows, torch.float64, width)
    for table, narrow in zip(wide.tables, embedding.tables, strict=True):
        table.data.copy_(narrow)
    theirs = logits_and_gradients(wide, hidden.double(), pull.double(), dense)
    there = embedding.cuda()
    assert factored_head._product_pays(hidden.cuda(), list(there.tables)) == (places == 300)
    ours = logits_and_gradients(there, hidden.cuda(), pull.cuda(), factored_logits)
    assert [each.dtype for each in ours] == [dtype] * len(ours)
    assert_same(ours, theirs, tolerance)


@on_gpu
def test_under_autocast_a_gpu_multiplies_narrow_scores_and_gives_wide_gradients():
    width = 18  # fewer than rows, but not half as many: without autocast it would not be worth it
    embedding = an_embedding([5, 7, 20], torch.float32, width)
    hidden = drawn(300, width, dtype=torch.float32) / width**0.5
    pull = drawn(300, TOKENS, dtype=torch.float32, seed=2) / 300
    theirs = logits_and_gradients(embedding, hidden, pull, dense)
    there = embedding.cuda()
    assert not factored_head._product_pays(hidden.cuda(), list(there.tables))
    with torch.autocast("cuda", torch.bfloat16):
        assert factored_head._product_pays(hidden.cuda(), list(there.tables))
        ours = logits_and_gradients(there, hidden.cuda(), pull.cuda(), factored_logits)
    assert [each.dtype for each in ours] == [torch.bfloat16, *[torch.float32] * 4]
    assert_same(ours, theirs, 0.06)
