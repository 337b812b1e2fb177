"""The wheel and the source distribution contain everything that they should, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "docs", "relexify", "tests")
FILES = (
    "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile", "README.md", "constraints-oldest.txt",
    "constraints.txt", "mkdocs.yml", "pyproject.toml",
)  # fmt: skip


def build(kind: str, source: Path, output: Path) -> Path:
    """Build a distribution as pip does, but with the setuptools of this environment, so that nothing is downloaded."""
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, output], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(output.iterdir())


def files_of(folder: Path, names: tuple[str, ...]) -> set[str]:
    """Return the paths of all files in some folders, without those that Python or the system left there."""
    found = [path for name in names for path in (folder / name).rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix() for path in found if path.suffix != ".pyc" and path.name[0] != "."}


def test_the_sources_can_be_tested_and_built_again_and_the_wheel_has_every_file_of_the_package(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    source = tmp_path / "source"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)

    archive = build("sdist", source, tmp_path / "sdist")
    with tarfile.open(archive) as stream:
        stream.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    assert files_of(unpacked, FOLDERS) == files_of(source, FOLDERS)
    assert {name for name in FILES if not (unpacked / name).exists()} == set()

    with zipfile.ZipFile(build("wheel", unpacked, tmp_path / "wheel")) as stream:
        names = set(stream.namelist())
        information = {name for name in names if ".dist-info/" in name}
        commands = stream.read(next(name for name in information if name.endswith("entry_points.txt"))).decode()
    assert names - information == files_of(source, ("relexify",))
    assert "relexify = relexify.cli:main" in commands
    assert any(name.endswith("licenses/LICENSE") for name in information)
