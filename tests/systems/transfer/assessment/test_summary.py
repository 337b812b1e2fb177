"""The summary of a transfer counts every token once and says what fills the rows without evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relexify.evidence.alignment import Rotation
from relexify.evidence.lexicon.retrieval import Quality
from relexify.grafting import graft
from relexify.methods.fvt import fvt
from relexify.methods.parts.copying import special
from relexify.mixture import Fallback, Mixture, Origin, PrecomputedRows, first_of, mixture_of_rows
from relexify.steps import ResultTable
from relexify.systems.transfer.assessment.start import BitextCheck, DictionaryCheck, Start, TextCoverage
from relexify.systems.transfer.assessment.summary import (
    compare_with_transfer,
    summarise_notes,
    summarise_rotation,
    summarise_transfer,
)
from relexify.systems.transfer.run import TransferResult
from relexify.tokens import vocabulary_of
from relexify.training.results.curve import Curve, Measurement
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
    start = Start(mixture.method, grafted.report.origins, mixture.fallback.value, None, {}, None, None)
    return summarise_transfer(TransferResult(grafted, None, start, Path("out")))


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
    [(Fallback.SOURCE_ROWS, "no evidence: random"), (Fallback.MEAN, "no evidence: mean of all rows of the model")],
)
def test_rows_without_evidence_are_named_by_what_fills_them(mixtures, fallback, name):
    mixture = replace(mixtures["special alone"], fallback=fallback)
    assert counts(summary_of(mixture))[name] == int((~mixture.known).sum())


def test_little_evidence_is_pointed_out(mixtures):
    assert "no evidence for" in summary_of(mixtures["few"])[-1]
    assert "no evidence for" not in summary_of(mixtures["all"])[-1]


START = Start(
    method="blend",
    origins={"none": 0, "special": 2, "mixed": 8},
    fallback="source-rows",
    alignment=None,
    bits_per_byte={"original": 3.351, "random": 3.3, "shuffle": 3.8, "blend": 2.9},
    text=TextCoverage(30_000, 4_000, "word", 12_827, 6_111, {"special": 0.0, "mixed": 0.96, "none": 0.04}),
    dictionary=DictionaryCheck(tokens=5, text_share=0.31, words=300, related=0.71),
    bitext=BitextCheck(pairs=3_000, tokens=6, text_share=0.52, overlap=0.8, shared=4),
)
NOTES = {**START.as_notes(), "method": "blend", "graft": {"origins": START.origins}}


def test_the_summary_compares_with_the_original_model_and_shows_shares_of_the_text():
    *tables, verdict = summarise_notes(NOTES)
    rows = {table.title: table.rows for table in tables}
    assert ["mixed: weighted mean of several tokens", "8", "80.0%", "96.0%"] in rows["Origin of the target embeddings"]
    assert rows["Length of 30,000 bytes of held-out text with each tokenizer"][1:] == [
        ["original", "12,827", "3.21", "2.34"],
        ["target", "6,111", "1.53", "4.91"],
    ]
    scores = rows["Before training, 30,000 bytes of held-out text (lower is better)"]
    assert scores[1] == ["original model and tokenizer", "3.351"]
    assert scores[2] == ["random rows: drawn at random", "3.300"]
    assert ["share of the text that they make up", "31.0%"] in rows["Dictionary"]
    assert ["related words with related translations (chance: 50%)", "71.0% of 300"] in rows["Dictionary"]
    assert rows["Parallel text"][1:] == [
        ["pairs of sentences", "3,000"],
        ["words of the text that it has", "80.0%"],
        ["tokens that are built from it", "6"],
        ["share of the text that they make up", "52.0%"],
        ["of these tokens, also in the dictionary", "4"],
    ]
    assert verdict.startswith("This is a good start.")
    assert summarise_notes({"trained_from": "elsewhere"}) == []


def test_baselines_with_a_unigram_prior_are_said_to_have_the_token_frequencies():
    *tables, verdict = summarise_notes(NOTES | {"unigram_prior": {"tokens": 400}})
    scores = next(table.rows for table in tables if table.title.startswith("Before training"))
    assert [name for name, _ in scores[2:4]] == [
        "random rows: drawn at random, with token frequencies",
        "shuffled rows: the model's own, at random tokens, with token frequencies",
    ]
    assert "Without evidence, but with the frequencies of the tokens in the text, it needs 3." in verdict


def test_the_summary_says_why_not_all_of_the_held_out_text_was_scored_and_how_to_score_it():
    def sentences(whole: int | None, **changes: object) -> list[str]:
        start = replace(START, text=replace(START.text, whole_bytes=whole), **changes)
        summary = summarise_notes(NOTES | start.as_notes())
        return [part for part in summary[:-1] if isinstance(part, str)]

    (said,) = sentences(60_000)
    assert said.startswith("30,000 of about 60,000 bytes of held-out text were scored, since scoring takes long: ")
    assert "--set held_out_bytes=60000 scores all of it (default: 400,000 with CUDA, else 8,192)" in said
    assert sentences(30_500) == sentences(None) == sentences(60_000, bits_per_byte={}) == []


def test_the_headline_says_if_no_transfer_is_needed():
    known = TextCoverage(30_000, 4_000, "word", 5_200, 5_300, {"mixed": 1.0})
    scores = {"original": 1.0, "random": 2.4, "shuffle": 2.6, "blend": 1.3}
    notes = NOTES | replace(START, text=known, bits_per_byte=scores).as_notes()
    assert summarise_notes(notes)[-1].startswith("A transfer is probably not needed. The model seems to know the")


def test_a_training_is_compared_with_the_transfer_that_its_model_comes_from():
    def sentences(
        score: float, by_language: dict[str, float] | None = None, tokens_per_byte: float = 0.2, **changes: object
    ) -> list[str]:
        perplexity = 2.0 ** (score / tokens_per_byte)
        first = Measurement(0, 0, "all", score, perplexity, by_language=by_language)
        training = {"length": 64, "from_trained": False}
        return compare_with_transfer({**NOTES, "training": training, **changes}, Curve((first,)))

    (comparable,) = sentences(2.9)
    assert comparable.endswith("the original model and tokenizer need 3.351 bits per byte.")
    (windows,) = sentences(2.901)
    assert windows.startswith(comparable)
    assert windows.endswith("which needed 2.900 there, where windows had 512 tokens at most instead of 64.")
    (rounded,) = sentences(2.901, training={"length": 512, "from_trained": False})
    assert rounded.endswith("which needed 2.900 there, where other text or another number format was used.")
    assert sentences(1.95, {"source": 1.0, "target": 2.9}) == [comparable], "the mean of two languages was compared"
    (other,) = sentences(2.7)
    assert other.startswith("Do not compare")
    assert "needs 2.700 bits per byte here, in windows of 64 tokens, and 2.900 there, on 30,000 bytes" in other
    (foreign,) = sentences(5.8, tokens_per_byte=0.51)
    assert "windows" not in foreign, "windows do not explain text in another language"
    assert "this text takes 0.51 tokens per byte, and the text of the transfer 0.20" in foreign
    assert sentences(2.7, training={"length": 64, "from_trained": True}) == [], "a second training has another step 0"
    assert sentences(2.7, training={"length": 64}) == [], "it is not known whether it is the first training"
    assert sentences(2.7, {"en": 2.0, "sw": 3.4}) == [], "a bilingual model is not the one that was transferred"
    assert sentences(2.9, pruned=True) == []


@pytest.mark.parametrize(("right", "meaning"), [(3, "mostly noise"), (20, "imprecise"), (80, "enough")])
def test_the_precision_of_an_alignment_is_told_with_its_consequence(right, meaning):
    quality = Quality(right / 128, 0.0, 128, 1_000)
    *_, sentence = summarise_rotation(Rotation(np.eye(2), 100, 1.0, quality))
    assert f"{right} of 128 held-out words" in sentence
    assert meaning in sentence
