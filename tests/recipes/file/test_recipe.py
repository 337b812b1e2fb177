"""A whole run as a TOML file: reading, validating, overriding, writing, and the recipes that ship."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from relexify.errors import InputError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import VectorTraining
from relexify.methods.registry import METHODS, Method
from relexify.recipes.file.comparison import RUNS, CompareOptions, Run
from relexify.recipes.file.named import find_recipe, shipped_recipes
from relexify.recipes.file.recipe import Recipe, changed_tables, read_recipe, recipe_text
from relexify.recipes.file.settings import apply_settings, list_options
from relexify.systems.bilingual.options import RAMEN
from relexify.systems.compression.options import Compression
from relexify.systems.transfer.options import Transfer
from relexify.training.options import Stage, Training
from relexify.training.plan import plan_stages

TOP = 'output = "out"\nmodel = "gpt2"\ncorpus = "text.txt"\n'

FULL = """
title = "WECHSEL for GPT-2"
output = "gpt2-swahili"
model = "gpt2"
corpus = ["$TEXT/sw.train.txt.xz", "more/*.txt", "hf:cc100:sw"]
held_out = "${TEXT}/sw.held.txt.xz"

[transfer]
method = "wechsel"
vocab_size = 50_000
temperature = 1
dictionary = "en-sw.tsv"
tokenizer = "./tokenizer"
score = false

[transfer.vectors]
method = "skipgram"
width = 300

[transfer.overrides]
"Ġshule" = "Ġschool"

[training]
learning_rate = 1e-4

[[training.stages]]
name = "embeddings"
steps = 100
trains = "wte|lm_head$"

[[training.stages]]
name = "everything"
steps = 400
learning_rate = 5e-4

