"""evaluate --task: each task from files to a table, on tiny models and made-up data."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from transformers import AutoModelForMaskedLM

from tests import pico
from tests.cli.command import assert_error, relexify, run_until_killed
from tests.cli.conftest import SIZE

WORDS = ("ba", "la", "mi", "to")
QUICK = ("--set", "epochs=1", "--set", "batch=8")


@pytest.fixture
def data(tmp_path):
    """A folder of train, dev and test files for each task."""
    draw = random.Random(0)

    def sentence() -> list[str]:
        return draw.choices(WORDS, k=draw.randint(2, 5))

    def tree() -> str:
        words = sentence()
        rows = [
            f"{index}\t{word}\t_\tX\t_\t_\t{index - 1}\t{'root' if index == 1 else 'dep'}\t_\t_"
            for index, word in enumerate(words, 1)
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
    outcome = relexify(*command, "--details")
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


def test_parsing_with_the_embeddings_of_another_model(world, data, tmp_path):
    command = ("evaluate", world.bert, "--task", "parse", "--data", data / "parse", "--output", tmp_path / "work")
    outcome = relexify(*command, "--through", world.bert, *QUICK)
    assert outcome.status == 0, outcome.err
    assert "las" in outcome.out.lower()


def test_tasks_reject_a_transfer_with_the_tokens_of_another(world, transferred, data, tmp_path):
    folder = pico.permute_tokens(shutil.copytree(transferred[0], tmp_path / "graft"))
    given = ("--task", "nli", "--data", data / "nli", "--output", tmp_path / "work")
    reason = "is not the one that the embeddings were built for"
    assert_error(relexify("evaluate", folder, *given, "--probe"), reason)
    assert_error(relexify("evaluate", world.bert, *given, "--through", folder), reason)
    assert_error(relexify("evaluate", world.bert, *given, "--through", "xx"), "there is no model 'xx'")


def test_impossible_tasks_are_rejected(world, data, tmp_path):
    out = ("--output", tmp_path / "work")
    nli = ("--task", "nli", "--data", data / "nli")
    assert_error(relexify("evaluate", world.bert), "--held-out", "--task")
    assert_error(
        relexify("evaluate", world.bert, "--task", "nil", "--data", data / "nli", *out), "no task 'nil'", "nli"
    )
    assert_error(relexify("evaluate", world.bert, "--task", "nli", *out), "--data")
    assert_error(relexify("evaluate", world.bert, "--task", "nli", "--data", tmp_path / "none", *out), "not a folder")
    assert_error(relexify("evaluate", world.gpt2, *nli, *out), "encoder")
    assert_error(relexify("evaluate", world.bert, *nli, *out, "--set", "examples=0"), "--set examples=0 is")
    rate = ("--set", "score_learning_rate=0.1")
    assert_error(relexify("evaluate", world.bert, *nli, *out, *rate), "has no score_learning_rate")
    assert_error(relexify("evaluate", world.bert, "--task", "ner", "--probe", "--data", data / "ner", *out), "no probe")
    (data / "nli" / "train.tsv").write_text("only one column\n")
    assert_error(relexify("evaluate", world.bert, *nli, *out), "train.tsv", "1")


def test_a_data_set_of_the_hub_is_not_looked_for_among_the_files(world):
    files = ("--train", "hf:nobody/nothing:train", "--test", "hf:nobody/nothing:test")
    outcome = relexify("evaluate", world.bert, "--task", "nli", *files)
    assert_error(outcome, "nobody/nothing")
    assert "check the name" not in outcome.err


def test_seeds_can_be_set_by_their_key(world, data, tmp_path):
    nli = ("--task", "nli", "--data", data / "nli", "--output", tmp_path / "work", *QUICK)
    outcome = relexify("--json", "evaluate", world.bert, *nli, "--set", "seeds=[5, 6]")
    assert outcome.status == 0, outcome.err
    assert len(json.loads(outcome.out)["per_seed"]) == 2


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
    assert_error(relexify("grid", recipe, "--neighbours", "few"), "--neighbours", "few")
    for count in ("1.9", "nan", "inf"):
        assert_error(relexify("grid", recipe, "--neighbours", f"1,{count}"), count, "is not a list of whole numbers")
    for temperature in ("nan", "inf"):
        assert_error(relexify("grid", recipe, "--temperatures", temperature), f"temperature={temperature}")


@pytest.fixture
def recipe(world, data, tmp_path):
    """A recipe that compares two runs of an encoder and measures them on names and on a probe."""
    file = tmp_path / "recipe.toml"
    file.write_text(
        f"""
