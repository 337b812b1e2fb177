"""The loss of a factored head without logits: that of cross-entropy on the logits which it never makes."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from relexify.pretrained.architecture import IGNORED
from relexify.systems.compression import loss as factored_loss
from relexify.systems.compression.embedding import FactoredHead, SubEmbedding
from relexify.systems.compression.loss import PrefixPlan, code_prefixes, log_vocabulary_sum, plan_prefixes
from relexify.training.loss.chunked import chunked_loss
from relexify.training.protocol import chunked_head


def some_codes(tokens: int, rows: list[int], how: str, seed: int) -> np.ndarray:
    """Different codes: counted, drawn from all there are, or crowded in few prefixes."""
    every = np.stack(np.unravel_index(np.arange(math.prod(rows)), rows), axis=1)
    draw = np.random.default_rng(seed)
    if how == "random":
        return draw.permutation(every)[:tokens]
    counted = every[:tokens]
    return counted if how == "counted" else draw.permutation(counted[:, ::-1])


def a_head(codes: np.ndarray, rows: list[int], *, bias: bool, seed: int = 0, dtype=torch.float64) -> FactoredHead:
    draw = torch.Generator().manual_seed(seed)
    embedding = SubEmbedding(len(codes), 2 * len(rows) + 1, codes=codes, rows=rows, dtype=dtype)
    for table in embedding.tables:
        table.data.copy_(torch.randn(table.shape, generator=draw, dtype=torch.float64))
    numbers = nn.Parameter(torch.randn(len(codes), generator=draw, dtype=torch.float64).to(dtype)) if bias else None
    return FactoredHead(embedding, numbers)


def some_inputs(
    head: FactoredHead, positions: int, seed: int = 0, dtype=torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn(positions, head.in_features, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()
    labels = torch.randint(0, head.out_features, (positions,), generator=draw)
    labels[torch.rand(positions, generator=draw) < 0.3] = IGNORED
    return hidden, labels


def value_and_gradients(head: FactoredHead, hidden: torch.Tensor, labels: torch.Tensor, loss=None, chunk: int = 64):
    """Ours where a loss is given, and else that of whole logits from the dense matrix."""
    leaves = [hidden, *head.embedding.tables, *([] if head.bias is None else [head.bias])]
    if loss is None:
        logits = nn.functional.linear(hidden, head.weight, head.bias)
        nats = cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
    else:
        nats = chunked_loss(hidden, head.loss_weight(), head.bias, labels, chunk=chunk, loss=loss)
    return [nats, *torch.autograd.grad(nats, leaves)]


def assert_same(ours: list[torch.Tensor], theirs: list[torch.Tensor], tolerance: float = 1e-10) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    share=st.floats(0.02, 1.0),
    how=st.sampled_from(["counted", "random", "crowded"]),
    bias=st.booleans(),
    positions=st.integers(1, 9),
    chunk=st.integers(1, 10),
    seed=st.integers(0, 1_000),
)
def test_value_and_all_gradients_are_those_of_whole_logits(rows, share, how, bias, positions, chunk, seed):
    codes = some_codes(max(1, round(share * math.prod(rows))), rows, how, seed)
    rows = rows[::-1] if how == "crowded" else rows
    head = a_head(codes, rows, bias=bias, seed=seed)
    hidden, labels = some_inputs(head, positions, seed)
    ours = value_and_gradients(head, hidden, labels, head.chunk_loss(), chunk)
    assert_same(ours, value_and_gradients(head, hidden, labels))


@pytest.mark.parametrize("rows", [[40], [7, 9], [5, 5, 5], [6, 6, 6, 6]])
def test_no_logits_are_computed(rows, monkeypatch):
    monkeypatch.setattr(factored_loss, "factored_logits", lambda *given: pytest.fail("logits were made"))
    head = a_head(some_codes(40, rows, "random", 1), rows, bias=True)
    hidden, labels = some_inputs(head, 6)
    assert_same(value_and_gradients(head, hidden, labels, head.chunk_loss()), value_and_gradients(head, hidden, labels))


def test_codes_that_are_too_scattered_use_logits(monkeypatch):
    head = a_head(some_codes(40, [5, 5, 5], "random", 0), [5, 5, 5], bias=True)
    hidden, labels = some_inputs(head, 6)
    ours = value_and_gradients(head, hidden, labels, head.chunk_loss())
    monkeypatch.setattr(factored_loss, "MAX_CELLS", 20)
    assert plan_prefixes(head.embedding.codes.numpy(), [5, 5, 5]) is None
    monkeypatch.setattr(factored_loss, "log_vocabulary_sum", lambda *given: pytest.fail("prefixes were summed"))
    assert_same(ours, value_and_gradients(head, hidden, labels, head.chunk_loss()))
    assert head.chunk_positions(32_768) == 32_768


def test_the_digit_that_leaves_the_fewest_prefixes_is_left_out():
    counted = some_codes(600, [20, 20, 20], "counted", 0)  # the first digit is 0 or 1
    assert plan_prefixes(counted, [20, 20, 20]) == PrefixPlan(2, 30, complete=False)
    assert plan_prefixes(counted[:, ::-1], [20, 20, 2]) == PrefixPlan(1, 40, complete=True)
    scattered = plan_prefixes(some_codes(50, [30, 30, 30], "random", 0), [30, 30, 30])
    assert not scattered.complete
    assert scattered.prefixes <= 50


def scores_and_sum(scores: torch.Tensor, rows: list[int], codes: np.ndarray, bias=None):
    """Return the logarithm of the vocabulary's sum and the gradient of its sum over positions, ours and in float64."""
    plan = plan_prefixes(codes, rows)
    tokens = code_prefixes(codes, rows, plan, scores.device)
    ours = scores.clone().requires_grad_()
    found = log_vocabulary_sum(ours, rows, tokens, bias)
    wide = scores.double().clone().requires_grad_()
    starts = np.cumsum([0, *rows[:-1]])
    logits = wide[:, torch.from_numpy(codes + starts)].sum(-1)
    expected = (logits if bias is None else logits + bias.double()).logsumexp(1)
    leaf = [] if bias is None else [bias]
    mine, theirs = (
        torch.autograd.grad(each.sum(), [inputs, *leaf], retain_graph=True)
        for each, inputs in ((found, ours), (expected, wide))
    )
    return plan, (found, *mine), (expected, *theirs)