[compare]
runs = ["wechsel", "transinner", {name = "mine", method = "fvt", plan = "embeddings-first"}]
seeds = [0, 1]
subsamples = ["16 MiB", 1000, "1.5 kB"]
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT", "/texts")
    monkeypatch.delenv("NOWHERE", raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")

    def write(text: str, name: str = "recipe.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def error(path: Path, *overrides: str) -> str:
    with pytest.raises(InputError) as raised:
        read_recipe(path, overrides)
    return str(raised.value)


def test_the_options_of_a_method_that_is_added_later_are_keys_too(write, monkeypatch):
    @dataclass(frozen=True)
    class Sharpness:
        sharpness: float = 1.0

    file = write(TOP + '[transfer]\nmethod = "sharp"\nsharpness = 2.0\n')
    assert "there is no key 'sharpness' in [transfer]" in error(file)
    sharp = Method("…", "…", "…", build=lambda inputs: None, options=Sharpness)
    monkeypatch.setattr(METHODS, "_entries", {**METHODS, "sharp": sharp})
    assert read_recipe(file).tables["transfer"].options == {"sharpness": 2.0}


def test_a_run_that_changes_one_option_of_a_method_keeps_the_others(write, tmp_path):
    runs = "[training]\n[compare]\nruns = [{name = 'far', changes.transfer.atoms = 5}]\n"
    text = TOP + f"[transfer]\nmethod = 'fvt'\natoms = 3\nanchors = 9\n{runs}"
    for recipe in (first := read_recipe(write(text)), read_recipe(write(recipe_text(first)))):
        (run,) = recipe.compare.runs
        assert run.changes == {"transfer": {"atoms": 5}}
        changed = changed_tables(recipe, run.changes)["transfer"]
        assert changed.options == {"atoms": 5, "anchors": 9}


def test_every_table_of_a_recipe_becomes_its_dataclass(write, tmp_path):
    recipe = read_recipe(write(FULL))
    corpus = ("/texts/sw.train.txt.xz", str(tmp_path / "more/*.txt"), "hf:cc100:sw")
    assert recipe == Recipe(
        title="WECHSEL for GPT-2",
        output=tmp_path / "gpt2-swahili",
        model="gpt2",
        corpus=corpus,
        held_out="/texts/sw.held.txt.xz",
        tables={
            "transfer": Transfer(
                model="gpt2",
                output=tmp_path / "gpt2-swahili",
                corpus=corpus,
                held_out="/texts/sw.held.txt.xz",
                method="wechsel",
                vocab_size=50_000,
                temperature=1.0,
                dictionary=tmp_path / "en-sw.tsv",
                tokenizer=str(tmp_path / "tokenizer"),
                score=False,
                vectors=VectorTraining(method="skipgram", width=300),
                overrides={"Ġshule": "Ġschool"},
            ),
            "training": Training(
                steps=500,
                learning_rate=1e-4,
                stages=(
                    Stage("embeddings", 100, "wte|lm_head$", learning_rate=1e-4),
                    Stage("everything", 400, learning_rate=5e-4),
                ),
            ),
        },
        compare=CompareOptions(
            runs=(RUNS["wechsel"], RUNS["transinner"], Run("mine", "fvt", "embeddings-first")),
            seeds=(0, 1),
            subsamples=(16 * 2**20, 1000, 1500),
        ),
    )
    assert recipe.source == tmp_path / "recipe.toml"
    assert type(recipe.tables["transfer"].temperature) is float


def test_a_recipe_needs_no_title_and_no_tables(write, tmp_path):
    recipe = read_recipe(write(TOP, "small.toml"))
    assert recipe == Recipe("small", tmp_path / "out", "gpt2", str(tmp_path / "text.txt"))


def test_an_empty_transfer_is_a_transfer_with_all_defaults(write, tmp_path):
    recipe = read_recipe(write(TOP + "[transfer]"))
    assert recipe.tables["transfer"] == Transfer("gpt2", tmp_path / "out", str(tmp_path / "text.txt"))
    assert read_recipe(write(recipe_text(recipe))).tables["transfer"] == recipe.tables["transfer"]


def test_a_byte_order_mark_is_no_error(write):
    assert read_recipe(write("\ufeff" + TOP)).model == "gpt2"


@pytest.mark.parametrize(
    "text", [FULL, TOP, TOP + "[transfer]\n[training]\n[compare]\nruns = [{name = 'a', method = 'fvt'}]"]
)
def test_a_written_recipe_reads_back_as_itself_wherever_it_lies(write, tmp_path, text):
    recipe = read_recipe(write(text))
    (tmp_path / "elsewhere").mkdir()
    assert read_recipe(write(recipe_text(recipe), "elsewhere/again.toml")) == recipe


def test_odd_characters_survive_writing(write, tmp_path):
    folder = tmp_path / "a $HOME"
    recipe = Recipe(
        title='quotes " and \\, tab\t, line\n, bell\x07, delete\x7f, 語, 𒀀',
        output=folder,
        model=f"{folder}/model",
        corpus=(f"{folder}/text.txt", "hf:a$b"),
        held_out=f"{folder}/held.txt",
        tables={
            "transfer": Transfer(
                f"{folder}/model",
                folder,
                (f"{folder}/text.txt", "hf:a$b"),
                held_out=f"{folder}/held.txt",
                tokenizer=f"{folder}/tokens",
                source_corpus=f"{folder}/en.txt",
                dictionary=folder / "en.tsv",
                overrides={"a.b = c": "$d", "": '"'},
            ),
            "training": Training(learning_rate=1e-300, epsilon=1e22, compile=False),
        },
    )
    assert read_recipe(write(recipe_text(recipe))) == recipe


def test_defaults_are_not_written(write):
    text = recipe_text(
        read_recipe(write(TOP + "[transfer]\nvocab_size = 32_000\nneighbours = 3\n[training]\nbatch=64"))
    )
    assert tomllib.loads(text)["transfer"] == {"neighbours": 3}
    assert tomllib.loads(text)["training"] == {}


def test_a_stage_whose_rate_is_the_usual_one_keeps_it_beside_another_rate_of_the_training(write):
    stages = (Stage("one", 3, learning_rate=5e-4), Stage("two", 4, learning_rate=1e-3, schedule="cosine"))
    recipe = read_recipe(write(TOP))
    training = Training(steps=7, learning_rate=1e-3, schedule="cosine", stages=stages)
    recipe = replace(recipe, tables={"training": training})
    assert read_recipe(write(recipe_text(recipe))) == recipe


def test_a_lexicon_in_memory_cannot_be_written(write):
    recipe = read_recipe(write(TOP + "[transfer]"))
    lexicon = BilingualLexicon((("a", "b"),))
    for name, value in (("dictionary", lexicon), ("source_corpus", {})):
        transfer = replace(recipe.tables["transfer"], **{name: value})
        with pytest.raises(InputError, match=rf"{name} is a {type(value).__name__}.*give the path"):
            recipe_text(replace(recipe, tables={"transfer": transfer}))


INVALID = {
    "top key": ("titel = 'x'\n" + TOP, ["there is no key 'titel' in the top of the file", "did you mean 'title'?"]),
    "key": (TOP + "[training]\nstepz = 5", ["no key 'stepz' in [training]", "did you mean 'steps'?"]),
    "dash": (TOP + "[transfer]\nvocab-size = 5", ["no key 'vocab-size' in [transfer]", "did you mean 'vocab_size'?"]),
    "choice": (
        TOP + "[transfer]\naligning.units = 'foo'",
        ["transfer.aligning.units is 'foo': choose tokens or words"],
    ),
    "far key": (TOP + "[compare]\nxyz = 5", ["choose one of runs, seeds, subsamples, keep_models"]),
    "nested key": (TOP + "[transfer.vectors]\nwidht = 5", ["no key 'widht' in [transfer.vectors]", "'width'"]),
    "stage key": (
        TOP + "[[training.stages]]\nname = 'a'\nstep = 5",
        ["no key 'step' in [training.stages[0]]", "did you mean 'steps'?"],
    ),
    "misplaced": (TOP + "[transfer]\ncorpus = 'x'", ["corpus does not belong in [transfer]", "above the first table"]),
    "overwrite": (TOP + "[transfer]\noverwrite = true", ["overwrite does not belong in [transfer]", "command line"]),
    "text for int": (TOP + "[training]\nsteps = 'many'", ["training.steps is the text 'many'", "give a whole number"]),
    "bool for int": (TOP + "[training]\nsteps = true", ["training.steps is true", "give a whole number"]),
    "float for int": (TOP + "[training]\nsteps = 1e3", ["training.steps is the number 1000.0", "give a whole number"]),
    "bool for float": (TOP + "[training]\nwarmup = true", ["training.warmup is true", "give a number"]),
    "int for bool": (TOP + "[transfer]\nscore = 1", ["transfer.score is the number 1", "give true or false"]),
    "int for text": (TOP + "[training]\nplan = 1", ["training.plan is the number 1", "give text in quotes"]),
    "int for path": (TOP + "[transfer]\ndictionary = 1", ["transfer.dictionary is the number 1", "give text"]),
    "date": (TOP + "[training]\nsteps = 2020-01-01", ["training.steps is a date", "give a whole number"]),
    "list for table": (TOP + "training = []", ["training is a list", "give a table"]),
    "table for list": (TOP + "[compare.runs]", ["compare.runs is a table", "give a list"]),
    "corpus": ("output = 'o'\nmodel = 'm'\ncorpus = 3", ["corpus is the number 3", "a list of names"]),
    "corpus item": ("output = 'o'\nmodel = 'm'\ncorpus = ['a', 3]", ["corpus[1] is the number 3", "give text"]),
    "no corpora": ("output = 'o'\nmodel = 'm'\ncorpus = []", ["corpus is an empty list"]),
    "empty path": ("output = ''\nmodel = 'm'\ncorpus = 'c'", ["output is empty"]),
    "empty model": ("output = 'o'\nmodel = ''\ncorpus = 'c'", ["model is empty"]),
    "token": (TOP + "[transfer.overrides]\na = 1", ["transfer.overrides.a is the number 1", "give text"]),
    "missing": ("title = 'x'", ["the top of the file lacks output, model and corpus: add them"]),
    "missing one": ("output = 'o'\nmodel = 'm'", ["lacks corpus: add it"]),
    "stage lacks": (TOP + "[[training.stages]]", ["[training.stages[0]] lacks name and steps: add them"]),
    "runs missing": (TOP + "[compare]", ["[compare] lacks runs: add it"]),
    "no runs": (TOP + "[compare]\nruns = []", ["compare.runs is an empty list: name at least one"]),
    "no seeds": (TOP + "[compare]\nruns = ['fvt']\nseeds = []", ["compare.seeds is an empty list"]),
    "run": (TOP + "[compare]\nruns = ['wechsle']", ["compare.runs[0]: there is no run 'wechsle'", "'wechsel'?"]),
    "runs twice": (TOP + "[compare]\nruns = ['fvt', 'fvt']", ["compare.runs has 'fvt' twice"]),
    "seeds twice": (TOP + "[compare]\nruns = ['fvt']\nseeds = [1, 1]", ["compare.seeds has 1 twice"]),
    "seed": (TOP + "[compare]\nruns = ['fvt']\nseeds = [-1]", ["compare.seeds has -1: give 0 or more"]),
    "run's method": (
        TOP + "[compare]\nruns = [{name = 'a', method = 'ftv'}]",
        ["compare.runs[0].method: there is no method 'ftv'", "did you mean 'fvt'?"],
    ),
    "run's plan": (
        TOP + "[compare]\nruns = [{name = 'a', method = 'fvt', plan = 'embedding-first'}]",
        ["compare.runs[0].plan: there is no plan", "did you mean 'embeddings-first'?"],
    ),
    "run's name": (
        TOP + "[compare]\nruns = [{name = '../a', method = 'fvt'}]",
        ["compare.runs[0].name is '../a', which cannot name a folder"],
    ),
    "size": (TOP + "[compare]\nruns = ['fvt']\nsubsamples = ['16 apples']", ["subsamples[0] is '16 apples'", "16 MiB"]),
    "bare size": (TOP + "[compare]\nruns = ['fvt']\nsubsamples = ['16']", ["subsamples[0] is '16'"]),
    "no size": (TOP + "[compare]\nruns = ['fvt']\nsubsamples = [0]", ["compare.subsamples has 0: give 1 or more"]),
    "method": (TOP + "[transfer]\nmethod = 'belnd'", ["transfer.method: there is no method 'belnd'", "'blend'?"]),
    "vectors": (TOP + "[transfer.vectors]\nmethod = 'count'", ["transfer.vectors.method", "did you mean 'counts'?"]),
    "width": (TOP + "[transfer.vectors]\nwidth = 0", ["transfer:", "`width=0` is not possible"]),
    "plan": (TOP + "[training]\nplan = 'x'", ["training.plan is 'x': choose one of relexify, direct"]),
    "steps": (TOP + "[training]\nsteps = 0", ["training:", "steps"]),
    "rate": (
        TOP + "[training]\nlearning_rate = inf",
        ["training.learning_rate is the number inf", "give a finite number"],
    ),
    "regex": (TOP + "[[training.stages]]\nname = 'a'\nsteps = 1\ntrains = '('", ["training: the stage 'a' trains '('"]),
    "disagreeing": (
        TOP + "[training]\nsteps = 9\n[[training.stages]]\nname = 'a'\nsteps = 5",
        ["training: steps is 9, but the stages have 5 steps together", "leave steps out"],
    ),
    "too short": (
        TOP + "[training]\nsteps = 1\n[compare]\nruns = ['transinner']",
        ["training: `steps=1` is too few", "embeddings-first"],
    ),
    "huge int": (TOP + f"[training]\nsteps = {10**400}", ["training.steps is the number 1000", "at most 64 bits"]),
    "huge float": (TOP + f"[training]\nlearning_rate = {10**400}", ["learning_rate is the number 1000", "a number"]),
    "digits": (TOP + f"[training]\nsteps = 1{'0' * 5000}", ["a number of thousands of digits", "shorten it"]),
    "nesting": (TOP + f"steps = {'[' * 100_000}", ["nests too many lists or tables", "check that it is a recipe"]),
    "not a number": (TOP + "[training]\nwarmup = nan", ["training.warmup is the number nan", "give a finite number"]),
    "null": ('output = "a\\u0000b"\nmodel = "m"\ncorpus = "c"', ["output is 'a", "character NUL"]),
    "nobody": ("output = '~nobodyxyz/x'\nmodel = 'm'\ncorpus = 'c'", ["output is '~nobodyxyz/x'", "no such user"]),
    "long model": (f"output = 'o'\nmodel = '{'m' * 5000}'\ncorpus = 3", ["corpus is the number 3"]),
    "variable": (TOP + "[transfer]\ndictionary = '$NOWHERE/x'", ["transfer.dictionary", "variable NOWHERE is not set"]),
    "braces": ("output = 'o'\nmodel = '${NOWHERE}'\ncorpus = 'c'", ["model", "variable NOWHERE is not set"]),
    "in a list": ("output = 'o'\nmodel = 'm'\ncorpus = ['$NOWHERE']", ["corpus", "variable NOWHERE is not set"]),
    "syntax": (TOP + "steps 5\n", [", line 4: this is not TOML", "Expected '='"]),
    "unclosed": (TOP + "x = [1,\n", [", line 4: this is not TOML"]),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_wrong_recipe_is_rejected_with_file_key_and_remedy(write, name):
    text, expected = INVALID[name]
    message = error(write(text))
    for part in ["recipe.toml", *expected]:
        assert part in message


def test_the_first_mistake_in_the_file_is_reported_but_unknown_keys_before_and_missing_ones_after_others(write):
    mistakes = ["[training]\nsteps = 'x'\n", "[transfer]\nvocab_size = 'y'\n"]
    assert "training.steps is the text 'x'" in error(write(TOP + "".join(mistakes)))
    assert "transfer.vocab_size is the text 'y'" in error(write(TOP + "".join(reversed(mistakes))))
    assert "training.steps is the text 'x'" in error(write("".join(mistakes)))
    assert "there is no key 'seedz'" in error(write("".join(mistakes) + "seedz = 1"))


def test_a_missing_or_unreadable_file_is_rejected_by_name(tmp_path):
    (tmp_path / "latin.toml").write_bytes("title = 'ä'".encode("latin-1"))
    assert "none.toml cannot be read" in error(tmp_path / "none.toml")
    assert "is not a file" in error(tmp_path)
    assert "is not a file" in error(Path("/dev/zero"))
    assert "latin.toml is not text in UTF-8 (byte 9)" in error(tmp_path / "latin.toml")


def test_names_of_files_that_are_not_utf8_are_written_and_read_back(tmp_path):
    text = tmp_path / os.fsdecode(b"caf\xe9.txt")
    text.write_text("un café\n")
    file = tmp_path / os.fsdecode(b"th\xe9.toml")
    file.write_text(TOP)
    recipe = read_recipe(file, [f"corpus={text}"])
    assert recipe.title == "th\\xe9"
    again = tmp_path / "again.toml"
    again.write_bytes(recipe_text(recipe).encode("utf-8", "surrogateescape"))
    assert read_recipe(again) == recipe
    text.unlink()  # then it may as well be a file in Latin-1 that names another one
    assert "again.toml is not text in UTF-8" in error(again)


def test_a_recipe_in_another_encoding_is_not_called_a_mistake_of_a_line(tmp_path):
    (tmp_path / "wide.toml").write_bytes(TOP.encode("utf-16"))
    assert "wide.toml is not text in UTF-8 (byte 0)" in error(tmp_path / "wide.toml")


def test_overrides_win_over_the_file_and_later_ones_over_earlier_ones(write):
    recipe = read_recipe(
        write(TOP + "[training]\nsteps = 5\n[compare]\nruns = ['fvt']"),
        [
            "training.steps=500",
            "training.steps = 600",
            "compare.seeds=[0,1,2]",
            "title=A new one",
            "training.compile=true",
        ],
    )
    assert (recipe.tables["training"].steps, recipe.compare.seeds, recipe.title) == (600, (0, 1, 2), "A new one")
    assert recipe.tables["training"].compile is True


def test_overrides_reach_tables_that_the_file_lacks_and_quoted_keys(write):
    recipe = read_recipe(write(TOP), ["transfer.vectors.width=7", 'transfer.overrides."a.b"=c', "model=smollm2-135m"])
    assert recipe.tables["transfer"].vectors.width == 7
    assert recipe.tables["transfer"].overrides == {"a.b": "c"}
    assert recipe.tables["transfer"].model == "smollm2-135m"


def test_paths_of_overrides_are_relative_to_the_current_folder(write, tmp_path):
    recipe = read_recipe(
        write(TOP + "[transfer]\nrotation = 'r'"),
        ["transfer.dictionary=x.tsv", "corpus=['a', '$TEXT/b']", "output=runs/one"],
    )
    assert recipe.tables["transfer"].dictionary == tmp_path / "home" / "x.tsv"
    assert recipe.corpus == (str(tmp_path / "home" / "a"), "/texts/b")
    assert recipe.output == tmp_path / "home" / "runs" / "one"
    assert recipe.tables["transfer"].rotation == tmp_path / "r"


def test_an_override_without_a_value_leaves_a_key_out(write):
    text = "held_out = 'held.txt'\n" + TOP + "[transfer]\nvocab_size = 7\ndictionary = 'd.tsv'"
    recipe = read_recipe(write(text), ["held_out=", "transfer.dictionary= ", "transfer.nothing="])
    assert recipe.held_out is None
    assert (recipe.tables["transfer"].dictionary, recipe.tables["transfer"].vocab_size) == (None, 7)
    assert "lacks corpus: add it" in error(write(TOP), "corpus=")


@pytest.mark.parametrize("override", ["training.steps", "", "=5", "training..steps=5", "a b=5"])
def test_an_override_without_key_and_value_is_rejected(write, override):
    assert f"the override {override!r} is not of the form KEY=VALUE" in error(write(TOP), override)


def test_an_invalid_override_is_reported_as_an_override(write):
    path = write(TOP + "[training]\nsteps = 5\n[compare]\nruns = ['fvt']")
    message = error(path, "training.stepz=5")
    assert "the overrides of" in message
    assert "no key 'stepz' in [training]: did you mean 'steps'?" in message
    assert "the overrides of" in error(path, "training.steps=many")
    assert "the overrides of" not in error(write(TOP + "[training]\nsteps = true"), "training.batch=5")
    assert "leads through title, which is not a table" in error(write("title = 'x'\n" + TOP), "title.x=5")


def test_a_value_that_smuggles_a_second_key_is_text(write):
    assert read_recipe(write(TOP), ["title='a'\nmodel='b'"]).title == "'a'\nmodel='b'"


def test_a_model_is_a_path_only_where_it_looks_like_one_or_is_one(write, tmp_path):
    def model(name: str) -> str:
        return read_recipe(write(f"output = 'o'\nmodel = '{name}'\ncorpus = 'c'")).model

    (tmp_path / "here").mkdir()
    assert model("gpt2") == "gpt2"
    assert model("nobody/gpt2") == "nobody/gpt2"
    assert model("here") == str(tmp_path / "here")
    assert model("../gpt2") == str(tmp_path.parent / "gpt2")
    assert model("$TEXT/gpt2") == "/texts/gpt2"
    assert model("~/gpt2") == str(Path.home() / "gpt2")


def test_a_recipe_that_is_named_relatively_has_absolute_paths(write, tmp_path):
    write(TOP)
    assert read_recipe("../recipe.toml").output == tmp_path / "out"


def test_every_preset_is_a_run_that_can_be_made():
    for name, run in RUNS.items():
        assert run.name == name
        assert run.method in {*METHODS, "fullrand"}
        assert run.plan in {None, "direct", "embeddings-first"}
    assert {run.method for run in RUNS.values() if run.name == f"{run.method}-direct"} == set(METHODS)
    assert {name for name, run in RUNS.items() if run.plan == "embeddings-first"} == {
        "transinner", "transinner-shuffle", "wechsel-frozen", "blend-frozen", "ramen-frozen",
    }  # fmt: skip


# The shipped recipes.


@pytest.fixture(scope="module")
def current(tmp_path_factory) -> Path:
    """The current folder when the shipped recipes are read."""
    return tmp_path_factory.mktemp("current")


@pytest.fixture(scope="module")
def shipped(current) -> dict[str, Recipe]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_DATA", str(current))
        patch.chdir(current)
        return {name: read_recipe(name) for name in shipped_recipes()}


def test_every_shipped_recipe_reads_writes_and_says_how_it_is_run(shipped, write, current):
    assert len(shipped) > 30
    for name, recipe in shipped.items():
        assert read_recipe(write(recipe_text(recipe), f"{name}.toml")) == recipe
        verb = "compare" if recipe.compare else "run"
        text = recipe.source.read_text()
        assert text.startswith("# ")
        assert "\ntitle = " in text  # which `relexify recipes` shows
        assert f"relexify {verb} {name}" in text
        assert recipe.output == current / "runs" / name
        initialises = {"transfer", "trelm", "fresh"} & set(recipe.tables)
        assert initialises or name in ("minilm-english", "sub-minilm", "sub-minilm-multilingual", "sub-smollm2")


def test_a_file_comes_before_a_recipe_of_the_same_name_and_a_folder_does_not(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wechsel-roberta").mkdir()
    assert find_recipe("wechsel-roberta") == shipped_recipes()["wechsel-roberta"]
    (tmp_path / "wechsel-gpt2").write_text(TOP)
    assert read_recipe("wechsel-gpt2").output == tmp_path / "out"
    for name, reason in (
        ("wechsel-gpt3", "did you mean"),
        ("nonsense", r"'nonsense': relexify recipes lists all \d+"),
        ("x.toml", "No such file"),
        ("x/y", "No such file"),
    ):
        with pytest.raises(InputError, match=reason):
            read_recipe(name)


def test_all_files_that_a_recipe_lacks_are_named_at_once(monkeypatch):
    monkeypatch.delenv("RELEXIFY_DATA", raising=False)
    message = error("wechsel-gpt2", "transfer.dictionary=mine.tsv")
    assert message.startswith(
        "wechsel-gpt2: the variable RELEXIFY_DATA is not set, but corpus is $RELEXIFY_DATA/text/sw.train.txt.xz, "
    )
    assert "transfer.target_vectors is $RELEXIFY_DATA/vectors/cc.sw.300.bin: set it to the folder" in message
    assert "transfer.dictionary" not in message


def test_shipped_recipes_name_their_plan_so_that_a_new_default_changes_none_of_them(shipped):
    for name, recipe in shipped.items():
        training = recipe.tables.get("training")
        assert training is None or training.stages or "\nplan = " in recipe.source.read_text(), name


def test_the_recipes_of_the_paper_have_its_hyperparameters(shipped):
    for name in ("wechsel-gpt2", "wechsel-roberta", "wechsel-low-resource", "compare-gpt2", "freezing-gpt2",
                 "relearning-gpt2", "data-size"):  # fmt: skip
        training, transfer = shipped[name].tables["training"], shipped[name].tables["transfer"]
        assert (training.batch, training.length, training.weight_decay) == (512, 512, 0.01)
        assert (training.epsilon, training.beta1, training.beta2) == (1e-6, 0.9, 0.98)
        assert (training.warmup, training.schedule) == (0.1, "linear")
        assert training.learning_rate == (1e-4 if name == "wechsel-roberta" else 5e-4)
        assert training.steps == (75_000 if name in ("freezing-gpt2", "relearning-gpt2") else 250_000)
        assert (transfer.vocab_size, transfer.neighbours, transfer.temperature) == (50_000, 10, 0.1)
        assert shipped[name].model == ("roberta-base" if name == "wechsel-roberta" else "gpt2")


def test_the_recipe_for_relearning_trains_the_embeddings_alone_in_both_runs(shipped):
    runs = shipped["relearning-gpt2"].compare.runs
    assert [(run.name, run.method, run.plan) for run in runs] == [
        ("wechsel", "wechsel", None),
        ("transinner", "random", None),
    ]
    assert plan_stages(shipped["relearning-gpt2"].tables["training"])[0].trains == "embeddings"


def test_the_recipes_of_ramen_have_its_hyperparameters(shipped):
    for name in ("ramen-bert-base", "ramen-roberta-base", "ramen-bert-large", "ramen-roberta-large"):
        large, step = name.endswith("large"), shipped[name].tables["bilingual"]
        for training in (shipped[name].tables["training"], step.training):
            (stage,) = plan_stages(training)
            assert (training.batch, training.length) == (24 if large else 64, 256)
            assert (stage.learning_rate, stage.warmup_steps, stage.schedule) == (1e-4, 4_000, "inverse_sqrt")
            assert stage.optimiser == ("adamw" if large else "lookahead")
            assert (training.lookahead_steps, training.lookahead_alpha, training.weight_decay) == (5, 0.5, 0.0)
        assert (shipped[name].tables["training"].steps, step.training.steps) == (25_000, 250_000 if large else 150_000)
        assert plan_stages(shipped[name].tables["training"])[0].trains == "embeddings"
        assert shipped[name].tables["transfer"].vocab_size == (50_000 if "roberta" in name else 32_000)
        assert shipped[name].tables["transfer"].method == "ramen-vectors"


def test_the_recipes_of_the_papers_evaluate_encoders_on_their_tasks(shipped):
    ramen, wechsel = shipped["ramen-roberta-base"], shipped["wechsel-roberta"]
    for other in ("ramen-roberta-large", "ramen-bert-base", "ramen-bert-large"):
        assert ramen.tasks == shipped[other].tasks
    assert [entry.title for entry in ramen.tasks] == ["nli-fr", "parse-fr", "parse-supervised"]
    for entry in ramen.tasks:
        training = entry.training
        epochs = 4 if entry.task == "nli" else 50
        assert (training.epochs, training.batch, training.learning_rate) == (epochs, 32, 1e-5)
    steps = [round(share * ramen.tables["bilingual"].training.steps / 1_000) for share in ramen.compare.tasks_at]
    assert steps == [0, 25, 50, 75, 100, 125, 150]
    assert wechsel.compare.tasks_at == (0, 0.1, 1)
    for entry, epochs, batch in zip(wechsel.tasks, (2, 10), (128, 32), strict=True):
        training = entry.training
        assert (training.epochs, training.batch, training.learning_rate, training.length) == (epochs, batch, 2e-5, 128)
        assert (training.warmup, len(entry.seeds)) == (0.1, 3)


def test_the_recipes_of_trelm_have_its_hyperparameters(shipped):
    for name in ("trelm-bert-base", "trelm-roberta-base", "trelm-xlm-en-2048"):
        options = shipped[name].tables["trelm"]
        phases = (options.commonality, options.transfer, options.specific)
        assert [each.steps for each in phases] == [20_000, 20_000, 80_000]
        for training in phases:
            assert (training.batch, training.length, training.weight_decay) == (128, 511, 0.01)
            assert (training.beta1, training.beta2) == (0.9, 0.999)
            assert (training.optimiser, training.schedule) == ("adamw", "linear")
        # The first two have a peak in the paper, the last an initial rate.
        rates = [(each.learning_rate, each.warmup) for each in phases]
        assert rates == [(3e-5, 0.1), (3e-5, 0.1), (2e-5, 0.0)]
        assert (options.objective, options.trilayer, options.target_words) == ("cdlm", True, "char")
        assert options.weighting == "tokens"
        transfer = shipped[name].tables["transfer"]
        assert (transfer.method, transfer.aligned_by, transfer.options["map"]) == ("trelm", "adversarial", "orthogonal")


def test_the_recipe_from_multilingual_bert_is_that_of_trelm_without_a_transfer(shipped):
    recipe, other = shipped["trelm-mbert-base"], shipped["trelm-bert-base"]
    assert recipe.model == "bert-base-multilingual-cased"
    assert set(recipe.tables) == {"trelm"}
    assert recipe.tables["trelm"] == other.tables["trelm"]
    assert (recipe.corpus, recipe.held_out) == (other.corpus, other.held_out)


def test_the_small_multilingual_encoder_is_tested_in_every_language_and_is_the_source_of_trelm(shipped):
    multilingual, trelm = shipped["minilm-multilingual"], shipped["trelm-minilm-multilingual"]
    assert multilingual.model == str(shipped["minilm-english"].output)
    assert len(multilingual.corpus) == len(multilingual.held_out) == len(multilingual.tasks[0].test) == 4
    assert trelm.model == str(multilingual.output)
    assert set(trelm.tables) == {"trelm"}  # no transfer: the vocabulary has both languages
    separate, small = shipped["trelm-minilm-german"].tables["trelm"], trelm.tables["trelm"]
    for name in ("commonality", "transfer", "specific"):
        rates = [(each.learning_rate, each.warmup) for each in (getattr(separate, name), getattr(small, name))]
        assert rates[0] == rates[1], name


def test_the_small_bert_of_trelm_has_its_shape_and_training(shipped):
    recipe = shipped["bert-small-chinese"]
    training = recipe.tables["training"]
    assert set(recipe.tables) == {"fresh", "training"}
    config = BertConfig(vocab_size=21_128, **recipe.tables["fresh"])  # the tokenizer of bert-base-chinese
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in BertForMaskedLM(config).parameters())
    assert round(size / 1e6) == 15  # its Table 4
    assert training.length == config.max_position_embeddings
    assert (training.steps * training.batch, training.length) == (240_000 * 256, 128)
    assert (training.learning_rate, training.weight_decay, training.beta2) == (1e-4, 0.01, 0.999)
    assert plan_stages(training)[0].warmup_steps == pytest.approx(10_000, rel=0.01)


@pytest.mark.parametrize(("language", "code", "texts"), [("german", "de", 2), ("swahili", "sw", 1)])
def test_the_recipes_of_ramen_for_the_small_encoder_go_on_from_its_head(shipped, language, code, texts):
    recipe = shipped[f"ramen-minilm-{language}"]
    assert recipe.model == str(shipped["minilm-english"].output)
    bitext = recipe.tables["transfer"].bitext
    assert (recipe.tables["transfer"].method, recipe.tables["transfer"].vocab_size) == ("ramen", 30_000)
    assert len([bitext] if isinstance(bitext, str) else bitext) == texts
    assert plan_stages(recipe.tables["training"])[0].trains == "embeddings"
    assert recipe.tables["bilingual"].languages == ("en", code)
    for training, steps in ((recipe.tables["training"], 300), (recipe.tables["bilingual"].training, 900)):
        assert (training.steps, training.batch, training.length) == (steps, 256, 128)
        assert training.optimiser == "lookahead"


def test_the_recipes_of_tables_score_as_much_text_as_the_tables_say(shipped):
    for name in (
        "minilm-english",
        "minilm-german",
        "minilm-swahili",
        "minilm-multilingual",
        "sub-minilm",
        "sub-minilm-scratch",
        "sub-minilm-multilingual",
    ):
        assert shipped[name].tables["training"].held_out_bytes == 100_000, name
    for name in ("trelm-minilm-german", "trelm-minilm-german-separate", "trelm-minilm-multilingual"):
        options = shipped[name].tables["trelm"]
        for phase in (options.commonality, options.transfer, options.specific):
            assert phase.held_out_bytes == 100_000, name
    decoder = shipped["ramen-smollm2-german"].tables
    assert decoder["training"].held_out_bytes == decoder["bilingual"].training.held_out_bytes == 100_000


@pytest.mark.parametrize(("name", "batch"), [("roberta-medium", 128), ("xlm-r-medium", 256)])
def test_the_recipes_with_sub_embeddings_have_their_paper_s_hyperparameters(shipped, name, batch):
    recipe = shipped[name]
    training, fresh = recipe.tables["training"], recipe.tables["fresh"]
    assert (training.steps, training.batch, training.length, training.learning_rate) == (250_000, batch, 512, 2e-4)
    assert (training.weight_decay, training.epsilon, training.beta1, training.beta2) == (0.01, 1e-6, 0.9, 0.98)
    assert plan_stages(training)[0].warmup_steps == 24_000
    assert (fresh["num_hidden_layers"], fresh["hidden_size"], fresh["intermediate_size"]) == (8, 512, 2048)
    assert recipe.tables["compress"] == Compression(k=3, codes="digits", init="random")
    for training in (candidate.training for entry in recipe.tasks for candidate in entry.candidates):
        assert (training.warmup, training.length, training.weight_decay) == (0.06, 128, 0.01)  # its Table 6
        # The rest is that of pretraining (its Appendix A.1), which does not clip gradients.
        assert (training.beta2, training.epsilon, training.clip) == (0.98, 1e-6, 1e9)


def test_the_recipes_with_sub_embeddings_are_evaluated_as_in_their_paper(shipped):
    glue = {entry.title: entry for entry in shipped["roberta-medium"].tasks}
    assert set(glue) == {"sst-2", "mnli", "qnli", "qqp", "rte", "mrpc", "cola", "sts-b"}
    assert {title for title, entry in glue.items() if entry.start == "mnli"} == {"rte", "sts-b", "mrpc"}
    for entry in glue.values():
        searched = {(candidate.training.learning_rate, candidate.training.batch) for candidate in entry.candidates}
        assert searched == {(rate, batch) for rate in (1e-5, 2e-5, 3e-5) for batch in (16, 32)}
    alone, together = shipped["xlm-r-medium"].tasks
    assert len(alone.test) == len(together.test) == len(together.train) == 15
    assert {(entry.training.learning_rate, entry.training.batch) for entry in (alone, together)} == {(2e-5, 32)}


def test_the_small_recipe_from_scratch_has_the_runs_and_tasks_of_its_paper(shipped):
    small, paper = shipped["sub-minilm-scratch"], shipped["roberta-medium"]
    assert small.tables["compress"] == paper.tables["compress"]
    runs = {run.name: run.changes["compress"] for run in paper.compare.runs if run.changes}
    for run in (run for run in small.compare.runs if run.changes):
        assert run.changes["compress"] | {"codes_from": None} == runs[run.name] | {"codes_from": None}
        assert run.changes["compress"].get("codes_from", small.model) == small.model
    assert {entry.title for entry in small.tasks} < {entry.title for entry in paper.tasks}


def test_the_small_recipe_of_table_4_compresses_and_tests_the_multilingual_encoder(shipped):
    compressed, source = shipped["sub-minilm-multilingual"], shipped["minilm-multilingual"]
    assert compressed.model.endswith(Path(source.output).name)
    assert (compressed.corpus, compressed.held_out) == (source.corpus, source.held_out)
    assert compressed.tasks[0].files == source.tasks[0].files
    plain = compressed.compare.runs[0].changes["compress"]
    assert (plain["k"], plain["clusters"]) == (1, source.tables["transfer"].vocab_size)  # a row for each token


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("[fresh]\n[transfer]", "[fresh] and [transfer] do not go together"),
        ("[transfer]\n[compress]\n[bilingual]", "[bilingual] and [compress]"),
        ("[fresh]\n[bilingual]", "[bilingual] and [fresh]"),
        (
            "[transfer]\n[bilingual]\n[[tasks]]\ntask = 'nli'\ntrain = 'a.tsv'\ntest = 'b.tsv'",
            "[tasks[0]] lacks language",
        ),
        (
            "[transfer]\n[bilingual]\n[[tasks]]\ntask = 'nli'\nlanguage = 'tarket'\ntrain = 'a.tsv'\ntest = 'b.tsv'",
            "tasks[0].language: there is no language 'tarket': did you mean 'target'?",
        ),
        (
            "[training]\n[[tasks]]\ntask = 'nli'\nthrough = 'target'\ntrain = 'a.tsv'\ntest = 'b.tsv'",
            "tasks[0].through is 'target', and the model has one language",
        ),
        ("[trelm]\n[training]", "[trelm] and [training] do not go together"),
        ("[compress]\nkk = 2", "no key 'kk'"),
        ("[compress]\ncodes = 'digit'", "did you mean 'digits'"),
    ],
)
def test_tables_that_contradict_each_other_are_rejected(write, lines, words):
    text = f"output = 'out'\nmodel = 'gpt2'\ncorpus = 'text.txt'\n{lines}\n"
    with pytest.raises(InputError, match=re.escape(words)):
        read_recipe(write(text, "recipe.toml"))


TWO_RUNS = """output = "out"
model = "gpt2"
corpus = "text.txt"
[compress]
k = 3
codes = "digits"
[training]
steps = 20
[compare]
runs = [{name = "plain", changes.compress.k = 1}, {name = "long", changes.training.steps = 40}]
"""


def test_a_run_of_a_comparison_may_change_any_key(write):
    recipe = read_recipe(write(TWO_RUNS, "recipe.toml"))
    plain, long = (changed_tables(recipe, run.changes) for run in recipe.compare.runs)
    assert plain["compress"] == replace(recipe.tables["compress"], k=1)
    assert plain["training"] == long["training"].updated(steps=20) == recipe.tables["training"]
    assert long["training"].steps == 40
    text = TWO_RUNS.replace('k = 3\ncodes = "digits"', "k = 3").replace("k = 1", 'codes_from = "./other"')
    for name in ("other", "moved"):
        (recipe.source.parent / name).mkdir()
    elsewhere = read_recipe(write(recipe_text(read_recipe(write(text, "recipe.toml"))), "moved/recipe.toml"))
    tables = changed_tables(elsewhere, elsewhere.compare.runs[0].changes)
    assert tables["compress"].codes_from == str(recipe.source.parent / "other")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("compress.k = 1", "compres.k = 1", "compare.runs[0].changes: there is no table of this recipe 'compres'"),
        ("compress.k = 1", "compress.kk = 1", "compare.runs[0].changes: recipe.toml: there is no key 'kk'"),
        ("compress.k = 1", "compress.k = 'one'", "k is the text 'one'"),
        ("compress.k = 1", "compress.equal_size = true", "compare.runs[0].changes: counted codes have no clusters"),
    ],
)
def test_changes_of_a_run_are_validated_when_a_recipe_is_read(write, monkeypatch, old, new, words):
    file = write(TWO_RUNS.replace(old, new), "recipe.toml")
    monkeypatch.chdir(file.parent)
    with pytest.raises(InputError, match=re.escape(words)):
        read_recipe("recipe.toml")


