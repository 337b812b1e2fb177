"""Conventions of the command line: json, dry runs, plain tables in pipes, narrow terminals, spelling of options."""

from __future__ import annotations

import ast
import inspect
import io
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console

from relexify import device
from relexify.cli import console
from relexify.cli.app import app
from relexify.cli.option_names import OptionNames
from relexify.reports import next_steps, transfer_command
from relexify.systems.transfer import cost
from relexify.systems.transfer.assessment import dictionary_verdict, summary, verdict_texts
from relexify.systems.transfer.options import Transfer
from relexify.training.options import Training
from tests import pico
from tests.cli.command import assert_error, relexify

COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_has_a_result_in_json(name):
    for verb in getattr(COMMANDS[name], "commands", {name: COMMANDS[name]}).values():
        source = ast.parse(inspect.getsource(inspect.unwrap(verb.callback)))
        assert "emit" in {node.func.id for node in ast.walk(source) if _is_name_call(node)}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_an_option_names_only_options_of_the_same_verb(name):
    for verb in getattr(COMMANDS[name], "commands", {name: COMMANDS[name]}).values():
        known = {option for parameter in verb.params for option in parameter.opts}
        for parameter in verb.params:
            text = re.sub(r"(relexify )?transfer --method", "", getattr(parameter, "help", None) or "")
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known, parameter.name


def options_of(verb: str) -> set[str]:
    return {option for parameter in COMMANDS[verb].params for option in parameter.opts}


def test_a_verdict_on_a_transfer_names_only_options_of_a_transfer():
    texts = "".join(map(inspect.getsource, (verdict_texts, dictionary_verdict, summary)))
    named = set(re.findall(r"--[a-z][a-z-]+", texts))
    assert {"--dictionary", "--corpus"} <= named <= options_of("transfer")


def test_commands_to_repeat_a_transfer_or_a_training_use_every_option_of_the_verb():
    for verb, options, used, elsewhere in (
        ("transfer", Transfer, transfer_command._OPTIONS, {"model", "output", "method", "keep_source"}),
        ("train", Training, next_steps._OPTIONS, {"source_corpus", "source_held_out", "report_to"}),
    ):
        names = {parameter.name for parameter in COMMANDS[verb].params} & {entry.name for entry in fields(options)}
        assert set(used) == names - elsewhere - {"device", "overwrite"}, verb


def _is_name_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def test_json_is_one_object_on_stdout_and_may_stand_anywhere(transferred):
    folder, _ = transferred
    for arguments in (("inspect", folder, "ra", "--json"), ("--json", "inspect", folder, "ra")):
        outcome = relexify(*arguments)
        (line,) = outcome.out.splitlines()
        token, *_ = json.loads(line)["tokens"]
        assert {"token", "id", "origin", "sources"} == set(token)
    methods = json.loads(relexify("methods", "--json").out)["methods"]
    assert "blend" in methods
    assert "no_such" not in relexify("options", "training").out


def test_json_has_neither_nan_nor_paths_nor_arrays(monkeypatch, capsys):
    import numpy as np

    console.results_as_json(True)
    console.emit(score=float("nan"), rows=np.arange(3), count=np.int64(4), pair=(1, None))
    console.results_as_json(False)
    assert json.loads(capsys.readouterr().out) == {"score": None, "rows": [0, 1, 2], "count": 4, "pair": [1, None]}


def test_tables_in_a_pipe_have_no_boxes_and_no_line_breaks():
    shown = relexify("methods").out
    assert not set("│┃─━┏╇") & set(shown)
    assert shown.startswith("--method"), "this table has no title"
    rows = [line for line in shown.splitlines() if line.startswith("blend")]
    assert len(rows) == 1
    assert "translations" in rows[0]


def test_a_title_that_is_longer_than_its_table_stays_on_one_line_in_a_pipe(capsys):
    shown = console.table("A title of many words", "a", "b")
    shown.add_row("1", "2")
    console.print_table(shown)
    assert capsys.readouterr().out.splitlines() == ["A title of many words", "a  b", "1  2"]


