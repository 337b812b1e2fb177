"""The windows of a decoder begin as texts do where it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from relexify.pretrained.architecture import IGNORED
from relexify.pretrained.text_start import begin_windows, extra_length, text_start
from tests import pico


@pytest.mark.parametrize(
    ("make", "start"),
    [
        (pico.byte_level, []),
        (pico.llama2_layout, ["<s>"]),
        (pico.xglm_layout, ["</s>"]),
        (pico.glm_layout, ["[gMASK]", "<sop>"]),
    ],
)
def test_a_window_begins_with_the_special_tokens_of_its_tokenizer(make: Callable[[], Any], start: list[str]):
    tokenizer = make()
    ids = tokenizer.convert_tokens_to_ids(start)
    assert text_start(tokenizer) == ids
    text = np.array([[10, 11, 12, 13], [20, 21, 22, 23]])
    inputs, labels = begin_windows(ids, text[:, :-1], text[:, 1:])
    assert inputs.dtype == labels.dtype == text.dtype
    assert inputs.shape == labels.shape == (2, 3 + extra_length(ids))
    for window, read, predicted in zip(text.tolist(), inputs.tolist(), labels.tolist(), strict=True):
        assert read == ([*ids, *window[1:-1]] if ids else window[:-1])
        assert predicted == [IGNORED] * (len(ids) - 1) + window[1:]
