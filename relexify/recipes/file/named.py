"""The recipes that come with relexify, which commands take by name: `relexify run wechsel-gpt2`.

Users do not write into the folder of an installed package, so the paths in these recipes are relative to the current
folder.
"""

from __future__ import annotations

from pathlib import Path

from relexify.errors import InputError
from relexify.registry import suggestion

__all__ = ["find_recipe", "folder_of_paths", "shipped_recipes"]

_SHIPPED = Path(__file__).parents[1] / "shipped"


def shipped_recipes() -> dict[str, Path]:
    """Return the files of all recipes that come with relexify, by name."""
    return {path.stem: path for path in sorted(_SHIPPED.glob("*.toml"))}


def find_recipe(name: str | Path) -> Path:
    """Return the file of a recipe.

    Args:
        name: Its path, or the name of one that comes with relexify.

    Raises:
        InputError: It is neither a path nor such a name.
    """
    path, known = Path(name), shipped_recipes()
    if path.is_file() or path.suffix or len(path.parts) != 1:
        return path
    if str(name) not in known:
        remedy = suggestion(str(name), known, listed_by="relexify recipes")
        raise InputError(f"there is neither a file nor a recipe {str(name)!r}: {remedy}")
    return known[str(name)]


def folder_of_paths(file: Path) -> Path:
    """Return the folder that the paths in a recipe are relative to."""
    return Path.cwd() if file.parent == _SHIPPED else file.absolute().parent
