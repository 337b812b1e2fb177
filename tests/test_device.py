"""The device to compute on, as the Python API takes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from relexify.device import has_cuda, resolve_device
from relexify.errors import InputError
from relexify.evaluation.options import Evaluation
from relexify.evaluation.text import TextScoring
from relexify.neighbours.search import nearest
from relexify.recipes.compare.run import run_comparison
from relexify.recipes.run import run_recipe
from relexify.systems.transfer.checks import validate_transfer
from relexify.systems.transfer.options import Transfer


def test_auto_is_a_gpu_if_there_is_one():
    assert resolve_device("auto") == ("cuda" if has_cuda() else "cpu")
    keys = np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(nearest(keys, keys, 1, device="auto")[0], nearest(keys, keys, 1)[0])


def test_the_default_is_that_of_the_command_line():
    assert {Transfer("m", Path("out"), "text").device, Evaluation("nli").device, TextScoring().device} == {"auto"}
    assert {run.__kwdefaults__["device"] for run in (run_recipe, run_comparison)} == {"auto"}


@pytest.mark.parametrize("name", ["gpu", "meta", "cpu:x", ""])
def test_a_name_that_is_no_device_is_rejected_before_any_work(name):
    message = f"`device={name}` is not a device to compute on: use cpu, cuda or auto"
    validates = (
        lambda: validate_transfer(Transfer("m", Path("out"), "text", method="random", device=name)),
        lambda: Evaluation("nli", device=name),
        lambda: TextScoring(device=name),
        lambda: resolve_device(name),
    )
    for validate in validates:
        with pytest.raises(InputError, match=message):
            validate()


def test_a_device_that_is_not_there_is_rejected():
    with pytest.raises(InputError, match="`device=cpu:1` is not available: torch finds 1 of its kind"):
        resolve_device("cpu:1")