@pytest.mark.parametrize("width", [20, 30, 50, 120])
def test_narrow_terminals_do_not_cut_words(width, monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr(console, "results", terminal)
    shown = console.table("Methods", "method", "a token becomes", "evidence")
    cells = ("blend", "half its source pieces, half its translations", "a dictionary, or neighbours in the language")
    shown.add_row(*cells)
    console.print_table(shown)
    words = {word.strip("│┃ ") for word in terminal.file.getvalue().split()}  # type: ignore[attr-defined]
    assert {word for cell in cells for word in cell.split()} <= words


def test_a_warning_is_shown_once_and_so_is_that_something_is_cached(capsys):
    logger = logging.getLogger("relexify")
    before = logger.handlers, logger.level, logger.propagate
    console.log_to_console(logging.INFO)
    try:
        for number in (1, 2):
            logger.warning("there is no dictionary")
            logger.info("using the cached tokenizer", extra={"once": True})
            logger.info("building a method")
            logger.warning("step %d diverged", number)
    finally:
        logger.handlers, logger.level, logger.propagate = before
    shown = [line.removeprefix("· ") for line in capsys.readouterr().err.splitlines()]
    first = ["warning: there is no dictionary", "using the cached tokenizer", "building a method"]
    assert shown == [*first, "warning: step 1 diverged", "building a method", "warning: step 2 diverged"]


def test_inspect_shows_known_words_and_says_how_the_others_are_split(transferred):
    folder, _ = transferred
    outcome = relexify("inspect", folder, "ra", "xyzzy")
    assert outcome.status == 0, outcome.err
    assert "weight" in outcome.out
    assert "'xyzzy' is not a token; it is split into" in outcome.err
    assert json.loads(relexify("inspect", folder, "ra", "xyzzy", "--json").out)["unknown"]["xyzzy"]
    # Bytes are written as they are everywhere, not as the character of what cannot be decoded.
    assert r"'\xf0', '\x9f'" in relexify("inspect", folder, "ra", "😀").err


def test_a_sample_shows_several_sources_of_each_token(transferred):
    folder, _ = transferred
    tokens = json.loads(relexify("inspect", folder, "--sample", 4, "--json").out)["tokens"]
    assert len(tokens) == 4
    assert max(len(token["sources"]) for token in tokens) == 5


def test_a_dry_run_of_a_transfer_validates_and_writes_nothing(world, tmp_path):
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *world.text, "--dry-run")
    assert outcome.status == 0, outcome.err
    assert "blend: a token becomes its source pieces, and its neighbours in aligned vectors" in outcome.out
    translated = relexify(
        "transfer", world.gpt2, tmp_path / "out", *world.text, "--dictionary", world.dictionary, "--dry-run"
    )
    assert "blend: a token becomes its translations" in translated.out
    assert "aligned vectors" not in translated.out
    (found,) = re.findall(
        rf"dictionary {world.dictionary.name} \(\d+ entries; (\d+) of their words are", translated.out
    )
    assert int(found) > 0
    assert " → " in translated.out
    assert "whether these translations are right, or shuffled: only the transfer finds out" in translated.out
    assert "not tested" not in outcome.out
    assert "of the dictionary make up only" not in translated.err
    swapped = ("--dictionary", world.dictionary, "--set", "dictionary_swapped=true", "--dry-run")
    assert_error(relexify("transfer", world.gpt2, tmp_path / "out", *world.text, *swapped), "look swapped")
    vectors = ("--source-vectors", world.source_vectors, "--target-vectors", world.target_vectors)
    aligned = ("transfer", world.gpt2, tmp_path / "out", *world.text, *swapped[:-1], "--method", "wechsel", *vectors)
    assert_error(relexify(*aligned), "look swapped", "--set dictionary_swapped=true")
    assert list(tmp_path.iterdir()) == []
    wrong = relexify("transfer", world.gpt2, tmp_path / "out", "--corpus", tmp_path / "nope.txt", "--dry-run")
    assert wrong.status == 2


def test_a_dry_run_of_a_transfer_says_how_long_it_takes_and_what_would_be_shorter(world, tmp_path, monkeypatch):
    monkeypatch.setattr(cost, "FEW_OPERATIONS", 0)
    monkeypatch.setattr(cost, "matrix_peak", lambda dtype, device: 1e6)
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *world.text, "--dry-run", "--json")
    time = json.loads(outcome.out)["plan"]["time"]
    assert re.fullmatch(
        r"about .* min.* on this machine \(token frequencies for the result and for baselines .* min.*\); "
        r"without scores \(--set score=false\) .* min.*",
        time,
    )


