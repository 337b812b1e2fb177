"""The pages of the documentation, and the commands in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])


def name_of(page: Path) -> str:
    """Return a page's path within the documentation, as the navigation of the site has it, or else its name."""
    return page.relative_to(DOCS).as_posix() if page.is_relative_to(DOCS) else page.name


def commands(path: Path) -> list[list[str]]:
    """Return the words after `relexify` of every command in a page or in the comments of a recipe.

    Those in blocks come first, then those in sentences, each in their order.
    """
    text = path.read_text()
    if path.suffix == ".toml":
        text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        pieces = re.findall(r"^ .*\brelexify (.*(?:\\\n.*)*)", text, flags=re.MULTILINE)
    else:
        pieces = []
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
            if language:
                continue
            pieces += re.findall(r"^(?:.* )?relexify ((?:.*\\\n)*.*)", block, flags=re.MULTILINE)
        pieces += re.findall(r"`relexify ([^`]+)`", text)
    if path.suffix == ".toml":  # "… --set KEY=VALUE" stands for the command above with another setting
        pieces += [f"run RECIPE {setting}" for setting in re.findall(r"--set [\w.]+=\S+", text)]
    found = [shlex.split(piece.replace("\\\n", " "), comments=True) for piece in pieces]
    return [
        [word if "=[" in word else word.strip("[]") for word in words]  # [--option] is optional, key=[…] is a list
        for words in found
        if words and words[0] not in ("-h", "--help")
    ]
