"""evaluate --task: each task from files to a table, on tiny models and made-up data."""

from __future__ import annotations

import random

import pytest

from tests.cli.command import refused, relexify

WORDS = ("ba", "la", "mi", "to")
QUICK = ("--epochs", 1, "--batch", 8)


@pytest.fixture
def data(tmp_path):
    """A folder of train, dev and test files for each task."""
    draw = random.Random(0)

    def sentence() -> list[str]:
        return draw.choices(WORDS, k=draw.randint(2, 5))

    def tree() -> str:
        words = sentence()
        rows = [
            f"{place}\t{word}\t_\tX\t_\t_\t{place - 1}\t{'root' if place == 1 else 'dep'}\t_\t_"
            for place, word in enumerate(words, 1)
        ]
        return "\n".join(rows) + "\n\n"

    def nli() -> str:
        label = draw.choice(["entailment", "neutral", "contradiction"])
        return f"{' '.join(sentence())}\t{' '.join(sentence())}\t{label}\n"

    def tagged() -> str:
        return "".join(f"{word}\t{'B-PER' if word == 'mi' else 'O'}\n" for word in sentence()) + "\n"

    files = {"nli": (nli, "tsv"), "ner": (tagged, "tsv"), "parse": (tree, "conllu")}
    for task, (make, suffix) in files.items():
        (tmp_path / task).mkdir()
        for part in ("train", "dev", "test"):
            (tmp_path / task / f"{part}.{suffix}").write_text("".join(make() for _ in range(24)))
    return tmp_path


@pytest.mark.parametrize(("task", "measures"), [("nli", ["accuracy"]), ("ner", ["F1"]), ("parse", ["UAS", "LAS"])])
def test_a_task_is_fine_tuned_and_shown(world, data, tmp_path, task, measures):
    command = ("evaluate", world.bert, "--task", task, "--data", data / task, "--output", tmp_path / "work", *QUICK)
    outcome = relexify(*command, "--labels", "--confusion")
    assert outcome.status == 0, outcome.err
    assert all(measure.lower() in outcome.out.lower() for measure in measures), outcome.out
    again = relexify(*command)
    assert again.status == 0, "finished seeds should be kept"


def test_probes_need_no_training(world, data):
    for task in ("nli", "pos"):
        folder = data / ("ner" if task == "pos" else task)
        outcome = relexify("evaluate", world.gpt2, "--task", task, "--probe", "--data", folder)
        assert outcome.status == 0, outcome.err
        assert "accuracy" in outcome.out


def test_parsing_goes_through_the_embeddings_of_another_model(world, data, tmp_path):
    command = ("evaluate", world.bert, "--task", "parse", "--data", data / "parse", "--output", tmp_path / "work")
    outcome = relexify(*command, "--through", world.bert, *QUICK)
    assert outcome.status == 0, outcome.err
    assert "las" in outcome.out.lower()


def test_what_no_task_can_be_made_of_is_refused(world, data, tmp_path):
    out = ("--output", tmp_path / "work")
    nli = ("--task", "nli", "--data", data / "nli")
    refused(relexify("evaluate", world.bert), "--held-out", "--task")
    refused(relexify("evaluate", world.bert, "--task", "nil", "--data", data / "nli", *out), "no task 'nil'", "nli")
    refused(relexify("evaluate", world.bert, "--task", "nli", *out), "--data")
    refused(relexify("evaluate", world.bert, "--task", "nli", "--data", tmp_path / "none", *out), "not a folder")
    refused(relexify("evaluate", world.gpt2, *nli, *out), "encoder")
    refused(relexify("evaluate", world.bert, "--task", "ner", "--probe", "--data", data / "ner", *out), "no probe")
    (data / "nli" / "train.tsv").write_text("only one column\n")
    refused(relexify("evaluate", world.bert, *nli, *out), "train.tsv", "1")


def test_the_grid_shows_every_cell_and_the_best_one(world, data, tmp_path):
    recipe = tmp_path / "grid.toml"
    recipe.write_text(
        f"""
output = "grid"
model = "{world.bert}"
corpus = "{world.corpus}"
[transfer]
method = "wechsel"
vocab_size = 250
dictionary = "{world.dictionary}"
source_vectors = "{world.source_vectors}"
target_vectors = "{world.target_vectors}"
"""
    )
    probe = ("--nli", data / "nli" / "train.tsv", data / "nli" / "test.tsv")
    outcome = relexify("grid", recipe, "--neighbours", "1,3", "--temperatures", "0.1,1", *probe)
    assert outcome.status == 0, outcome.err
    assert "best: k = " in outcome.out
    assert "fullrand" in outcome.out
    refused(relexify("grid", recipe, "--neighbours", "few"), "--neighbours", "few")