def test_a_dry_run_warns_of_text_in_the_language_of_the_model(world, tmp_path):
    warning = "a transfer is probably not needed. The model seems to know the language of this text already: its own"
    own = tmp_path / "own.txt"
    tokens = json.loads((world.gpt2 / "tokenizer.json").read_text())["model"]["vocab"]
    words = sorted(token[1:] for token in tokens if token[0] == "Ġ" and token[1:].isalpha())
    draw = random.Random(0)
    own.write_text("".join(" ".join(draw.choices(words, k=20)) + "\n" for _ in range(300)))
    for text, is_known in ((own, True), (world.corpus, False)):
        outcome = relexify("transfer", world.gpt2, tmp_path / "out", "--corpus", text, "--vocab-size", 300, "--dry-run")
        assert (warning in outcome.err) == is_known, outcome.err


def test_a_dry_run_warns_of_a_dictionary_for_another_language_and_counts_parallel_text(world, tmp_path):
    foreign = tmp_path / "foreign.tsv"
    foreign.write_text("".join(f"{word}\t{word[::-1]}x\n" for word in pico.foreign_words()[:200]))
    given = ("--dictionary", foreign, "--bitext", world.bitext)
    command = ("transfer", world.gpt2, tmp_path / "out", *world.text, *given, "--dry-run", "--json")
    outcome = relexify(*command)
    assert "the words of the dictionary make up only 0.0 % of the first" in outcome.err
    evidence = json.loads(outcome.out)["plan"]["evidence"]
    pairs = sum("\t" in line for line in world.bitext.read_text().splitlines())
    assert f"bitext {world.bitext} ({pairs:,} pairs)" in evidence
    assert "and make up 0.0% of it" in evidence


def test_a_dry_run_of_a_transfer_names_the_text_and_what_is_only_kept_of_another(world, tmp_path):
    command = ("transfer", world.gpt2, tmp_path / "out", *world.text, "--dry-run", "--json")
    size = f"{world.corpus.stat().st_size / 1000:.0f} kB"
    plan = json.loads(relexify(*command).out)["plan"]
    assert plan["text"] == f"{world.corpus} ({size}), one line in 100 is held out"
    assert plan["evidence"] == "the text alone"
    extended = (*command, "--keep-source", "--source-corpus", world.source_corpus, "--held-out", world.bitext)
    alone = json.loads(relexify(*extended).out)["plan"]
    assert alone["text"] == f"{world.corpus} ({size}); {world.bitext} is held out"
    assert alone["kept"].startswith(f"the encoding of {world.source_corpus} (")
    assert alone["evidence"] == "source corpus", "vectors are trained on it if there are no translations"
    translated = json.loads(relexify(*extended, "--dictionary", world.dictionary).out)["plan"]
    assert translated["kept"] == alone["kept"]
    assert "source corpus" not in translated["evidence"]


def test_a_dry_run_of_a_comparison_names_the_text_and_the_steps(world, tmp_path):
    recipe = tmp_path / "recipe.toml"
    top = f'output = "out"\nmodel = "{world.gpt2}"\ncorpus = "{world.corpus}"\n'
    steps = "[transfer]\nvocab_size = 330\n[training]\nsteps = 1500\nlength = 16\n[compare]\nruns = ['fvt', 'random']\n"
    recipe.write_text(top + steps)
    plan = json.loads(relexify("compare", recipe, "--dry-run", "--json").out)["plan"]
    assert plan["text"].startswith(f"{world.corpus} (")
    assert [plan[f"{run}, seed 0"] for run in ("fvt", "random")] == ["to be trained for 1,500 steps"] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


