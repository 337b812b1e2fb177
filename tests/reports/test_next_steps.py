"""The commands that follow a transfer fit the model and the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from relexify.reports.next_steps import after_transfer


@pytest.mark.parametrize(
    ("on_cpu", "longest", "options", "left_out"),
    [
        (False, None, "", None),
        (False, 8_192, "", None),
        (False, 256, " --length 256", None),
        (True, None, " --steps 20 --batch 8 --length 128", "--steps 20 --batch 8 --length 128"),
        (True, 512, " --steps 20 --batch 8 --length 128", "--steps 20 --batch 8 --length 128"),
        (True, 64, " --length 64 --steps 20 --batch 8", "--steps 20 --batch 8"),
    ],
)
def test_the_next_training_is_no_longer_than_the_model_reads_and_short_on_a_cpu(on_cpu, longest, options, left_out):
    title, (_, training) = after_transfer(Path("sw"), "sw.txt", None, is_poor=False, longest=longest, on_cpu=on_cpu)
    assert training == f"relexify train sw sw-trained --corpus sw.txt{options}"
    assert title.endswith(f"leave out {left_out}:" if left_out else "or train it:")
