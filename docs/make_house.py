"""Write docs/house.md: every room and every file in a line, taken from what the files say of themselves.

make house
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "relexify"
PAGE = ROOT / "docs" / "house.md"


def page() -> str:
    """The page as it should be."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The house, file by file"
    yield ""
    yield "From the roof to the ground: a room may import the rooms below it, never one above it."
    for name in _layers():
        room = PACKAGE / name
        if not room.is_dir():
            continue
        yield from ("", f"## `{name}/`", "", _about(room / "__init__.py"), "", "| File | What |", "|---|---|")
        yield from (_row(path) for path in sorted(room.glob("*.py")) if path.name != "__init__.py")
    yield from ("", "## Single files", "", "| File | What |", "|---|---|")
    yield from (_row(PACKAGE / f"{name}.py") for name in _layers() if (PACKAGE / f"{name}.py").exists())


def _layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [layer.removeprefix("relexify.") for layer in contracts[0]["layers"]]


def _row(path: Path) -> str:
    about = _about(path).replace("|", "\\|")
    return f"| `{path.name}` | {about} |"


def _about(path: Path) -> str:
    """The first paragraph of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(page())