output = "out"
model = "{world.bert}"
corpus = "{world.corpus}"
[transfer]
vocab_size = {SIZE}
[training]
steps = 4
batch = 4
length = 16
evaluate_every = 2
report_to = []
[compare]
runs = ["fvt", "fullrand"]
[[tasks]]
task = "ner"
train = "ner/train.tsv"
test = "ner/test.tsv"
epochs = 1
batch = 8
seeds = [0, 1]
[[tasks]]
task = "nli"
probe = true
train = "nli/train.tsv"
test = "nli/test.tsv"
"""
    )
    return file


def test_compare_measures_every_run_before_training_and_after_it(recipe, tmp_path):
    outcome = relexify("compare", recipe)
    assert outcome.status == 0, outcome.err
    for words in ("ner", "entity F1 ↑", "nli-probe", "accuracy ↑", "average", "±"):
        assert words in " ".join(outcome.out.split()), outcome.out
    text = (tmp_path / "out" / "comparison.md").read_text()
    assert "## Tasks" in text
    assert "**" in text
    report = json.loads((tmp_path / "out" / "comparison.json").read_text())
    for run in ("fvt", "fullrand"):
        found = [(scores["task"], scores["step"], len(scores["per_seed"])) for scores in report["tasks"][run]]
        assert found == [("ner", 0, 2), ("nli-probe", 0, 1), ("ner", None, 2), ("nli-probe", None, 1)]
        folder = tmp_path / "out" / "runs" / f"{run}-seed0"
        assert {path.name for path in folder.iterdir()} == {
            "cost.json", "curve.json", "relexify.json", "evidence_quality.json", "tasks",
        }, "models were left"  # fmt: skip
        assert all(path.suffix == ".json" for path in (folder / "tasks").iterdir()), "checkpoints were left"
    files = sorted((tmp_path / "out" / "runs").glob("*/tasks/*.json"))
    times = [path.stat().st_mtime_ns for path in files]
    again = relexify("compare", recipe)
    assert again.out == outcome.out
    assert [path.stat().st_mtime_ns for path in files] == times, "a finished task was evaluated again"


def test_compare_measures_tasks_during_training_and_reports_their_course(recipe, tmp_path):
    one = ("--set", 'compare.runs=["fvt"]', "--set", "tasks.0.seeds=[0]")
    during = (*one, "--set", "compare.tasks_at=[0, 0.5, 1.0]")
    outcome = relexify("compare", recipe, *during)
    assert outcome.status == 0, outcome.err
    text = (tmp_path / "out" / "comparison.md").read_text()
    assert "](tasks.svg)" in text
    report = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [scores["step"] for scores in report["tasks"]["fvt"]] == [0, 0, 2, 2, None, None]
    assert relexify("compare", recipe, *during).out == outcome.out, "finished scores are kept"
    assert not list((tmp_path / "out" / "runs").glob("*/model")), "snapshots are not kept"
    assert_error(relexify("compare", recipe, *one, "--set", "compare.tasks_at=[0.01]"), "tasks_at", "0.01", "no step")
    assert_error(relexify("compare", recipe, *one, "--set", "compare.tasks_at=[2]"), "tasks_at", "give 1 or less")


def test_a_training_that_stops_early_lacks_the_scores_after_it(recipe, tmp_path):
    # Too small a rate to change any parameter, so that no score is better than the first.
    settings = ("patience=1", "learning_rate=1e-30", "embedding_learning_rate=1e-30", "steps=8")
    stopped = [part for setting in settings for part in ("--set", f"training.{setting}")]
    outcome = relexify(
        "compare", recipe, *stopped, "--set", 'compare.runs=["fvt"]', "--set", "compare.tasks_at=[0.25, 0.875, 1]"
    )
    assert outcome.status == 0, outcome.err
    report = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [scores["step"] for scores in report["tasks"]["fvt"]] == [2, 2, None, None]


def test_tasks_that_come_later_need_the_models_or_permission(recipe, tmp_path):
    one = ("--set", 'compare.runs=["fvt"]', "--set", "tasks.0.seeds=[0]")
    assert relexify("compare", recipe, *one, "--set", "tasks=[]").status == 0
    assert_error(relexify("compare", recipe, *one), "fvt-seed0", "its model was not kept", "--overwrite")
    outcome = relexify("compare", recipe, *one, "--overwrite")
    assert outcome.status == 0, outcome.err
    kept = ("--set", "compare.keep_models=true", "--set", f"output={tmp_path / 'kept'}")
    assert relexify("compare", recipe, *one, *kept, "--set", "tasks=[]").status == 0
    assert relexify("compare", recipe, *one, *kept).status == 0, "the kept model was there to be measured"


def test_a_comparison_killed_during_evaluation_resumes_with_the_same_scores(recipe, tmp_path, cache):
    one = ("--set", 'compare.runs=["fvt"]', "--set", "tasks.0.epochs=4", "--set", "tasks.0.seeds=[0]")
    checkpoint = "runs/fvt-seed0.work/tasks/ner-end-*/seed-*/checkpoint-*/sealed.json"
    run_until_killed("compare", recipe, *one, cache=cache, when=tmp_path / "out" / checkpoint)
    runs = tmp_path / "out" / "runs"
    assert len(list(runs.glob("fvt-seed0.work/tasks/*-step0-*.json"))) == 2
    assert (runs / "fvt-seed0.work" / "training").exists(), "the model is needed until it is measured"
    outcome = relexify("compare", recipe, *one)
    assert outcome.status == 0
    assert "at the end of training" in outcome.err
    assert "at step 0" not in outcome.err, "finished work was repeated"
    assert [path.name for path in runs.iterdir()] == ["fvt-seed0"]
    assert not (runs / "fvt-seed0" / "model").exists()
    assert relexify("compare", recipe, *one, "--set", f"output={tmp_path / 'whole'}").status == 0
    resumed, whole = (json.loads((tmp_path / name / "comparison.json").read_text()) for name in ("out", "whole"))
    assert resumed["tasks"] == whole["tasks"]


def test_run_measures_the_trained_model_and_keeps_the_scores_with_it(recipe, tmp_path):
    outcome = relexify("run", recipe, "--set", "transfer.method=fvt")
    assert outcome.status == 0, outcome.err
    assert "Tasks" in outcome.out
    assert "nli-probe" in outcome.out
    assert len(json.loads((tmp_path / "out" / "tasks.json").read_text())) == 2
    weights = (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns
    more = relexify("run", recipe, "--set", "transfer.method=fvt", "--set", "tasks.0.seeds=[0, 1]")
    assert more.status == 0, more.err
    assert (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns == weights, "trained for another task"
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out"], "work was left behind"


def test_a_task_starts_from_another_and_is_tested_on_several_files(recipe, data, tmp_path):
    file = tmp_path / "chain.toml"
    file.write_text(
        recipe.read_text().partition("[[tasks]]")[0]
        + """
