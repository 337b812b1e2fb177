"""Names of the languages of a model that has several, each with its own tokenizer in `MODEL/languages/NAME`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from relexify.errors import InputError

__all__ = ["LANGUAGES", "check_languages"]

LANGUAGES = "languages"
"""The folder with one tokenizer per language, inside the folder of the model."""


def check_languages(languages: Sequence[str]) -> None:
    """Validate the names of two languages.

    Raises:
        InputError: They are not two, cannot be told apart, or cannot name a folder.
    """
    if len(languages) != 2:
        raise InputError(f"{len(languages)} languages are named, and a bilingual model has two: name two")
    for name in languages:
        if not re.fullmatch(r"\w[\w-]*", name):
            raise InputError(f"{name!r} cannot name a language, since it names a folder: use letters, digits and '-'")
    # Some file systems ignore case.
    if languages[0].lower() == languages[1].lower():
        raise InputError(f"both languages are called {languages[0]!r}: give each a name of its own, such as en and sw")
