"""A batch in parts gives the step that the whole batch gives, though parts have different numbers of labels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.errors import InputError
from tests.training.runs import TRAINING, assert_close, assert_curves_close, tensors

WHOLE = replace(TRAINING, steps=5, batch=8, evaluate_every=5, save_every=None, precision="float32")


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_a_batch_in_parts_is_the_batch_at_once(run_of, family):
    run = run_of(family, dropout=False)
    whole, parts = run.train(WHOLE, "whole"), run.train(replace(WHOLE, micro_batch=2), "parts")
    assert_close(parts.output, whole.output)
    assert any(not tensor.equal(tensors(run.source)[name]) for name, tensor in tensors(whole.output).items())
    assert_curves_close(parts.curve, whole.curve)


def test_a_batch_that_cannot_be_cut_is_rejected(run_of):
    run = run_of()
    with pytest.raises(InputError, match="8 cannot be cut into parts of 3"):
        run.train(replace(WHOLE, micro_batch=3))
    assert not run.work().exists()
