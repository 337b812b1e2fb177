"""The tables [[tasks]] of a recipe: reading, validating, writing, overriding."""

from __future__ import annotations

import pytest

from relexify.errors import InputError
from relexify.recipes import tasks
from relexify.recipes.file.recipe import read_recipe, recipe_text
from relexify.recipes.file.tasks import TaskEntry
from relexify.recipes.tasks import check_tasks, output_scores, write_output_scores
from relexify.reports import TaskScores
from relexify.scoring import Score
from relexify.storage.fingerprint import fingerprint
from tests import pico

TOP = 'output = "out"\nmodel = "gpt2"\ncorpus = "text.txt"\n'
TASKS = """
[[tasks]]
task = "ner"
train = "$NAMES/train.tsv"
dev = "dev.tsv"
test = "test.tsv"
epochs = 3
seeds = [0, 1]

[[tasks]]
task = "pos"
probe = true
train = "hf:some/data"
test = "test.conllu"
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("NAMES", str(tmp_path / "names"))

    def written(text, name="recipe.toml"):
        (tmp_path / name).write_text(TOP + text)
        return tmp_path / name

    return written


def test_tables_become_entries_with_absolute_paths(write, tmp_path):
    ner, pos = read_recipe(write(TASKS)).tasks
    assert ner == TaskEntry(
        "ner",
        train=f"{tmp_path}/names/train.tsv",
        test=f"{tmp_path}/test.tsv",
        dev=f"{tmp_path}/dev.tsv",
        epochs=3,
        seeds=(0, 1),
    )
    assert (pos.train, pos.title, ner.title) == ("hf:some/data", "pos-probe", "ner")
    assert pos.probe
    assert not read_recipe(write("")).tasks


def test_a_written_recipe_keeps_its_tasks(write, tmp_path):
    recipe = read_recipe(write(TASKS))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "again.toml").write_text(recipe_text(recipe))
    assert read_recipe(tmp_path / "elsewhere" / "again.toml") == recipe


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('task = "ner"', 'task = "nre"', ("tasks[0].task", "no task 'nre'", "did you mean")),
        ("epochs = 3", "epoch = 3", ("no key 'epoch'", "[tasks[0]]", "'epochs'")),
        ("epochs = 3", "epochs = 0", ("tasks[0]", "`epochs=0", "1 or more")),
        ("epochs = 3", "learning_rate = 0", ("tasks[0]", "`learning_rate=0")),
        ("epochs = 3", "score_learning_rate = 0.1", ("tasks[0]", "score_learning_rate")),
        ("epochs = 3", 'epochs = "3"', ("tasks[0].epochs", "a whole number")),
        ("epochs = 3", "examples = -1", ("tasks[0]", "`examples=-1")),
        ("seeds = [0, 1]", "seeds = [0, 0]", ("tasks[0]", "seeds")),
        ("seeds = [0, 1]", "seeds = []", ("tasks[0]", "seeds")),
        ("seeds = [0, 1]", "probe = true", ("tasks[0]", "no probe for ner")),
        ("seeds = [0, 1]", 'name = "a/b"', ("tasks[0].name", "a/b")),
        ('train = "$NAMES/train.tsv"', "", ("[tasks[0]]", "lacks train")),
        ("$NAMES", "$NOBODY", ("tasks[0].train", "NOBODY", "not set")),
        ("probe = true", "probe = true\nepochs = 2", ("tasks[1]", "a probe has no epochs")),
        ("probe = true", 'name = "ner"', ("tasks[1]", "'ner'", "give it a name")),
        ('task = "ner"\ntrain = "$NAMES/train.tsv"\ndev = "dev.tsv"', 'task = "parse"\ntrain = "a"', ("lacks dev",)),
        ("probe = true", 'start = "nli"', ("tasks[1].start", "'nli'", "name one of them (ner)")),
        ("epochs = 3", 'start = "ner"', ("tasks[0].start", "'ner'", "there is none")),
        ('test = "test.tsv"', "test = {}", ("tasks[0].test", "a table", "a name for each")),
        ('test = "test.tsv"', "test = {'a/b' = 'c'}", ("tasks[0].test", "a/b", "use letters")),
        ("seeds = [0, 1]", "keep_encoders = true", ("tasks[0]", "keep_encoders", "command line")),
        ("[[tasks]]\ntask = \"ner\"", "[tasks]\ntask = \"ner\"", ()),
    ],
)  # fmt: skip
def test_a_wrong_task_is_rejected_with_its_key(write, before, after, words):
    assert before in TASKS
    with pytest.raises(InputError) as error:
        read_recipe(write(TASKS.replace(before, after, 1)))
    assert not [word for word in words if word not in str(error.value)], error.value


def test_a_table_that_is_not_a_list_is_rejected(write):
    with pytest.raises(InputError, match=r"write \[\[tasks\]\]"):
        read_recipe(write('[tasks]\ntask = "ner"\n'))


def test_overrides_reach_into_the_list_and_are_relative_to_the_current_folder(write, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ner, pos = read_recipe(write(TASKS), ["tasks.0.epochs=1", "tasks.1.train=mine.tsv"]).tasks
    assert (ner.epochs, ner.seeds) == (1, (0, 1))
    assert pos.train == str(tmp_path / "here" / "mine.tsv")
    assert read_recipe(write(TASKS), ["tasks=[]"]).tasks == ()
    for wrong in ("tasks.2.epochs=1", "tasks.first.epochs=1"):
        with pytest.raises(InputError, match="count from 0 to 1"):
            read_recipe(write(TASKS), [wrong])
    with pytest.raises(InputError, match="the overrides of"):
        read_recipe(write(TASKS), ["tasks.0.epochs=many"])


def test_what_would_stop_a_measurement_is_found_before_the_work(write, tmp_path):
    pico.saved("gpt2", tmp_path / "gpt2")
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("a\tO\n")
    files = {name: str(tmp_path / f"{name}.tsv") for name in ("train", "test")}
    with pytest.raises(InputError, match=r"tasks\[0\]: the task ner needs an encoder.*decoder"):
        check_tasks([TaskEntry("ner", **files)], str(tmp_path / "gpt2"), tmp_path / "r.toml")
    check_tasks([TaskEntry("pos", **files, probe=True)], str(tmp_path / "gpt2"), tmp_path / "r.toml")
    with pytest.raises(InputError, match=r"tasks\[0\]\.test is .*none\.tsv, which is not a file"):
        check_tasks(
            [TaskEntry("pos", train=files["train"], test=str(tmp_path / "none.tsv"), probe=True)],
            "x",
            tmp_path / "r.toml",
        )
    with pytest.raises(InputError, match=r"tasks\[0\]: .*train\.tsv, line 1"):
        check_tasks([TaskEntry("nli", **files, probe=True)], str(tmp_path / "gpt2"), tmp_path / "r.toml")


def test_an_identity_changes_with_the_data_and_the_options_and_not_with_the_name(tmp_path):
    file = tmp_path / "data.tsv"
    file.write_text("a\tO\n")
    files = {"train": str(file), "test": str(file)}
    entry = TaskEntry("ner", **files)
    before = fingerprint(entry)
    assert fingerprint(TaskEntry("ner", **files, name="names")) == before
    assert fingerprint(TaskEntry("ner", **files, epochs=2)) != before
    file.write_text("b\tO\n")
    assert fingerprint(entry) != before


def test_scores_of_other_code_are_measured_again(tmp_path, monkeypatch):
    entry = TaskEntry("ner", train="a.tsv", test="a.tsv")
    scores = TaskScores("ner", None, ((Score("ner", "F1", 0.5, True, 8, "entities"),),))
    write_output_scores(tmp_path, [entry], [scores])
    assert output_scores(tmp_path, [entry]) == (scores,)
    monkeypatch.setattr(tasks, "TASK_SCORES", tasks.TASK_SCORES + 1)
    assert output_scores(tmp_path, [entry]) == ()


SEVERAL = """
[[tasks]]
task = "mnli"
train = ["en.tsv", "$NAMES/de.tsv"]
dev = "dev.tsv"
test = {en = "test-en.tsv", de = "$NAMES/test-de.tsv"}
learning_rates = [1e-5, 2e-5]
batches = [16, 32]

