"""What advice says about its scores and about differences that are too small, and the command that it ends with."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from relexify.evidence.bitext import WordAlignmentOptions
from relexify.recipes.advise.evidence import DictionarySize, EvidenceWorth
from relexify.recipes.advise.options import Advise
from relexify.recipes.advise.run import Advice, RankedRun
from relexify.recipes.advise.summary import summarise_advice, transfer_command
from relexify.recipes.file.settings import apply_settings
from relexify.systems.transfer.assessment.start import TextCoverage
from relexify.systems.transfer.options import Transfer


def advice(scores: dict[str, float], *, words: dict[str, float] | None = None, steps: int = 20) -> Advice:
    runs = [RankedRun(name, 3.0, score, (words or {}).get(name)) for name, score in scores.items()]
    return Advice(
        options=Advise(Transfer("model", Path("out"), "text.txt", dictionary=Path("words.tsv")), steps=steps),
        runs=tuple(sorted(runs, key=lambda run: run.after or 0)),
        original=3.0,
        text=TextCoverage(1_000, 180, "word", 500, 250, {}),
        extended_tokens=None,
        corpus_bytes=1_048_576,
        evidence=EvidenceWorth((), {1_000: 0.5}, None),
        left_out={},
    )


def sentences(found: Advice) -> str:
    return "\n".join(part for part in summarise_advice(found) if isinstance(part, str))


SCORES = {"blend": 2.0, "fvt": 2.1, "random": 2.3}


def test_the_column_of_held_out_words_says_that_higher_is_better_and_what_chance_is():
    measured = advice(SCORES, words={"blend": 0.55, "fvt": 0.53})
    table, about, *_ = summarise_advice(measured)
    assert [row[-1] for row in table.rows] == ["held-out words", "55%", "53%", "–"]
    assert table.title.endswith("held-out words (higher is better)")
    assert "Chance is 50%, higher is better" in about
    table, verdict, *_ = summarise_advice(advice(SCORES))
    assert "held-out words" not in table.rows[0], "a column without a number"
    assert verdict.startswith("Use blend.")


@pytest.mark.parametrize(("wechsel", "best"), [(0.57, "blend"), (0.62, "wechsel")])
def test_without_training_a_method_replaces_the_default_only_if_it_is_clearly_ahead(wechsel, best):
    shares = {"wechsel": wechsel, "blend": 0.56, "fvt": 0.50, "random": 0.55}
    found = replace(advice(SCORES), runs=tuple(RankedRun(name, None, None, share) for name, share in shares.items()))
    assert found.best == best
    said = "Use blend. wechsel is level with it. Nothing was trained" if best == "blend" else "Use wechsel. Nothing"
    assert said in sentences(found)


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        (
            2.02,
            "The dictionary makes no difference in blend that one seed can show: 2.000 bits per byte with it, 2.020",
        ),
        (1.99, "The dictionary makes no difference in blend that one seed can show"),
        (2.05, "The dictionary gains 0.050 in blend: 2.000 bits per byte with it, 2.050 without it."),
        (1.95, "The dictionary loses 0.050 in blend"),
    ],
)
def test_a_difference_within_the_noise_is_not_called_a_gain(without, expected):
    assert expected in sentences(advice({**SCORES, "blend-without-dictionary": without}))


@pytest.mark.parametrize(("blend", "is_said"), [(2.299, False), (2.3, True), (2.4, True)])
def test_an_advice_whose_best_method_is_no_better_than_random_rows_says_so(blend, is_said):
    found = sentences(advice({"blend": blend, "fvt": 2.5, "random": 2.3}))
    assert ("No method was better than random rows yet" in found) == is_said


@pytest.mark.parametrize(("half", "worth"), [(0.27, "is worth the effort"), (0.29, "will hardly help")])
def test_a_larger_dictionary_is_worth_it_if_its_second_half_added_much(half, worth):
    sizes = tuple(DictionarySize(entries, share) for entries, share in ((250, 0.2), (500, half), (1_000, 0.3)))
    found = replace(advice(SCORES), evidence=EvidenceWorth(sizes, {}, None))
    assert f"so a larger one {worth}" in sentences(found)


def test_more_text_is_worth_it_for_trainings_that_would_see_the_text_more_than_twice():
    # 250 tokens in 1,000 bytes: 262,144 tokens, twice 8 steps of 64 × 512.
    assert "Text: 1.0 MB, about 262,144 tokens, are enough for 16 steps of 64 × 512 tokens" in sentences(advice(SCORES))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (16_384, "about 16,384 tokens, are enough for 1 step of 64 × 512 tokens"),
        (16_383, "about 16,383 tokens, are enough for 7 steps of 8 × 512 tokens"),
        (2_048, "about 2,048 tokens, are enough for 1 step of 8 × 512 tokens"),
        (2_047, "about 2,047 tokens, are so few that one step of 8 × 512 tokens sees them more than 2 times"),
    ],
)
def test_little_text_is_counted_in_the_smaller_steps_that_a_training_takes(tokens, expected):
    assert expected in sentences(replace(advice(SCORES), corpus_bytes=4 * tokens))


def test_very_short_trainings_are_called_too_short_to_rely_on():
    assert "too few to rely on" not in sentences(advice(SCORES))
    assert "trained on 1,024 tokens at most, too few to rely on" in sentences(advice(SCORES, steps=2))


PLAIN = Transfer("models/gpt2", Path("advice"), ("a.txt", "b.txt"))


def command_of(transfer: Transfer, best: str) -> list[str]:
    return transfer_command(replace(advice({best: 1.0}), options=Advise(transfer)))


def test_the_command_gives_what_is_not_the_default_and_the_prior_of_the_trials():
    assert command_of(PLAIN, "fvt") == [
        *("relexify", "transfer", "models/gpt2", "gpt2-fvt", "--corpus", "a.txt", "--corpus", "b.txt"),
        *("--method", "fvt", "--set", "unigram_prior=true"),
    ]


def test_options_of_the_command_line_are_given_as_such_without_evidence_that_the_method_does_not_use():
    transfer = replace(PLAIN, dictionary=Path("d.tsv"), bitext=["p.tsv"], vocab_size=500, seed=3, held_out="h.txt")
    command = " ".join(command_of(transfer, "ramen"))
    assert "--held-out h.txt --bitext p.tsv --vocab-size 500 --seed 3" in command
    assert "--dictionary" not in command
    extended = replace(PLAIN, source_corpus="s.txt", keep_source=True, added_tokens=20)
    assert "--source-corpus s.txt --added-tokens 20 --keep-source" in " ".join(command_of(extended, "fvt"))


def test_all_other_options_are_settings_that_are_read_as_the_same(tmp_path):
    transfer = replace(
        PLAIN,
        method="wechsel",
        dictionary_swapped=True,
        rotation=tmp_path / "rotation",
        aligning=WordAlignmentOptions(min_count=1e-5, fields=("en", "sw")),
        overrides={"ki tu": 'th"e', "ж": "z"},
        temperature=0.5,
        unigram_prior=True,
        aligned_by="unsupervised",
        vectors=replace(PLAIN.vectors, width=50),
    )
    command = command_of(transfer, "wechsel")
    settings = [value for option, value in pairwise(command) if option == "--set"]
    assert apply_settings("transfer", replace(PLAIN, method="wechsel"), settings) == transfer