[[tasks]]
task = "nli"
train = ["nli/train.tsv", "nli/dev.tsv"]
dev = "nli/dev.tsv"
test = {one = "nli/test.tsv", two = "nli/dev.tsv"}
epochs = 1
learning_rates = [1e-4, 1e-3]
[[tasks]]
task = "ner"
start = "nli"
train = "ner/train.tsv"
test = "ner/test.tsv"
epochs = 1
"""
    )
    one = ("--set", 'compare.runs=["fvt"]')
    outcome = relexify("compare", file, *one)
    assert outcome.status == 0, outcome.err
    text = (tmp_path / "out" / "comparison.md").read_text()
    for words in ("nli one", "nli two", "fvt, nli, end: learning_rate = 0.00"):
        assert words in text
    tasks = tmp_path / "out" / "runs" / "fvt-seed0" / "tasks"
    assert all(path.suffix == ".json" for path in tasks.iterdir()), "encoders were left behind"
    kept = {path.name for path in tasks.iterdir()}
    model = ("--set", "compare.keep_models=true", "--set", f"output={tmp_path / 'other'}")
    assert relexify("compare", file, *one, *model, "--set", "tasks.0.epochs=2").status == 0
    other = {path.name for path in (tmp_path / "other" / "runs" / "fvt-seed0" / "tasks").iterdir()}
    assert not kept & other, "scores depend on the task that they start from"


def test_an_encoder_that_was_kept_is_a_model_for_the_next_task(world, data, tmp_path):
    folder = tmp_path / "work"
    command = ("evaluate", world.bert, "--task", "nli", "--train", data / "nli" / "train.tsv", "--output", folder)
    tests = ("--test", f"one={data / 'nli' / 'test.tsv'}", "--test", f"two={data / 'nli' / 'dev.tsv'}")
    outcome = relexify(*command, *tests, "--keep-encoders", *QUICK)
    assert outcome.status == 0, outcome.err
    for words in ("By test set", "one", "two", "encoder-0"):
        assert words in outcome.out
    other = ("--task", "ner", "--data", data / "ner", "--output", tmp_path / "following")
    following = relexify("evaluate", folder / "encoder-0", *other, *QUICK)
    assert following.status == 0, following.err
    assert_error(relexify(*command, *tests[:2], "--test", data / "nli" / "dev.tsv"), "NAME=FILE")


def test_a_run_without_transfer_is_measured_once(recipe, tmp_path):
    plain = tmp_path / "plain.toml"
    text = recipe.read_text()
    plain.write_text(text.partition("[transfer]")[0] + "[training]" + text.partition("[training]")[2])
    assert relexify("run", plain).status == 0
    time_of = (tmp_path / "out" / "tasks.json").stat().st_mtime_ns
    again = relexify("run", plain)
    assert again.status == 0, again.err
    assert "nli-probe" in again.out
    assert (tmp_path / "out" / "tasks.json").stat().st_mtime_ns == time_of


def test_tasks_that_cannot_be_done_are_rejected_before_the_work(recipe, world, tmp_path):
    for verb in ("run", "compare"):
        decoder = ("--set", f"model={world.gpt2}")
        assert_error(relexify(verb, recipe, *decoder), "tasks[0]", "ner", "needs an encoder", "a decoder")
        assert_error(relexify(verb, recipe, "--set", "tasks.1.test=none.tsv"), "tasks[1].test", "none.tsv")
        assert not (tmp_path / "out").exists()
    untrained = tmp_path / "untrained.toml"
    text = recipe.read_text()
    untrained.write_text(text.partition("[training]")[0] + "[[tasks]]" + text.partition("[[tasks]]")[2])
    assert_error(relexify("run", untrained), "[[tasks]]", "[training]")


def test_train_adds_a_head_on_request(world, tmp_path, cache):
    model, tokenizer = pico.pair("bert")
    model.base_model.save_pretrained(tmp_path / "bare")
    tokenizer.save_pretrained(tmp_path / "bare")
    options = (
        "--corpus",
        world.source_corpus,
        "--steps",
        4,
        "--batch",
        4,
        "--length",
        16,
        "--set",
        "report_to=[]",
    )
    command = ("train", tmp_path / "bare", tmp_path / "out", *options)
    assert_error(relexify(*command), "BertModel", "without a language-modelling head", "--add-head")
    planned = relexify(*command, "--add-head", "--dry-run")
    assert planned.status == 0, planned.err
    assert_error(relexify(*command, "--add-head", "--dry-run", "--length", 100_000), "--length 100000 is more than")
    outcome = relexify(*command, "--add-head")
    assert outcome.status == 0, outcome.err
    assert "untrained" in outcome.err
    AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    notes = json.loads((tmp_path / "out" / "relexify.json").read_text())
    assert notes["head_added_to"] == notes["trained_from"] == str(tmp_path / "bare")
    assert str(cache) not in outcome.out, "the next command names a folder in the cache"
    again = relexify(*command, "--add-head")
    assert "up to date" in again.err, "the same command should find its result"
    for dry_run in ((), ("--dry-run",)):
        command = ("train", world.bert, tmp_path / "other", *options, "--add-head", *dry_run)
        assert_error(relexify(*command), "already has a head")