[[tasks]]
task = "rte"
start = "mnli"
train = "rte.tsv"
test = "rte.tsv"
"""


def test_several_training_files_test_sets_and_a_task_to_start_from(write, tmp_path):
    recipe = read_recipe(write(SEVERAL))
    mnli, rte = recipe.tasks
    assert mnli.train == (f"{tmp_path}/en.tsv", f"{tmp_path}/names/de.tsv")
    assert mnli.test == {"en": f"{tmp_path}/test-en.tsv", "de": f"{tmp_path}/names/test-de.tsv"}
    assert [(entry.learning_rate, entry.batch) for entry in mnli.candidates] == [
        (1e-5, 16), (1e-5, 32), (2e-5, 16), (2e-5, 32),
    ]  # fmt: skip
    assert rte.start == "mnli"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "again.toml").write_text(recipe_text(recipe))
    assert read_recipe(tmp_path / "elsewhere" / "again.toml") == recipe
    (tmp_path / "names").mkdir()
    for name in ("en", "dev", "test-en", "names/de"):
        (tmp_path / f"{name}.tsv").touch()
    with pytest.raises(InputError, match=r"tasks\[0\]\.test\.de is .*test-de\.tsv, which is not a file"):
        check_tasks(recipe.tasks, "x", tmp_path / "r.toml")
    before = fingerprint(mnli)
    (tmp_path / "names" / "test-de.tsv").write_text("other")
    assert fingerprint(mnli) != before, "the content of every test set counts"
