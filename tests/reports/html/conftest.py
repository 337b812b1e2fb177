"""A finished transfer, which the tests of its report share."""

from __future__ import annotations

import pytest

import relexify as rx
from tests import pico

MARKUP = "<script>alert('x')</script>"


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    """A transfer with all that a report shows; some text looks like markup."""
    root = tmp_path_factory.mktemp("report")
    words = pico.foreign_words()
    lines = [f"{MARKUP} {line}" for line in pico.sentences(400, seed=3, words=words)]
    (root / "text.txt").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(root / "cache"))
        source = pico.saved("gpt2", root / "gpt2")
        rx.transfer(
            rx.Transfer(
                model=str(source),
                output=root / "<model>",
                corpus=str(root / "text.txt"),
                method="fvt",
                vocab_size=350,
                held_out_bytes=500,
            )
        )
    return root / "<model>"