@pytest.mark.parametrize("spread", [1.0, 80.0, 140.0])
@pytest.mark.parametrize("with_bias", [False, True])
def test_scores_that_are_far_apart_keep_the_probability_of_the_lowest(spread, with_bias):
    rows = [4, 5, 6]
    codes = some_codes(80, rows, "random", 3)
    bias = torch.randn(80, requires_grad=True) if with_bias else None
    plan = plan_prefixes(codes, rows)
    scores = torch.randn(7, sum(rows))
    token = codes[17]
    # Everything but the token's own digit lies `spread` higher in the last table, and as much lower in the others:
    # its logit is among the highest, and its last score the lowest.
    for digit, start in enumerate(np.cumsum([0, *rows[:-1]])):
        scores[:, start + token[digit]] += -spread if digit == plan.last else spread
    _, ours, theirs = scores_and_sum(scores, rows, codes, bias)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.double(), other.double(), rtol=1e-4, atol=1e-4)
    assert ours[1][:, 0].isfinite().all()


@pytest.mark.parametrize(("dtype", "spread"), [(torch.float32, 1_000), (torch.float64, 10_000)])
def test_beyond_the_range_of_floats_the_sum_is_finite_and_never_too_small(dtype, spread):
    rows = [4, 5, 6]
    codes = some_codes(80, rows, "random", 3)
    scores = spread * torch.randn(50, sum(rows), dtype=dtype, generator=torch.Generator().manual_seed(0))
    _, (ours, slopes), (theirs, _) = scores_and_sum(scores, rows, codes)
    assert (ours.double() >= theirs - 1e-2).all()
    assert ours.isfinite().all()
    assert slopes.isfinite().all()
    torch.testing.assert_close(slopes.sum(1), torch.full((50,), 3.0, dtype=dtype), rtol=1e-4, atol=1e-4)


