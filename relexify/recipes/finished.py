"""A recipe that was carried out already: given again, it finds its result, and measures only what is new."""

from __future__ import annotations

import json
from typing import Any

from relexify.recipes.compare.trials import training_identity
from relexify.recipes.file.schema import RecipeFile
from relexify.recipes.preparing import start_identity
from relexify.storage.files import record_file, write_file
from relexify.systems.transfer.grafts import read_note, transfer_identity
from relexify.text import Corpus
from relexify.training.result import is_trained

__all__ = ["is_finished", "note_finished"]

_NOTE = "recipe.json"


def is_finished(recipe: RecipeFile) -> bool:
    """Whether the output of a recipe with `[training]` is what it asks for; its tasks do not count."""
    note = recipe.output / _NOTE
    return note.exists() and is_trained(recipe.output) and read_note(note) == _asked(recipe)


def note_finished(recipe: RecipeFile) -> None:
    """Write into the output what it is the result of."""
    write_file(record_file(recipe.output / _NOTE), json.dumps(_asked(recipe), indent=1) + "\n")


def _asked(recipe: RecipeFile) -> dict[str, Any]:
    """All that the trained model depends on, by content, as json gives it back."""
    texts = [None if text is None else Corpus.open(text).fingerprint() for text in (recipe.corpus, recipe.held_out)]
    asked = {
        "start": start_identity(recipe, recipe.model),
        "transfer": None if recipe.transfer is None else transfer_identity(recipe.transfer),
        "texts": texts,
        "training": None if recipe.training is None else training_identity(recipe.training),
    }
    found: dict[str, Any] = json.loads(json.dumps(asked))
    return found
