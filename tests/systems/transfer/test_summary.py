"""The summary of a transfer counts every token once and says what fills the rows without evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relexify.grafting import graft
from relexify.methods.copying import special
from relexify.methods.fvt import fvt
from relexify.mixture import Fallback, Mixture, Origin, PrecomputedRows, first_of, mixture_of_rows
from relexify.steps import ResultTable
from relexify.systems.transfer.run import TransferResult
from relexify.systems.transfer.summary import summarise_transfer
from relexify.tokens import vocabulary_of
from tests import pico


@pytest.fixture(scope="module")
def mixtures() -> dict[str, Mixture]:
    _, tokenizer = pico.pair("gpt2")
    vocabulary, copied = vocabulary_of(tokenizer), special(tokenizer, tokenizer)
    rows = [[id] if id < 20 else [] for id in range(len(vocabulary))]
    few = mixture_of_rows(rows, vocabulary, vocabulary, method="few", origin=Origin.MIXED)
    return {"all": fvt(tokenizer, tokenizer), "special alone": copied, "few": first_of(copied, few)}


def summary_of(mixture: Mixture, precomputed: PrecomputedRows | None = None) -> list[ResultTable | str]:
    model, tokenizer = pico.pair("gpt2")
    grafted = graft(model, tokenizer, mixture, precomputed=precomputed)
    return summarise_transfer(TransferResult(grafted, None, {}, Path("out")))


def counts(summary: list[ResultTable | str]) -> dict[str, int]:
    table = summary[0]
    assert isinstance(table, ResultTable)
    return {name: int(count.replace(",", "")) for name, count, _ in table.rows[1:]}


def test_every_token_is_counted_once(mixtures):
    rows = PrecomputedRows(np.arange(5, 9), np.ones((4, pico.WIDTH), np.float32))
    for mixture, precomputed in ((mixtures["all"], None), (mixtures["few"], rows)):
        assert sum(counts(summary_of(mixture, precomputed)).values()) == len(mixture)
    assert counts(summary_of(mixtures["few"], rows))["computed by the method, not mixed"] == 4


@pytest.mark.parametrize(
    ("fallback", "name"),
    [(Fallback.SOURCE_ROWS, "no evidence (random)"), (Fallback.MEAN, "no evidence (mean of the source rows)")],
)
def test_rows_without_evidence_are_named_by_what_fills_them(mixtures, fallback, name):
    mixture = replace(mixtures["special alone"], fallback=fallback)
    assert counts(summary_of(mixture))[name] == int((~mixture.known).sum())


def test_little_evidence_is_pointed_out_but_a_baseline_without_any_is_not(mixtures):
    assert [len(summary_of(mixtures[name])) for name in ("all", "special alone", "few")] == [1, 1, 2]
    assert "no evidence for most tokens" in summary_of(mixtures["few"])[1]