def test_a_key_of_another_table_is_rejected_with_the_tables_of_the_command():
    for setting, key in (("training.steps=5", "training.steps"), ("training.steps=", "training")):
        with pytest.raises(
            InputError, match=rf"--set {key} is for the table \[training\].* options of \[transfer\] only"
        ):
            apply_settings("transfer", Transfer("gpt2", Path("out"), "text.txt"), [setting])


def test_every_key_that_is_listed_can_be_set():
    options = {"transfer": Transfer("gpt2", Path("out"), "text.txt"), "training": Training(), "compress": Compression()}
    for table, usual in options.items():
        for key in list_options(table)[table]:
            with pytest.raises(InputError, match=f"--set {key.name} is a date"):  # the value is wrong, the key is not
                apply_settings(table, usual, [f"{key.name}=2020-01-01"])
    atoms = next(key for key in list_options("transfer")["transfer"] if key.name == "atoms")
    assert (atoms.default, atoms.meaning) == (
        "64",
        "omp: k, the number of shared tokens that are mixed into one token.",
    )


def names(recipe: Recipe) -> list[str]:
    return [run.name for run in recipe.compare.runs]


def test_the_recipes_of_the_paper_have_its_runs(shipped):
    assert names(shipped["compare-gpt2"]) == ["wechsel", "wechsel-tfr", "transinner", "fullrand"]
    assert set(names(shipped["freezing-gpt2"])) == {
        "wechsel", "wechsel-frozen", "transinner", "random", "transinner-shuffle", "shuffle",
    }  # fmt: skip
    assert shipped["relearning-gpt2"].tables["training"].plan == "embeddings-only"
    assert shipped["data-size"].compare.subsamples == tuple(size * 2**20 for size in (16, 64, 256, 1024))
    assert shipped["data-size"].tables["transfer"].target_vectors is None
    assert shipped["data-size"].tables["transfer"].vectors.width == 300
    for name in ("data-size", "wechsel-low-resource"):
        training = shipped[name].tables["training"]
        assert names(shipped[name]) == ["wechsel", "transinner", "fullrand"]
        assert (training.evaluate_every, training.patience, training.selects_best) == (2_500, 4, True)


