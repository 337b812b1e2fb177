"""Commands, Python names and links in the documentation exist."""

from __future__ import annotations

import ast
import inspect
import itertools
import operator
import re
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

import relexify
from relexify.cli.app import app
from relexify.evaluation.options import Evaluation
from relexify.evaluation.text import TextScoring
from relexify.methods.registry import METHODS
from relexify.recipes.file.comparison import RUNS
from relexify.recipes.file.named import shipped_recipes
from relexify.recipes.file.settings import apply_settings, list_options
from relexify.training.options import ADAM, LOOKAHEAD, MUON, PAPERS_BETA1, PAPERS_RATE, Training
from relexify.training.plan import PLANS
from relexify.training.rates import AVERAGED_SHARE, OWN_BETA1
from tests.pages import DOCS, PAGES, ROOT, commands, name_of

RECIPES = list(shipped_recipes().values())
COMMANDS: Any = typer.main.get_command(app)
TABLES = {
    "transfer": "transfer",
    "train": "training",
    "bilingual": "training",
    "trelm": "trelm",
    "compress": "compress",
}
"""The recipe table whose keys `--set` takes, by verb."""

each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
each_text = pytest.mark.parametrize("path", [*PAGES, *RECIPES], ids=name_of)


@each_text
def test_commands_have_a_real_verb_and_real_options(path):
    for line in commands(path):
        command, words = COMMANDS, line
        while hasattr(command, "commands"):
            assert words, f"{path.name}: no verb in {' '.join(line)}"
            assert words[0] in command.commands, f"{path.name}: no verb {words[0]}: {' '.join(line)}"
            command, words = command.commands[words[0]], words[1:]
        known = {
            name for option in (*command.params, *COMMANDS.params) for name in (*option.opts, *option.secondary_opts)
        }
        known |= {"-h", "--help"}
        unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
        assert not unknown, f"{path.name}: {unknown} in relexify {' '.join(line)}"


@each_text
def test_recipes_are_named_that_come_with_relexify(path):
    named = {words[1] for words in commands(path) if words[0] in ("run", "compare", "grid") and len(words) > 1}
    # A page may also have a recipe of its own, or stand for any.
    assert {name for name in named if not re.search(r"\.toml$|^[A-Z]+$|^[-.]", name)} <= set(shipped_recipes())


@each_page
def test_options_in_the_text_are_options_of_a_verb(page):
    verbs = [verb for name in COMMANDS.commands.values() for verb in (name, *getattr(name, "commands", {}).values())]
    known = {option for verb in (COMMANDS, *verbs) for entry in verb.params for option in entry.opts} | {"--help"}
    named = re.findall(r"`(-[a-z]|--[a-z][\w-]*)\b[^`]*`", page.read_text())
    assert [option for option in named if option not in known] == []


@each_text
def test_keys_of_set_are_keys_of_a_recipe(path):
    tables = {name: {key.name for key in keys} for name, keys in list_options().items()}
    anywhere = {f"{name}.{key}" for name, keys in tables.items() for key in keys}
    for line in commands(path):
        verb = line[0]
        for flag, setting in itertools.pairwise(line):
            if flag != "--set" or setting == "KEY=VALUE":
                continue
            key = setting.partition("=")[0]
            if verb in TABLES:
                assert _is_known(key, tables[TABLES[verb]]), f"{path.name}: --set {setting}"
            elif verb == "evaluate":
                options = Evaluation(line[line.index("--task") + 1]) if "--task" in line else TextScoring()
                apply_settings("evaluate", options, [setting])
            elif verb == "vectors":
                assert f"transfer.vectors.{key}" in anywhere, f"{path.name}: --set {setting}"
            elif "." in key and not key.startswith("tasks."):
                assert _is_known(key, anywhere), f"{path.name}: --set {setting}"


@each_page
def test_python_examples_use_names_that_exist(page):
    text = page.read_text()
    for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block.replace("…", "..."))):
            if isinstance(node, ast.ImportFrom):
                module = import_module(node.module or "")
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{page.name}: {node.module}.{alias.name}"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    import_module(alias.name)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("rx."):
                function = operator.attrgetter(ast.unparse(node.func).removeprefix("rx."))(relexify)
                arguments = {entry.arg: None for entry in node.keywords}
                inspect.signature(function).bind(*node.args, **arguments)  # a TypeError names the wrong argument
    for dotted in re.findall(r"\brx\.([\w.]*\w)", text):
        found: Any = relexify
        for name in dotted.split("."):
            assert hasattr(found, name), f"{page.name}: rx.{dotted}"
            found = getattr(found, name)


@each_text
def test_modules_and_files_that_are_named_exist(path):
    text = path.read_text()
    for dotted in re.findall(r"`(relexify(?:\.\w+)+)`", text.replace("relexify.json", "")):
        assert _exists(dotted), f"{path.name}: {dotted}"
    for name in re.findall(r"\b((?:relexify|benchmarks|docs|tests)/[\w./-]+\.(?:py|toml|md|svg))", text):
        assert (ROOT / name).exists(), f"{path.name}: {name}"