def test_a_dry_run_of_a_training_validates_and_writes_nothing(world, transferred, tmp_path):
    folder, _ = transferred
    options = ("--corpus", world.corpus, "--steps", 40, "--length", 16)
    command = ("train", folder, tmp_path / "out", *options, "--dry-run")
    plan = json.loads(relexify(*command, "--json").out)["plan"]
    assert plan["stage everything"] == "40 steps, trains everything"
    assert list(tmp_path.iterdir()) == []
    assert relexify("train", folder, folder, "--corpus", world.corpus, "--dry-run").status == 2
    assert "--length 100000 is more than" in relexify(*command, "--length", 100_000).err


def test_an_output_may_lie_in_the_folder_of_a_model(world, tmp_path):
    model = shutil.copytree(world.gpt2, tmp_path / "gpt2")
    for command in (("transfer", model, model / "out"), ("train", model, model / "out", "--length", 16)):
        outcome = relexify(*command, "--corpus", world.corpus, "--dry-run")
        assert outcome.status == 0, outcome.err


def test_messages_spell_options_as_the_command_does():
    names = OptionNames(frozenset(["held_out", "overwrite"]), table="transfer")
    message = "give text (`held_out`), or do not score (`score=false`), or set `neighbours`; see `Corpus.open`"
    assert names.spell(message) == (
        "give text (--held-out), or do not score (--set score=false), or set --set neighbours=…; see `Corpus.open`"
    )


@pytest.mark.parametrize(
    ("message", "spelled"),
    [
        ("`my.file` lacks a column", "`my.file` lacks a column"),
        ("`elephants` has no row, `it`s either`", "`elephants` has no row, `it`s either`"),
        ("a lone ` before `held_out`", "a lone ` before --held-out"),
        ("`iconv -f utf-16 -t utf-8`, `score", "`iconv -f utf-16 -t utf-8`, `score"),
        ("`KEY=` leaves out `training.steps=5`", "--set KEY= leaves out --set training.steps=5"),
    ],
)
def test_only_names_of_options_are_spelled_in_another_way(message, spelled):
    assert OptionNames(frozenset(["held_out"]), table="").spell(message) == spelled


@pytest.mark.parametrize(
    ("table", "spelled"),
    [
        (None, "`length=8` or `warmup` or `training.length`"),
        ("", "`length=8` or `warmup` or --set training.length=…"),
        ("training", "--set length=8 or --set warmup=… or --set training.length=…"),
        ("bilingual.training", "--set length=8 or --set warmup=… or `training.length`"),
        ("transfer", "`length=8` or `warmup` or `training.length`"),
        ("tasks", "--set length=8 or --set warmup=… or `training.length`"),
        ("evaluate", "--set length=8 or `warmup` or `training.length`"),
    ],
)
def test_only_keys_that_set_takes_in_a_command_are_spelled_with_it(table, spelled):
    assert OptionNames(table=table).spell("`length=8` or `warmup` or `training.length`") == spelled


def test_a_run_does_not_advise_a_setting_that_it_rejects(world, tmp_path):
    recipe = tmp_path / "recipe.toml"
    top = f'output = "{tmp_path / "out"}"\nmodel = "{world.gpt2}"\ncorpus = "{world.corpus}"\n'
    recipe.write_text(top + "[training]\nlength = 100_000\n")
    assert_error(relexify("run", recipe), "`length=100000` is more than the 64 tokens")
    trained = relexify("train", world.bert, tmp_path / "out", "--corpus", world.corpus, "--length", 100_000)
    assert_error(trained, "--length 100000 is more than")


MODEL = "smollm2-135m"
"""A packaged model, whose name is known without a network; a folder of that name does not hide it."""
TWO_TEXTS = ("--corpus", "here.txt", "--source-corpus", "there.txt")
TASK = ("--task", "pos", "--train", "here.txt", "--test", "there.txt")


