"""The command that an advice ends with."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from relexify.evidence.bitext import WordAlignmentOptions
from relexify.recipes.advise.command import transfer_command
from relexify.recipes.advise.evidence import EvidenceWorth
from relexify.recipes.advise.options import Advise
from relexify.recipes.advise.run import Advice, RankedRun
from relexify.recipes.settings import apply_settings
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.start import TextCoverage

PLAIN = Transfer("models/gpt2", Path("advice"), ("a.txt", "b.txt"))


def command_of(transfer: Transfer, best: str) -> list[str]:
    text = TextCoverage(1, 1, "word", 1, 1, {})
    evidence = EvidenceWorth((), {}, None)
    return transfer_command(Advice(Advise(transfer), (RankedRun(best, 2.0, 1.0, None),), 1.0, text, None, evidence, {}))


def test_the_command_gives_what_is_not_the_default_and_the_prior_of_the_trials():
    assert command_of(PLAIN, "fvt") == [
        *("relexify", "transfer", "models/gpt2", "gpt2-fvt", "--corpus", "a.txt", "--corpus", "b.txt"),
        *("--set", "unigram_prior=true", "--method", "fvt"),
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