def test_tokens_and_prefixes_of_probability_zero_get_no_gradient_and_no_nan():
    rows = [3, 4]
    codes = some_codes(12, rows, "counted", 0)
    head = a_head(codes, rows, bias=True, dtype=torch.float32)
    plan = plan_prefixes(codes, rows)
    prefix = codes[:, 1 - plan.last]
    with torch.no_grad():
        head.bias[torch.from_numpy(prefix == 1)] = -math.inf
        head.bias[0] = -math.inf
    hidden, labels = some_inputs(head, 5, dtype=torch.float32)
    labels = torch.where(labels == IGNORED, labels, 2 if prefix[2] != 1 else 5)
    ours = value_and_gradients(head, hidden, labels, head.chunk_loss())
    assert_same(ours, value_and_gradients(head, hidden, labels), 1e-5)
    assert all(each.isfinite().all() for each in ours)
    assert ours[-1][0] == 0


def test_ignored_labels_alone_give_zero_and_no_gradient():
    head = a_head(some_codes(20, [5, 5], "random", 0), [5, 5], bias=True)
    hidden, labels = some_inputs(head, 4)
    found = value_and_gradients(head, hidden, torch.full_like(labels, IGNORED), head.chunk_loss())
    assert all(torch.equal(each, torch.zeros_like(each)) for each in found)


def test_autocast_affects_the_scores_and_nothing_after_them():
    rows = [4, 5, 6]
    head = a_head(some_codes(80, rows, "random", 0), rows, bias=True, dtype=torch.float32)
    hidden, labels = some_inputs(head, 30, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        ours = value_and_gradients(head, hidden, labels, head.chunk_loss())
    parts = hidden.bfloat16().split([table.shape[1] for table in head.embedding.tables], 1)
    scores = [(part @ table.bfloat16().T).double() for part, table in zip(parts, head.embedding.tables, strict=True)]
    digits = head.embedding.codes.long().T
    logits = sum(score[:, digit] for score, digit in zip(scores, digits, strict=True)) + head.bias
    wanted = cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
    torch.testing.assert_close(ours[0].double(), wanted, rtol=1e-6, atol=1e-5)
    assert [each.dtype for each in ours[1:]] == [torch.float32] * len(ours[1:])
    for mine, other in zip(ours, value_and_gradients(head, hidden, labels), strict=True):
        torch.testing.assert_close(mine, other, rtol=0.05, atol=0.05)


@pytest.mark.filterwarnings("default")  # torch.compile causes warnings that it hides itself
@pytest.mark.parametrize("tokens", [100, 20])
def test_the_loss_compiles_to_one_graph_with_complete_and_incomplete_prefixes(tokens, monkeypatch):
    in_one_graph = partial(torch.compile, fullgraph=True, backend="aot_eager")
    monkeypatch.setattr(torch, "compile", in_one_graph)
    head = a_head(some_codes(tokens, [5, 5, 5], "random", 0), [5, 5, 5], bias=True)
    assert plan_prefixes(head.embedding.codes.numpy(), [5, 5, 5]).complete == (tokens == 100)
    hidden, labels = some_inputs(head, 8)
    ours = value_and_gradients(head, hidden, labels, head.chunk_loss(compiled=True), 4)
    assert_same(ours, value_and_gradients(head, hidden, labels))


def test_what_the_loss_prepares_is_not_saved_with_the_model():
    head = a_head(some_codes(20, [5, 5], "random", 0), [5, 5], bias=True)
    module = nn.ModuleList([head.embedding, head])
    names = list(module.state_dict())
    buffers = [name for name, _ in module.named_buffers()]
    value_and_gradients(head, *some_inputs(head, 4), head.chunk_loss())
    assert list(module.state_dict()) == names
    assert [name for name, _ in module.named_buffers()] == buffers


def test_chunks_hold_fewer_positions_if_there_are_more_prefixes():
    assert a_head(some_codes(40, [5, 5], "random", 0), [5, 5], bias=False).chunk_positions(32_768) == 32_768
    large = FactoredHead(SubEmbedding(250_002, 6, 3))
    assert large.chunk_positions(131_072) == 65_536  # 63² prefixes
    assert large.chunk_positions(512) == 512
    assert chunked_head(nn.Linear(6, 250_002)).chunk_positions(32_768) == 32_768