INVALID = [
    (("transfer", MODEL, "out", "--corpus", "nope.txt"), "nope.txt does not exist"),
    (("transfer", MODEL, "out", "--corpus", "here.txt", "--method", "magic"), "magic"),
    (("transfer", MODEL, "out", "--corpus", "here.txt", "--dictionary", "nope.tsv"), "nope.tsv does not exist"),
    (("transfer", MODEL, "out", "--corpus=here.txt", "--tokenizer=broken"), "tokenizer.json is damaged: it is not a"),
    (("transfer", "gpt2", "out", "--corpus=here.txt", "--vocab-size=50"), "a vocabulary of 50 tokens is too small"),
    (("advise", "gpt2", "--corpus=here.txt", "--vocab-size=50"), "a vocabulary of 50 tokens is too small"),
    (
        ("run", "smollm2-invented", "--set=corpus=here.txt", "--set=model=gpt2", "--set=transfer.vocab_size=50"),
        "a vocabulary of 50 tokens is too small",
    ),
    (
        ("train", MODEL, "out", "--corpus=here.txt", "--held-out=copy.txt"),
        "here.txt has no text but that of copy.txt: give other text to train on or to hold out",
    ),
    (
        ("run", "smollm2-invented", "--set=corpus=here.txt", "--set=held_out=copy.txt"),
        "copy.txt: give other text to train on or to hold out",
    ),
    (("train", MODEL, "out", "--corpus=here.txt", "--steps=-3"), "--steps -3 is not possible: give 1 or more"),
    (("train", MODEL, "out", "--corpus", "nope.txt"), "nope.txt does not exist"),
    (("train", MODEL, "out", "--corpus", "here.txt", "--steps", "0"), "--steps 0"),
    (("evaluate", MODEL, "--held-out", "nope.txt"), "nope.txt does not exist"),
    (
        ("transfer", ".", "out", "--corpus", "here.txt"),
        "the folder . holds no model, since it has no",
    ),
    (
        ("transfer", MODEL, "out", "--corpus", "here.txt", "--held-out", "here.txt"),
        "both the corpus and the held-out",
    ),
    (
        ("train", MODEL, "out", "--corpus", "here.txt", "--held-out", "./here.txt", "--dry-run"),
        "both the corpus and the held-out",
    ),
    (
        ("train", MODEL, "out", "--corpus=here.txt", "--source-corpus=there.txt", "--source-held-out=there.txt"),
        "there.txt is both the corpus and the held-out",
    ),
    (("transfer", MODEL, "out", "--corpus", "."), "files in out would be read as text of ."),
    (("transfer", "nobody/nothing", "out", "--corpus", "here.txt"), "there is no model 'nobody/nothing' on this"),
    (("transfer", MODEL, "out", "--corpus=here.txt", "--donor=nobody/nothing"), "no model 'nobody/nothing'"),
    (("transfer", MODEL, "out", "--corpus=here.txt", "--tokenizer=nobody/none"), "no tokenizer 'nobody/none'"),
    (("transfer", MODEL, "out", "--corpus=here.txt", "--tokenizer=trained"), "trained holds no tokenizer"),
    (("transfer", MODEL, "out", "--corpus", "here.txt", "--device", "toaster"), "device toaster is not a device"),
    (("evaluate", MODEL, "--held-out", "here.txt", "--device", "meta"), "device meta is not a device"),
    (("evaluate", MODEL, "--task", "pos", "--train", "nope.txt", "--test", "here.txt"), "nope.txt does not exist"),
    (("advise", MODEL, "--corpus", "nope.txt"), "nope.txt does not exist"),
    (("advise", MODEL, "--corpus", "here.txt", "--donor", "nobody/none"), "no model 'nobody/none'"),
    (("estimate", MODEL, "--gpus", "0"), "--gpus 0 is not possible"),
    (("demo", "--model", "smolm2-135m"), "did you mean 'smollm2-135m'?"),
    (("demo", "--steps", "0"), "--steps 0"),
    (("demo", "--output", "full"), "full was not written by relexify"),
    (
        ("bilingual", MODEL, MODEL, "out", "--corpus=nope.txt", "--source-corpus=here.txt"),
        "nope.txt does not exist",
    ),
    (("bilingual", MODEL, MODEL, "full", *TWO_TEXTS), "full was not written by relexify"),
    (("prune", MODEL, "out", "--corpus", "nope.txt"), "nope.txt does not exist"),
    (("compress", MODEL, "full"), "full was not written by relexify"),
    (("grid", "smollm2-invented", "--neighbours", "ten"), "'ten' is not a list of whole numbers"),
    (
        ("run", "smollm2-invented", "--set", "corpus=here.txt", "--set", "transfer.donor=nobody/none"),
        "no model 'nob",
    ),
    (
        ("train", MODEL, "out", "--corpus", "here.txt", "--learning-rate", "50"),
        "--learning-rate 50.0 is not possible",
    ),
    (("train", MODEL, "out", "--corpus=here.txt", "--learning-rate=50", "--dry-run"), "above 0, and at most 1"),
    (
        ("train", MODEL, "out", "--corpus=here.txt", "--set", "embedding_learning_rate=2"),
        "--set embedding_learning_rate=2",
    ),
    (("bilingual", MODEL, MODEL, "out", *TWO_TEXTS, "--learning-rate", "0"), "--learning-rate 0.0"),
    (("trelm", MODEL, "out", *TWO_TEXTS, "--until=commonality", "--set", "commonality.batch=0"), "`batch=0`"),
    (("evaluate", MODEL, *TASK, "--set", "learning_rates=[1e-5, 5]"), "--set learning_rate=5.0"),
    (("evaluate", MODEL, *TASK, "--seeds", "0"), "--seeds 0 is not possible: give a number from 1 to"),
    (("evaluate", MODEL, *TASK, "--seeds", "20000"), "--seeds 20000 is not possible"),
    (
        ("train", MODEL, "out", "--corpus", "here.txt", "--steps", "many"),
        "--steps many is not possible: give a whole n",
    ),
    (
        ("train", MODEL, "out", "--corpus=here.txt", "--learning-rate=fast"),
        "--learning-rate fast is not possible: give a",
    ),
    (("compress", MODEL, "out", "--codes", "best"), "'best' is not one of 'clustered', 'digits', 'random'"),
    (
        ("train", MODEL, "out", "--corpus", "here.txt", "--set", "tau=3"),
        "no key 'tau' in [training]: relexify options lists all",
    ),
    (("advise", MODEL, "--corpus", "here.txt", "--length", "2"), "--length 2 is too short"),
    (("compress", MODEL, "out", "--k", "0"), "--k 0 is not possible"),
    (("geometry", MODEL, "--states", "states.svg"), "give the text with --text"),
    (("geometry", MODEL, MODEL), "a model or file is given twice"),
    (("vectors", "train", "here.txt", "-o", "out", "--set", "learning_rate=-1"), "--set learning_rate=-1"),
    (("train", MODEL, "trained", "--corpus", "nope.txt"), "trained exists already"),
    (("check", "her.txt"), "did you mean 'here.txt'?"),
    (("check", MODEL), f"{MODEL} was not written by relexify"),
    (("check", "smollm2-135m"), "smollm2-135m was not written by relexify: give the output folder of transfer"),
    (("inspect", "here.txt"), "here.txt is neither a model nor a mixture file: give a folder"),
    (("transfer", MODEL, "-o", "out"), "needs --corpus (text in the target language)"),
    (("transfer", MODEL, "out"), "needs --corpus (text in the target language)"),
    (("report", MODEL), f"{MODEL} was not written by relexify"),
    (("inspect", "nope", "shule"), "nope does not exist: check the name"),
    (("run", "bilingual.toml"), "no key 'languagse' in [bilingual]"),
    (("run", "wechsel-gtp2"), "did you mean 'wechsel-gpt2'?"),
    (
        ("compare", "smollm2-uyghur"),
        "RELEXIFY_DATA is not set, but corpus is $RELEXIFY_DATA/text/ug.txt.xz, transfer.dictionary is",
    ),
    (("run", "smollm2-invented", "--set", "corpus=nope.txt"), "nope.txt does not exist"),
    (("run", "smollm2-invented", "--set", "model=smolm2-135m"), "did you mean 'smollm2-135m'?"),
    (("compare", "one-run.toml"), "one-run.toml cannot be compared: it needs"),
    (("trelm", MODEL, "trained", *TWO_TEXTS, "--until=commonality"), "trained exists already"),
    (("trelm", MODEL, "full", *TWO_TEXTS, "--until=commonality"), "full was not written by relexify"),
    (("export", "trained", "sw", "out"), "trained holds no bilingual model"),
    (("export", MODEL, "sw", "out"), f"{MODEL} holds no bilingual model"),
    (("compress", MODEL, "out", "--set", "codes_from=nobody/none"), "no model 'nobody/none'"),
    *(
        [
            (("transfer", MODEL, "out", "--corpus=here.txt", "--device=cuda"), "--device cuda is not available, since"),
            (("evaluate", MODEL, "--held-out=here.txt", "--device=cuda:1"), "--device cuda:1 is not available, since"),
        ]
        if device.reason_without_cuda()
        else []
    ),
]
"""Commands that are rejected, and a part of the reason."""

