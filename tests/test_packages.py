"""The docstring of a package says which of its files answers which question."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "relexify"
ONE_FILE_PER_ENTRY = ("methods", "evaluation/tasks", "cli/verbs")
"""Packages whose files are entries of a registry, or verbs of the command line; their names say what they are."""
PACKAGES = [
    path.parent
    for path in sorted(ROOT.rglob("*/__init__.py"))
    if not path.parent.relative_to(ROOT).as_posix().startswith(ONE_FILE_PER_ENTRY)
]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(ROOT).as_posix())
def test_the_docstring_of_a_package_names_every_file_in_it(package):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    files = {path.stem for path in package.glob("*.py") if path.stem != "__init__"}
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    missing = [name for name in files if not re.search(rf"\b{name}\.py\b|`(\w+\.)?{name}`", docstring)]
    missing += [name for name in folders if not re.search(rf"\b{name}/|`{name}[`.]", docstring)]
    assert not missing, f"the docstring of {package.name} does not say what these are for: {missing}"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(ROOT).as_posix())
def test_the_docstring_of_a_package_names_no_file_that_is_gone(package):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = re.findall(r"^\s*((?:\w+\.py(?:, )?)+)", docstring, re.MULTILINE)
    gone = [name for line in named for name in line.split(", ") if name and not (package / name).exists()]
    assert not gone, f"the docstring of {package.name} names files that it does not have: {gone}"


def test_messages_of_the_log_start_in_lower_case_because_a_level_precedes_them():
    found = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name("logger")), args=[ast.Constant(str() as text), *_]):
                    found += [f"{path}:{node.lineno}"] if text[:1].isupper() else []
    assert not found


def test_every_file_and_function_on_the_way_of_a_command_exists():
    guide = (ROOT.parent / "CONTRIBUTING.md").read_text()
    way = guide[guide.index("## Follow a command") : guide.index("## How an interrupted run")]
    files = re.findall(r"`([\w/]+\.py)`", way)
    assert len(files) > 20
    assert not [name for name in files if not (ROOT / name).is_file()]
    code = "".join((ROOT / name).read_text() for name in files)
    functions = re.findall(r"`([a-z]+_[a-z_]+)`", way)
    assert not [name for name in functions if f"def {name}(" not in code]
