"""The public names, and what importing them loads."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import typer
from packaging.requirements import Requirement
from packaging.version import Version

import relexify


def test_every_public_name_exists_once_and_the_list_is_sorted():
    names = [name for name in relexify.__all__ if name != "__version__"]
    assert len(names) == len(set(names))
    assert names == sorted(names, key=lambda name: (not name[0].isupper(), name))
    for name in names:
        assert getattr(relexify, name) is not None
    assert set(relexify.__all__) < set(dir(relexify))


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(relexify, "no_such_name")


def test_importing_relexify_and_the_evidence_loads_neither_torch_nor_transformers():
    code = (
        "import sys, relexify as rx; rx.Mixture, rx.WordVectors, rx.BilingualLexicon, rx.methods.wechsel, rx.Corpus; "
        "assert not {'torch', 'transformers', 'gensim', 'datasets'} & set(sys.modules); "
        "assert callable(rx.methods.wechsel) and callable(rx.methods.random)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_verb_of_the_command_line_is_a_function():
    from relexify.cli.app import app

    # inspect, geometry, options, methods and recipes print what `Mixture`, `rx.reports` and the registries hold.
    printed = {"inspect", "geometry", "options", "methods", "recipes", "demo"}
    verbs = set(typer.main.get_command(app).commands) - {"vectors"} - printed
    assert verbs <= set(relexify.__all__)
    assert all(callable(getattr(relexify, verb)) for verb in verbs)


def test_every_file_that_is_not_python_is_package_data():
    root = Path(relexify.__file__).parent
    patterns = tomllib.loads((root.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    included = {path for pattern in patterns["relexify"] for path in root.glob(pattern)}
    others = {path for path in root.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert others == included


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds():
    root = Path(relexify.__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    tools = {"dev", "docs"}  # needed by no user
    extras = [each for name, group in project["optional-dependencies"].items() if name not in tools for each in group]
    needed = [Requirement(each) for each in [*project["dependencies"], *extras]]
    bounds = {each.name: Version(*(one.version for one in each.specifier if one.operator == ">=")) for each in needed}
    pins = (line.split("==") for line in (root / "constraints-oldest.txt").read_text().split())
    oldest = {name: Version(version) for name, version in pins}
    # The oldest typer and matplotlib use what the newest versions of these call deprecated.
    assert oldest.keys() - bounds.keys() == {"click", "pyparsing"}
    assert oldest | bounds == oldest


def test_make_installs_every_extra_that_tests_need():
    """Tests of an extra that is not installed are skipped."""
    root = Path(relexify.__file__).parents[1]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (installed,) = re.findall(r"'\.\[(dev,.*)\]'", (root / "Makefile").read_text())
    assert set(installed.split(",")) == set(extras) - {"docs"}