IN_FORKS = """
import importlib, json, os, pkgutil, sys
import huggingface_hub, relexify.cli.verbs, relexify.evaluation.tasks, relexify.recipes.file.recipe
from relexify.cli.app import main

for verb in pkgutil.walk_packages(relexify.cli.verbs.__path__, "relexify.cli.verbs."):
    importlib.import_module(verb.name)
for number, arguments in enumerate(json.load(sys.stdin)):
    if os.fork():
        os.wait()
        continue
    sys.argv = ["relexify", *arguments]
    sys.stderr = open(f"{number}.err", "w")
    try:
        main()
    except SystemExit as leaving:
        slow = sorted({"torch", "transformers", "scipy.sparse"} & set(sys.modules))
        print(leaving.code, slow, file=open(f"{number}.out", "w"))
    sys.stderr.flush()
    os._exit(0)
"""
"""Run commands, each in a fork of a process that has imported the verbs, and write errors, status and slow imports."""


@pytest.fixture(scope="module")
def rejections(tmp_path_factory) -> dict[tuple[str, ...], tuple[str, str]]:
    """What every command of `INVALID` prints to stderr, and its status with the slow modules that it imported."""
    folder = tmp_path_factory.mktemp("rejections")
    (folder / "smollm2-135m").mkdir()
    (folder / "broken").mkdir()
    (folder / "broken" / "tokenizer.json").write_text("{")
    for part in pico.pair("gpt2"):
        part.save_pretrained(folder / "gpt2")
    for name in ("here.txt", "there.txt", "copy.txt"):
        (folder / name).write_text("one line\n" * 200)
    for name in ("trained", "full"):
        (folder / name).mkdir()
    (folder / "full" / "thesis.txt").touch()
    notes = {"training": {"steps": 7}, "finished": {"training": "another"}, "files": ["relexify.json"]}
    (folder / "trained" / "relexify.json").write_text(json.dumps(notes))
    tables = "[transfer]\n[training]\n[bilingual]\nlanguagse = ['en', 'sw']\n"
    (folder / "bilingual.toml").write_text(f"output = 'out'\nmodel = 'gpt2'\ncorpus = 'here.txt'\n{tables}")
    recipe = "[transfer]\nmethod = 'fvt'\n[training]\nsteps = 2\n"
    (folder / "one-run.toml").write_text(f"output = 'out'\nmodel = '{MODEL}'\ncorpus = 'here.txt'\n{recipe}")
    subprocess.run(
        [sys.executable, "-c", IN_FORKS],
        input=json.dumps([arguments for arguments, _ in INVALID]),
        text=True,
        cwd=folder,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "160"},
    )
    return {
        arguments: ((folder / f"{number}.err").read_text(), (folder / f"{number}.out").read_text())
        for number, (arguments, _) in enumerate(INVALID)
    }


