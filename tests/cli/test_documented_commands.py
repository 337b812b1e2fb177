"""The commands of the README and of the tutorial run in their order, on a tiny model and text."""

from __future__ import annotations

import lzma
import random
import re
import shlex
from pathlib import Path

import pytest

from tests import pico
from tests.cli.command import relexify

ROOT = Path(__file__).parents[2]
SHORT = {
    "transfer": ("--vocab-size", "400", "--set", "score_bytes=500"),
    "train": ("--steps", "2", "--batch", "2", "--length", "16", "--set", "report_to=[]"),
}
"""Options that replace those of the page, by verb: there is little text, and no time."""
ELSEWHERE = {"demo", "push", "advise", "recipes", "run", "compare"}
"""Verbs that other tests run: they need a real model, a Hub or minutes."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the model, the texts and the dictionary that the pages name."""
    pico.saved("gpt2", tmp_path / "gpt2")
    words = sorted({word for line in pico.sentences() for word in line.lower().split() if word.isalpha()})
    draw = random.Random(1)
    swahili = ["".join(draw.choices(["sho", "mu", "ra", "ki", "te", "lo", "ba"], k=3)) for _ in words]
    swahili[:3] = ["shule", "mtoto", "nchi"]
    text = "\n".join(pico.sentences(500, seed=3, words=swahili)) + "\n"
    held_out = "\n".join(pico.sentences(50, seed=4, words=swahili)) + "\n"
    (tmp_path / "swahili.txt").write_text(text)
    (tmp_path / "sw.txt.xz").write_bytes(lzma.compress(text.encode()))
    for name in ("held.txt", "sw.held.txt"):
        (tmp_path / name).write_text(held_out)
    (tmp_path / "en-sw.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(words, swahili, strict=True)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
@pytest.mark.usefixtures("folder")
def test_the_commands_of_a_page_succeed_one_after_the_other(page, capsys):
    text = (ROOT / page).read_text()
    verbs = []
    blocks = "\n".join(re.findall(r"^```\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    for line in re.findall(r"^relexify (.*)$", blocks, flags=re.MULTILINE):
        verb, *words = shlex.split(line, comments=True)
        if verb in ELSEWHERE or "…" in words:
            continue
        given = ["gpt2" if word == "smollm2-135m" else word for word in words]
        outcome = relexify(verb, *given, *SHORT.get(verb, ()))
        assert outcome.status == 0, f"relexify {line}: {outcome.err}"
        verbs.append(verb)
    assert {"transfer", "inspect", "check", "train", "evaluate"} <= set(verbs)
    if page == "docs/tutorial.md":
        (snippet,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        capsys.readouterr()
        exec(compile(snippet, page, "exec"), {})
        assert capsys.readouterr().out.startswith("Mji mkuu wa Tanzania ni")
