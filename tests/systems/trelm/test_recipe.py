"""The table [trelm] of a recipe, and what its options count as."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relexify.errors import InputError
from relexify.steps import RunContext
from relexify.storage.fingerprint import fingerprint
from relexify.systems.transfer.options import Transfer
from relexify.systems.trelm import run as trelm_run
from relexify.systems.trelm.options import Trelm
from relexify.systems.trelm.recipe import check_trelm_step, run_trelm_step, validate_trelm
from relexify.text import Corpus

OPTIONS = Trelm(source_corpus="en.txt", bitext="pairs.tsv")


def context(tmp_path: Path, **tables: object) -> RunContext:
    (tmp_path / "xx.txt").write_text("text\n")
    return RunContext("source", Corpus.open(tmp_path / "xx.txt"), None, tables)


def test_separate_vocabularies_do_not_follow_a_transfer_with_a_joint_one(tmp_path: Path) -> None:
    transfer = Transfer(model="gpt2", output=tmp_path, corpus="xx.txt", method="trelm")
    validate_trelm(OPTIONS, {"transfer": transfer})
    separate = replace(OPTIONS, vocabularies="separate")
    validate_trelm(separate, {"transfer": replace(transfer, method="blend")})
    with pytest.raises(InputError, match="one vocabulary for both languages"):
        validate_trelm(separate, {"transfer": transfer})
    with pytest.raises(InputError, match="TreLM needs `bitext`"):
        validate_trelm(replace(OPTIONS, bitext=None), {})


@pytest.mark.parametrize(("given", "expected"), [(None, "source"), ("other", "other")])
def test_the_source_vocabulary_is_that_of_the_transferred_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    seen = []

    def run(model: str, output: Path, corpus: Corpus, options: Trelm, **more: object) -> None:
        seen.append((model, options.source_model))
        raise KeyboardInterrupt

    monkeypatch.setattr(trelm_run, "check_run", lambda model, options: seen.append((model, options.source_model)))
    monkeypatch.setattr(trelm_run, "run_trelm", run)
    options = replace(OPTIONS, vocabularies="separate", source_model=given)
    after_transfer = context(tmp_path, transfer=object(), trelm=options)
    check_trelm_step(options, after_transfer)
    with pytest.raises(KeyboardInterrupt):
        run_trelm_step(options, after_transfer, "grafted", tmp_path / "out")
    assert seen == [("source", expected), ("grafted", expected)]
    check_trelm_step(replace(OPTIONS, vocabularies="joint"), context(tmp_path, transfer=object()))
    assert seen[-1] == ("source", None)


def test_options_count_by_the_content_of_their_texts(tmp_path: Path) -> None:
    texts = {"source_corpus": tmp_path / "en.txt", "bitext": tmp_path / "pairs.tsv", "alignment": tmp_path / "links"}
    for path in texts.values():
        path.write_text("one\ttwo\n")
    options = Trelm(**texts)
    before = fingerprint(options)
    assert fingerprint(replace(options, transfer=replace(options.transfer, compile=True))) == before
    assert fingerprint(replace(options, transfer=replace(options.transfer, steps=3))) != before
    moved = (tmp_path / "en.txt").rename(tmp_path / "moved.txt")
    assert fingerprint(replace(options, source_corpus=moved)) == before
    for path in (moved, texts["bitext"], texts["alignment"]):
        path.write_text("one\tthree\n")
        assert fingerprint(replace(options, source_corpus=moved)) != before
        path.write_text("one\ttwo\n")