@pytest.mark.parametrize(("arguments", "reason"), INVALID)
def test_invalid_input_is_rejected_without_slow_imports(arguments, reason, rejections):
    message, result = rejections[arguments]
    assert reason in message
    assert result == "2 []\n"


@pytest.mark.parametrize(
    ("build", "has_driver", "reason"),
    [
        ("cuda = None\nhip = None", True, "torch 9 was built without it"),
        ("cuda = '13.0'\nhip = None", False, "no NVIDIA driver is installed"),
        ("cuda = '13.0'\nhip = None", True, ""),
        ("cuda = None\nhip = '7.0'", False, ""),
    ],
)
def test_cuda_is_rejected_without_torch_only_where_torch_cannot_have_it(
    build, has_driver, reason, tmp_path, monkeypatch
):
    def load(name: str) -> None:
        if not has_driver:
            raise OSError(name)

    (tmp_path / "version.py").write_text(f"__version__ = '9'\n{build}\n")
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(device.ctypes, "CDLL", load)
    assert device.reason_without_cuda() == reason


def test_inspect_does_not_wait_for_torch(transferred):
    code = (
        "import sys; from relexify.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "inspect", str(transferred[0])]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.endswith("\n[]\n")


def test_help_lists_every_verb_and_imports_neither_numpy_nor_markdown_nor_any_verb():
    code = (
        "import sys; from relexify.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'numpy', 'scipy', 'pydantic', 'markdown_it'} & set(sys.modules)))\n"
        "print([name for name in sys.modules if name.startswith('relexify.cli.verbs.')])"
    )
    for option in ("--help", "-h"):
        ended = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, check=True)
        *shown, heavy, verbs = ended.stdout.splitlines()
        assert (heavy, verbs) == ("[]", "[]")
        assert any(line.startswith("│ -q, --quiet ") for line in shown)
        assert set(COMMANDS) <= {line.split()[1] for line in shown if line.startswith("│ ") and line[2] != " "}


