"""The loss without logits: value and gradients are those of cross-entropy on the whole logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from relexify.pretrained.architecture import IGNORED
from relexify.training.loss.chunked import chunked_loss, labelled_positions

NAMES = ("hidden", "weight", "bias")


def head(positions: int = 11, width: int = 5, words: int = 7, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    """Return the input of a head, the head, and labels, some of them ignored."""
    draw = torch.Generator().manual_seed(seed)
    shapes = {"hidden": (positions, width), "weight": (words, width), "bias": (words,)}
    tensors = {name: torch.randn(shape, generator=draw, dtype=dtype).requires_grad_() for name, shape in shapes.items()}
    labels = torch.randint(0, words, (positions,), generator=draw)
    labels[torch.rand(positions, generator=draw) < 0.3] = IGNORED
    return tensors, labels


def plain(tensors: dict[str, Any], labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy on the whole logits."""
    logits = tensors["hidden"] @ tensors["weight"].T
    if tensors["bias"] is not None:
        logits = logits + tensors["bias"]
    return cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")


def gradients(loss: torch.Tensor, tensors: dict[str, Any]) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, [each for each in tensors.values() if each is not None]))


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    positions=st.integers(1, 20),
    width=st.integers(1, 6),
    words=st.integers(1, 9),
    chunk=st.integers(1, 30),
    seed=st.integers(0, 1_000),
)
def test_value_and_gradients_are_those_of_whole_logits_for_any_chunk(positions, width, words, chunk, seed):
    tensors, labels = head(positions, width, words, seed)
    ours, theirs = chunked_loss(**tensors, labels=labels, chunk=chunk), plain(tensors, labels)
    close(ours, theirs)
    for mine, other in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        close(mine, other)


def test_batches_of_sequences_keep_their_shape():
    tensors, labels = head(positions=12)
    tensors["hidden"] = tensors["hidden"].detach().reshape(3, 4, 5).requires_grad_()
    labels = labels.reshape(3, 4)
    ours, theirs = chunked_loss(**tensors, labels=labels, chunk=5), plain(tensors, labels)
    close(ours, theirs)
    assert ours.shape == ()
    mine, other = gradients(ours, tensors)[0], gradients(theirs, tensors)[0]
    assert mine.shape == (3, 4, 5)
    close(mine, other)


def test_labels_that_are_all_ignored_give_zero_and_no_nan():
    tensors, labels = head()
    loss = chunked_loss(**tensors, labels=torch.full_like(labels, IGNORED), chunk=4)
    assert loss.item() == 0.0
    assert all(torch.equal(each, torch.zeros_like(each)) for each in gradients(loss, tensors))


def test_a_head_without_bias_needs_none():
    tensors, labels = head()
    tensors["bias"] = None
    ours, theirs = chunked_loss(**tensors, labels=labels, chunk=4), plain(tensors, labels)
    close(ours, theirs)
    for mine, other in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        close(mine, other)


@pytest.mark.parametrize("frozen", [("weight",), ("hidden",), ("bias",), ("weight", "bias"), ("hidden", "bias")])
def test_what_is_frozen_gets_no_gradient_and_the_rest_gets_its_own(frozen):
    tensors, labels = head()
    close_to = dict(zip(NAMES, gradients(plain(tensors, labels), tensors), strict=True))
    for name in frozen:
        tensors[name].requires_grad_(False)
    chunked_loss(**tensors, labels=labels, chunk=4).backward()
    for name, tensor in tensors.items():
        if name in frozen:
            assert tensor.grad is None
        else:
            close(tensor.grad, close_to[name])


def test_a_wholly_frozen_head_still_has_a_loss_where_gradients_are_on():
    tensors, labels = head()
    tensors = {name: tensor.detach() for name, tensor in tensors.items()}
    loss = chunked_loss(**tensors, labels=labels, chunk=4)
    close(loss, plain(tensors, labels))
    assert not loss.requires_grad


def test_a_scaled_loss_scales_its_gradients():
    tensors, labels = head()
    ours = gradients(chunked_loss(**tensors, labels=labels, chunk=4) * -2.5, tensors)
    theirs = gradients(plain(tensors, labels) * -2.5, tensors)
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other)


def test_gradients_of_two_losses_add_up():
    tensors, labels = head()
    for _ in range(2):
        (chunked_loss(**tensors, labels=labels, chunk=4) / 2).backward()
    for tensor, other in zip(tensors.values(), gradients(plain(tensors, labels), tensors), strict=True):
        close(tensor.grad, other)


