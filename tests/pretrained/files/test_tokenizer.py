"""Tokenizers that would take all memory are rejected, whatever files they come from."""

from __future__ import annotations

import pytest
from tokenizers import normalizers
from tokenizers.normalizers import Replace

from relexify.errors import InputError
from relexify.pretrained.files.tokenizer import check_backend_growth
from relexify.tokens import backend_of
from tests import pico


@pytest.mark.parametrize("family", pico.FAMILIES)
def test_a_tokenizer_that_is_loaded_is_checked_as_its_file_would_be(family: str) -> None:
    backend = backend_of(pico.pair(family)[1])
    check_backend_growth("model", backend)
    backend.normalizer = normalizers.Sequence([Replace("a", "aa")] * 30)
    with pytest.raises(InputError, match=r"the normalizer of model may make text 1\.07e\+09 times as long"):
        check_backend_growth("model", backend)
