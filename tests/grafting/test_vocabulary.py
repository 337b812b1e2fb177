"""A graft with a tokenizer that is not its own is rejected, and one whose tokenizer only grew is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from relexify.errors import VocabularyError
from relexify.grafting import check_own_tokenizer, graft
from relexify.grafting.vocabulary import describe_other_tokens
from relexify.methods.fvt import fvt
from relexify.mixture import MIXTURE_FILE
from relexify.pretrained.loading import load_tokenizer
from relexify.tokens import train_tokenizer_like, vocabulary_of
from tests import pico


def grafted(folder: Path, *, hole: int | None = None) -> Path:
    """The folder of a graft; if requested, its tokenizer has no token with some id."""
    model, source = pico.pair("gpt2")
    lines = pico.sentences(words=pico.foreign_words(), seed=3)
    target = train_tokenizer_like(source, lambda: lines, 350)
    if hole is not None:
        target.save_pretrained(folder / "tokenizer")
        change_ids(folder / "tokenizer", lambda id: id + (id >= hole))
        target = load_tokenizer(folder / "tokenizer")
    return graft(model, target, fvt(source, target)).save(folder / "graft")


def change_ids(folder: Path, change: Callable[[int], int]) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"] = {token: change(id) for token, id in content["model"]["vocab"].items()}
    (folder / "tokenizer.json").write_text(json.dumps(content))


def test_tokens_that_were_added_since_are_not_rejected(tmp_path):
    folder = grafted(tmp_path)
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens(["<new>"])
    check_own_tokenizer(folder, tokenizer)


def test_an_id_that_had_no_token_may_get_one(tmp_path):
    folder = grafted(tmp_path, hole=340)
    assert vocabulary_of(load_tokenizer(folder)).tokens[340] == ""
    check_own_tokenizer(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["new"] = 340
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert vocabulary_of(load_tokenizer(folder)).tokens[340] == "new"
    check_own_tokenizer(folder)


def test_a_token_that_is_lost_or_another_one_is_described_and_at_most_three_are_listed():
    assert describe_other_tokens("abc", "abcd") == describe_other_tokens("abcd", "abc") == ""
    assert describe_other_tokens(["a", "x"], ["a", "b"]) == (
        "1 id of the tokenizer stands for another token (1: 'x' instead of 'b')"
    )
    assert describe_other_tokens(["a", ""], ["a", "b"]).endswith("(1: '' instead of 'b')")
    assert describe_other_tokens("wxyz", "abcd") == (
        "4 ids of the tokenizer stand for other tokens (0: 'w' instead of 'a', 1: 'x' instead of 'b', 2: 'y' instead "
        "of 'c', …)"
    )


def test_only_a_graft_with_a_mixture_is_checked(tmp_path):
    broken = pico.permute_tokens(grafted(tmp_path))
    with pytest.raises(VocabularyError, match=r"348 ids .* remove mixture\.safetensors"):
        check_own_tokenizer(broken)
    (broken / MIXTURE_FILE).unlink()
    check_own_tokenizer(broken)


def test_a_folder_with_the_name_of_a_packaged_model_is_not_that_model(tmp_path, monkeypatch):
    pico.permute_tokens(grafted(tmp_path)).rename(tmp_path / "smollm2-135m")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("relexify.pretrained.names.unpacked", lambda name: tmp_path / "cache" / name)
    check_own_tokenizer("smollm2-135m")