@each_page
def test_links_lead_to_files_and_headings_that_exist(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {link}"
        if heading:
            assert heading in _headings(target), f"{page.name}: {link}"


def test_the_site_has_every_page_and_no_page_links_to_files_outside_it():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = {name_of(page): page for page in DOCS.rglob("*.md")}
    assert sorted(re.findall(r"\b[\w/-]+\.md\b", nav)) == sorted(pages)
    for name, page in pages.items():
        relative = [link for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()) if "://" not in link]
        assert [link for link in relative if not (page.parent / link).resolve().is_relative_to(DOCS)] == [], name


def test_the_tests_of_the_checklist_exist_and_every_element_has_one():
    page = (ROOT / "docs" / "checklist.md").read_text()
    rows = re.findall(r"^\| (?!Element)(.+?) \| (.+?) \|.*\| (.*?) \|$", page, flags=re.MULTILINE)
    counts = Counter(rating.strip("*") for _, rating, _ in rows)
    assert set(counts) == {"complete", "partial", "not possible here"}
    total = f"Of {len(rows)} elements, {counts['complete']} are complete, {counts['partial']} partial, and "
    assert f"{total}{counts['not possible here']} not possible here." in page
    functions = {}
    for element, _, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        assert named, element
        for file, name in named:
            if file not in functions:
                tree = ast.parse((ROOT / file).read_text())
                functions[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in functions[file], f"{file}::{name}"


def test_every_method_has_a_section_and_every_named_run_is_listed():
    methods = [line.removeprefix("## ") for line in (ROOT / "docs" / "methods.md").read_text().splitlines()]
    assert [name for name in METHODS if name not in methods] == []
    listed = re.findall(r"^\| (`.*?`) \|", (ROOT / "docs" / "recipes.md").read_text(), flags=re.MULTILINE)
    named = [name for cell in listed for name in re.findall(r"`([\w-]+)`", cell)]
    assert [name for name in RUNS if name.removesuffix("-direct") not in METHODS and name not in named] == []


def test_the_page_on_training_lists_every_plan_with_its_optimiser_and_its_rate():
    page = (ROOT / "docs" / "training.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)`( \(default\))? \| (.*?) \| (.*?) \|", page, flags=re.MULTILINE)
    assert [name for name, *_ in rows] == list(PLANS)
    assert [name for name, default, *_ in rows if default] == [Training().plan]
    names = {ADAM: "AdamW", MUON: "Muon", LOOKAHEAD: "Lookahead"}
    for name, default, trained, optimiser in rows:
        plan = PLANS[name]
        assert optimiser.startswith(names[plan.optimiser]), name
        # Plans with one rate for everything state it; that of Muon follows from model and text.
        assert (_number(PAPERS_RATE) in optimiser) == (plan.optimiser != MUON), name
        first, *later = [stage.trains for stage in plan.stages]
        assert first in trained, name
        assert all(f"then {part}" in trained for part in later), name
        if later:
            assert f"first {plan.stages[0].share * 100:g} % of the steps" in trained, name
        (warmup,) = {stage.warmup for stage in plan.stages}
        if default:
            assert f"warm-up {warmup * 100:g} %" in optimiser, name
        else:
            assert f"The papers' plans warm up for {warmup * 100:g} % of the steps" in page, name


def test_the_page_on_training_states_the_defaults():
    page = " ".join((ROOT / "docs" / "training.md").read_text().split())
    training = Training()
    for sentence in (
        f"`relexify` decays {training.schedule}ly to {PLANS[training.plan].final_rate * 100:g} % of the peak",
        f"Adam with β = {PAPERS_BETA1} and {training.beta2}, ε = {_number(training.epsilon)}, weight decay "
        f"{training.weight_decay}, blocks of {training.length} tokens; only the batch is {training.batch} instead of",
        f"β1 of AdamW is {OWN_BETA1} in this plan",
        f"a moving average of the weights over about {AVERAGED_SHARE * 100:g} % of the steps",
    ):
        assert sentence in page, sentence
    assert training.evaluation_interval == training.steps // 20  # "a twentieth of all steps"
    assert [replace(training, steps=steps).evaluation_interval for steps in (100, 20)] == [10, 5]  # "but at least 10"


def _number(value: float) -> str:
    """Write 0.0005 as 5e-4."""
    mantissa, exponent = f"{value:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def _is_known(key: str, keys: set[str]) -> bool:
    table, overrides, _ = key.partition("overrides.")  # which has tokens as keys
    return f"{table}overrides" in keys if overrides else key in keys


def _exists(dotted: str) -> bool:
    for end in range(dotted.count(".") + 1, 0, -1):
        parts = dotted.split(".")
        try:
            found: Any = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_test_that_the_page_on_robustness_names_exists():
    page = (ROOT / "docs" / "robustness.md").read_text()
    rows = re.findall(r"^\|.*\| (.*`test_\w+`.*) \|$", page, re.MULTILINE)
    assert len(rows) > 30
    for row in rows:
        file = ""
        for name in re.findall(r"`([\w/]+\.py|test_\w+)`", row):
            if name.endswith(".py"):
                file = (ROOT / "tests" / name).read_text()
            else:
                assert f"def {name}(" in file, f"{name} does not exist"