@pytest.mark.parametrize("language", ["german", "swahili", "chinese", "uyghur"])
def test_the_recipes_for_one_gpu_are_alike(shipped, language):
    training, transfer = (shipped[f"smollm2-{language}"].tables[table] for table in ("training", "transfer"))
    assert training == Training(steps=250, batch=64, length=512, evaluate_every=25, held_out_bytes=400_000)
    assert (transfer.vocab_size, transfer.dictionary.name) == (32_000, f"{language}.txt")


@pytest.mark.parametrize("language", ["german", "swahili", "chinese", "uyghur", "invented"])
def test_the_recipes_for_one_gpu_train_every_method_with_both_plans(shipped, language):
    recipe = shipped[f"smollm2-{language}"]
    training, transfer = recipe.tables["training"], recipe.tables["transfer"]
    plans = {run.method: set() for run in recipe.compare.runs}
    for run in recipe.compare.runs:
        plans[run.method].add(run.plan or training.plan)
    of_papers = {method: "embeddings-first" if method == "random" else "direct" for method in plans}
    assert plans == {method: {"relexify", plan} for method, plan in of_papers.items()}
    assert {"blend", "wechsel", "wechsel-tfr", "fvt", "focus", "random", "fullrand"} < set(plans)
    assert ({"ramen", "trans-tokens"} < set(plans)) == (transfer.bitext is not None)
    assert (transfer.bitext is None) == (language in ("uyghur", "invented"))


