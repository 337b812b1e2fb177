"""Deliberately broken grafts are found, each for the right reason; intact ones of every family pass."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from relexify.errors import InputError
from relexify.grafting import check, graft
from relexify.methods.fvt import fvt
from relexify.tokens import train_tokenizer_like
from tests import pico

EMBEDDING = {"gpt2": "transformer.wte.weight", "llama untied": "model.embed_tokens.weight"}


def grafted(family: str, folder: Path) -> Path:
    """The folder of a graft whose tokenizer was trained on an invented language."""
    model, source = pico.pair(family)
    lines = pico.sentences(words=pico.foreign_words(), seed=3)
    target = train_tokenizer_like(source, lambda: lines, 350)
    return graft(model, target, fvt(source, target)).save(folder)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: grafted(name, tmp_path_factory.mktemp("grafts") / name) for name in (*EMBEDDING, "roberta")}


def problems(folder: Path) -> dict[str, str]:
    return {result.name: " ".join(result.problems) for result in check(folder) if result.problems}


@pytest.mark.parametrize("family", list(pico.FAMILIES))
def test_an_intact_graft_of_every_family_passes(family, tmp_path):
    assert problems(grafted(family, tmp_path / "graft")) == {}


def change_json(file: str, **values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = json.loads((folder / file).read_text())
        content.update(values)
        (folder / file).write_text(json.dumps(content))

    return change


def change_rows(change: Callable[[torch.Tensor], object], family: str = "gpt2") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors[EMBEDDING[family]])
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return write


def untie(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors[EMBEDDING["gpt2"]] + 1
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    change_json("config.json", tie_word_embeddings=False)(folder)


def change_tokenizer(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        content = json.loads((folder / "tokenizer.json").read_text())
        change(content)
        (folder / "tokenizer.json").write_text(json.dumps(content))

    return write


def swap_two_tokens(tokenizer: dict) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    one, other = [token for token in vocabulary if len(token) > 2][-2:]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]


def forget_role(*roles: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        content = json.loads((folder / "tokenizer_config.json").read_text())
        for role in roles:
            del content[f"{role}_token"]
        (folder / "tokenizer_config.json").write_text(json.dumps(content))

    return write


def make_eos_text(folder: Path) -> None:
    forget_role("bos", "eos")(folder)
    change_tokenizer(lambda tokenizer: tokenizer["added_tokens"][0].update(special=False))(folder)


def use_unknown_chat_token(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("<|im_start|>{{ messages[0].content }}")


def copy_row(token: int) -> Callable[[torch.Tensor], None]:
    def change(rows: torch.Tensor) -> None:
        rows[token] = rows[token + 1]

    return change


def permute_rows(rows: torch.Tensor) -> None:
    rows[10:] = rows[10:].flip(0)


def forget_decoder(tokenizer: dict) -> None:
    tokenizer["decoder"] = None


BROKEN = {
    "a shard is missing": ("gpt2", lambda folder: (folder / "model.safetensors").unlink(), "files", "is missing"),
    "config has another size": ("gpt2", change_json("config.json", vocab_size=300), "vocabulary", "vocab_size"),
    "tokens are swapped": ("gpt2", change_tokenizer(swap_two_tokens), "vocabulary", "2 ids of the tokenizer"),
    "a row is NaN": ("gpt2", change_rows(lambda rows: rows[300].fill_(float("nan"))), "finite values", "in the rows"),
    "a row is zero": ("gpt2", change_rows(lambda rows: rows[300].fill_(0)), "zero rows", "of 1 token is zero"),
    "two rows are equal": ("gpt2", change_rows(copy_row(300)), "duplicate rows", "their mixtures differ"),
    "two copied rows are equal": ("gpt2", change_rows(copy_row(40)), "duplicate rows", "their mixtures differ"),
    "rows are permuted": ("gpt2", change_rows(permute_rows), "order of rows", "do not belong to their tokens"),
    "embeddings are untied": ("gpt2", untie, "tied embeddings", "are separate now"),
    "embeddings are tied": (
        "llama untied",
        change_json("config.json", tie_word_embeddings=True),
        "tied embeddings",
        "tie_word_embeddings in config.json is True",
    ),
    "a special token is text": ("gpt2", make_eos_text, "special tokens", "ordinary text"),
    "a role is lost": ("roberta", forget_role("mask"), "special tokens", "mask token was '<mask>'"),
    "config names another eos": ("gpt2", change_json("config.json", eos_token_id=7), "special tokens", "eos_token_id"),
    "generation has an id of the source": (
        "gpt2",
        change_json("generation_config.json", eos_token_id=50256),
        "special tokens",
        "generation_config.json is 50256",
    ),
    "positions start elsewhere": ("roberta", change_json("config.json", pad_token_id=3), "special tokens", "positions"),
    "the chat template is foreign": ("gpt2", use_unknown_chat_token, "chat template", "<|im_start|>"),
    "the decoder is lost": ("gpt2", change_tokenizer(forget_decoder), "round trip", "decodes it as"),
    "the model is too narrow": (
        "gpt2",
        change_json("config.json", n_embd=16),
        "loading",
        "shapes that its config describes",
    ),
    "generation crashes": (
        "gpt2",
        change_json("generation_config.json", num_beams=0),
        "inference",
        "generating text fails",
    ),
    "generation overflows": (
        "gpt2",
        change_rows(lambda rows: rows.mul_(1e30)),
        "inference",
        "NaN or infinite",
    ),
}


def add_frequencies(rows: torch.Tensor) -> None:
    """Move rows along one axis, by more than their length, as a unigram prior does."""
    draw = torch.Generator().manual_seed(0)
    rows += torch.outer(torch.randn(len(rows), generator=draw), torch.randn(rows.shape[1], generator=draw))


def train_rows(folder: Path) -> None:
    """Leave rows that are not similar any more, in a folder that training wrote."""
    change_rows(lambda rows: rows.normal_(generator=torch.Generator().manual_seed(0)))(folder)
    counts = {"selected_step": 10, "tokens_seen": 640, "length": 64}
    rest = {"seconds": 1.0, "tokens_per_second": None, "learning_rate": 0.01, "stages": [], "snapshots": []}
    change_json("relexify.json", training=counts | rest)(folder)


def precompute_rows(folder: Path) -> None:
    change_rows(permute_rows)(folder)
    report = json.loads((folder / "relexify.json").read_text())["graft"]
    change_json("relexify.json", graft=report | {"origins": {"precomputed": report["tokens"]}})(folder)


@pytest.mark.parametrize("change", [change_rows(add_frequencies), train_rows, precompute_rows])
def test_rows_that_are_in_order_are_not_called_misplaced(change, intact, tmp_path):
    shutil.copytree(intact["gpt2"], folder := tmp_path / "graft")
    change(folder)
    assert "order of rows" not in problems(folder)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_graft_is_found_for_the_right_reason(name, intact, tmp_path):
    family, damage, failed, reason = BROKEN[name]
    folder = shutil.copytree(intact[family], tmp_path / "graft")
    damage(folder)
    found = problems(folder)
    assert reason in found.get(failed, ""), found


@pytest.mark.parametrize(("value", "failed"), [(0, "zero rows"), (float("nan"), "finite values")])
def test_several_rows_of_zeros_or_nan_are_not_called_equal_too(value, failed, intact, tmp_path):
    folder = shutil.copytree(intact["gpt2"], tmp_path / "graft")
    change_rows(lambda rows: rows[300:303].fill_(value))(folder)
    found = problems(folder)
    assert failed in found
    assert "duplicate rows" not in found


def test_what_is_no_graft_is_rejected_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match="not the result of a transfer"):
        check(pico.saved("gpt2", tmp_path / "plain"))