def test_an_unknown_option_imports_no_other_verb():
    code = (
        "import sys; from relexify.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted(name for name in sys.modules if name.startswith('relexify.cli.verbs.')))"
    )
    command = [sys.executable, "-c", code, "check", "gpt2", "--no-such-option"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert loaded == "['relexify.cli.verbs.transfer', 'relexify.cli.verbs.transfer.check']\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("transfer", "smollm2-135m", "-o", "x y"),
            "transfer takes the output as an argument, without -o, and needs --corpus (text in the target language): "
            "write -c transfer smollm2-135m 'x y' --corpus FILE [--dictionary FILE]",
        ),
        (
            ("transfer", "--output", "x", "smollm2-135m", "--corpus", "a.txt"),
            "without --output: write -c transfer smollm2-135m --corpus a.txt x",
        ),
        (
            ("transfer", "smollm2-135m", "--output=x", "--corpus", "a.txt"),
            "without --output: write -c transfer smollm2-135m --corpus a.txt x",
        ),
        (
            ("transfer", "smollm2-135m", "x", "--dictionary", "d.tsv"),
            "transfer needs --corpus (text in the target language): write -c transfer smollm2-135m x --dictionary "
            "d.tsv --corpus FILE",
        ),
        (("train", "smollm2-135m", "x"), "train needs --corpus (text in the target language): write"),
    ],
)
def test_a_command_without_text_is_rejected_with_what_it_lacks_before_anything_slow_is_imported(arguments, message):
    code = (
        "import sys; from relexify.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'numpy', 'pydantic', 'torch', 'rich.progress', 'relexify.text'} & "
        "set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert message in ended.stderr
    assert ended.stderr.count("error:") == 1
    found = ended.stdout.splitlines()[-1]
    if arguments[0] == "transfer":
        assert found == "[]"
    assert "torch" not in found


def test_help_of_a_verb_imports_neither_numpy_nor_pydantic_nor_parsers():
    code = (
        "import sys; from relexify.cli.app import main\n"
        "slow = {'numpy', 'pydantic', 'torch', 'markdown_it', 'pygments', 'rich.progress'}\n"
        "try: main()\n"
        "except SystemExit: print(sorted(slow & set(sys.modules)))"
    )
    for arguments in (("run", "--help"), ("train", "--help"), ("--json", "transfer", "-h")):
        command = [sys.executable, "-c", code, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "Example:" in ended.stdout
        assert ended.stdout.splitlines()[-1] == "[]"


def test_help_of_a_verb_names_arguments_as_its_text_does_and_types_in_words():
    relexify("--json", "methods")  # help is printed all the same in a later command
    for verb, expected in (
        ("transfer", ["relexify transfer [OPTIONS] MODEL OUTPUT", "│ MODEL ", "--corpus TEXT", "--vocab-size NUMBER"]),
        ("inspect", ["relexify inspect [OPTIONS] MODEL [TOKENS]...", "│ TOKENS ", "--sources NUMBER", "--since PATH"]),
    ):
        shown = relexify(verb, "--help").out
        for text in expected:
            assert text in shown
        assert "[required]" in shown
        assert "<str>" not in shown
        assert "\\[" not in shown