def test_a_bilingual_step_has_the_defaults_of_ramen_and_is_written_back(write):
    steps = '[[bilingual.training.stages]]\nname = "both"\nsteps = 9\nwarmup_steps = 4\n'
    text = TOP + '[bilingual]\nlanguages = ["en", "sw"]\nsource_corpus = "en.txt"\n[bilingual.training]\nbatch = 8\n'
    step = read_recipe(write(text + steps)).tables["bilingual"]
    assert step is not None
    assert step.languages == ("en", "sw")
    stage = Stage("both", 9, learning_rate=1e-4, warmup_steps=4, schedule="inverse_sqrt", optimiser="lookahead")
    assert step.training == replace(RAMEN, batch=8, steps=9, stages=(stage,))
    for each in (text, text + steps, TOP + "[bilingual]"):
        recipe = read_recipe(write(each))
        assert read_recipe(write(recipe_text(recipe), "again.toml")) == recipe


@pytest.mark.parametrize("language", ["german", "swahili"])
def test_the_recipes_for_the_small_encoder_continue_from_its_head_and_evaluate_tasks(shipped, language):
    recipe, english = shipped[f"minilm-{language}"], shipped["minilm-english"]
    assert recipe.model == str(english.output)
    assert names(recipe) == ["blend", "wechsel", "wechsel-tfr", "transinner", "fullrand"]
    training = recipe.tables["training"]
    assert (training.batch, training.length, training.learning_rate) == (256, 128, 5e-4)
    assert recipe.tables["transfer"].vocab_size == 30_000
    tasks = [task.title for task in recipe.tasks]
    assert tasks == ["nli", "ner", "pos-probe", *(["parse"] if language == "german" else [])]
