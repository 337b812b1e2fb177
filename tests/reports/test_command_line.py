"""Commands that repeat a transfer or a training are read back as the same options."""

from __future__ import annotations

from itertools import pairwise

from relexify.recipes.file.settings import apply_settings
from relexify.reports.command_line import TRAIN_OPTIONS, option_arguments, train_command
from relexify.training.options import Training


def test_options_with_an_option_of_their_own_are_given_by_it_and_others_as_settings():
    values = {"steps": 20, "schedule": "cosine", "dropout": False, "patience": None, "report_to": ("wandb", "trackio")}
    words = option_arguments(values, TRAIN_OPTIONS)
    assert words == [
        *("--steps", "20"),
        *("--set", 'schedule="cosine"'),
        *("--set", "dropout=false"),
        *("--set", 'report_to=["wandb", "trackio"]'),
    ]
    settings = [value for name, value in pairwise(words) if name == "--set"]
    read = apply_settings("training", Training(), settings)
    assert (read.schedule, read.dropout, read.report_to) == ("cosine", False, ("wandb", "trackio"))


def test_a_training_names_every_text_and_none_that_is_missing():
    texts = {"corpus": ["a.txt", "b.txt"], "held_out": None, "source_corpus": "en.txt"}
    assert train_command("gpt2", "out", texts, {"length": 64}, add_head=True) == [
        *("relexify", "train", "gpt2", "out", "--add-head"),
        *("--corpus", "a.txt", "--corpus", "b.txt", "--source-corpus", "en.txt", "--length", "64"),
    ]
