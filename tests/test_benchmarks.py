"""`benchmarks/methods.py` measures every method that works, and fails if one does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.methods import main, measure, write_stand_ins
from relexify.systems.transfer.options import Transfer
from tests import pico

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def options(tmp_path: Path) -> Transfer:
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(pico.sentences(300, words=pico.foreign_words())))
    return Transfer(str(pico.saved("gpt2", tmp_path / "model")), Path("unused"), str(corpus), vocab_size=330)


def test_methods_are_built_twice_and_scored_on_the_default_amount_of_text(options: Transfer, tmp_path: Path) -> None:
    write_stand_ins(options, tmp_path)
    for method in ("fvt", "omp", "given-rows"):
        found = measure(options, method, tmp_path)
        assert len(found["seconds"]) == 2
        assert (found["score"] is None) == (method == "given-rows")


def test_a_method_whose_process_fails_is_reported(
    options: Transfer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [options.model, "--corpus", options.corpus, "--vocab-size", "330"]
    monkeypatch.setattr(sys, "argv", ["methods.py", *given, "--only", "fvt", "omp"])
    monkeypatch.setattr(sys, "executable", "false")  # a command that fails at once
    with pytest.raises(SystemExit, match="failed: fvt, omp"):
        main()
    assert "| `omp` | failed: 1 | | | |" in capsys.readouterr().out