def test_a_second_backward_is_rejected_rather_than_wrong():
    tensors, labels = head()
    loss = chunked_loss(**tensors, labels=labels)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute it again"):
        loss.backward()


def test_gradients_flow_through_the_hidden_states():
    tensors, labels = head()
    bent = {**tensors, "hidden": tensors["hidden"].tanh() * 3}
    ours, theirs = (
        torch.autograd.grad(each, tensors["hidden"], retain_graph=True)[0]
        for each in (chunked_loss(**bent, labels=labels, chunk=3), plain(bent, labels))
    )
    close(ours, theirs)


def test_the_embedding_that_is_also_the_head_gets_both_gradients():
    tensors, labels = head(words=11)
    tied = tensors["weight"]
    tensors["hidden"] = tied.flip(0) * 2
    ours, theirs = (
        torch.autograd.grad(each, tied, retain_graph=True)[0]
        for each in (chunked_loss(**tensors, labels=labels, chunk=4), plain(tensors, labels))
    )
    close(ours, theirs)


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_without_gradients_the_value_is_the_same(chunk):
    tensors, labels = head()
    with torch.no_grad():
        loss = chunked_loss(**tensors, labels=labels, chunk=chunk)
    close(loss, plain(tensors, labels).detach())
    assert not loss.requires_grad


def test_mixed_precision_is_close_to_float32_in_float32():
    tensors, labels = head(positions=64, width=32, words=50, dtype=torch.float32)
    exact = plain(tensors, labels)
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_loss(**tensors, labels=labels, chunk=10)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact, rtol=1e-2, atol=0)
    assert loss.item() != exact.item(), "nothing was computed in bfloat16"
    for mine, other in zip(gradients(loss, tensors), gradients(exact, tensors), strict=True):
        assert mine.dtype == torch.float32
        assert (mine - other).norm() < 0.02 * other.norm()


def test_hidden_values_in_bfloat16_meet_a_float32_head():
    tensors, labels = head(positions=64, width=32, words=50, dtype=torch.float32)
    exact = plain(tensors, labels)
    low = {**tensors, "hidden": tensors["hidden"].detach().bfloat16().requires_grad_()}
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_loss(**low, labels=labels, chunk=10)
    torch.testing.assert_close(loss, exact, rtol=1e-2, atol=0)
    assert [each.dtype for each in gradients(loss, low)] == [torch.bfloat16, torch.float32, torch.float32]


@settings(max_examples=60, deadline=None)
@given(positions=st.integers(1, 200), share=st.floats(0, 1), fixed=st.booleans(), seed=st.integers(0, 1_000))
def test_positions_without_a_label_may_be_left_out(positions, share, fixed, seed):
    tensors, labels = head(positions, seed=seed)
    labels[torch.rand(positions, generator=torch.Generator().manual_seed(seed)) > share] = IGNORED
    theirs = plain(tensors, labels)
    hidden, wanted, lost = labelled_positions(tensors["hidden"], labels, 0.7 * share, fixed=fixed)
    ours = lost + chunked_loss(hidden, tensors["weight"], tensors["bias"], wanted)
    close(ours, theirs)
    for mine, other in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        close(mine, other)


def test_a_fixed_number_of_positions_depends_only_on_the_shape_and_saves_most_of_the_head():
    counts = set()
    for seed in range(5):
        tensors, labels = head(4_096, seed=seed)
        labels[torch.rand(4_096, generator=torch.Generator().manual_seed(seed)) > 0.2] = IGNORED
        hidden, wanted, _ = labelled_positions(tensors["hidden"], labels, 0.15, fixed=True)
        counts.add((len(hidden), len(wanted)))
    assert len(counts) == 1
    likely = 4_096 * 0.15 + 10 * (4_096 * 0.15 * 0.85) ** 0.5  # ten standard deviations more than expected
    assert counts.pop()[0] == -(-likely // 64) * 64 == 896


def test_more_labels_than_positions_give_nan_rather_than_a_smaller_loss():
    tensors, labels = head(4_096)
    assert torch.isnan(labelled_positions(tensors["hidden"], labels, 0.15, fixed=True)[2])
    assert labelled_positions(tensors["hidden"], labels, 0.15, fixed=False)[2] == 0


def test_a_batch_without_labels_has_no_loss():
    tensors, labels = head()
    hidden, wanted, lost = labelled_positions(tensors["hidden"], torch.full_like(labels, IGNORED), 0.15, fixed=False)
    assert lost + chunked_loss(hidden, tensors["weight"], tensors["bias"], wanted) == 0
