"""What a training begins with, where that is not a ready model: fresh parameters, a compressed embedding, or both."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from relexify.pretrained.fresh import fresh_model
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.recipes.file.schema import RecipeFile
from relexify.storage.files import MARKER, check_output, write_file, write_folder
from relexify.storage.fingerprint import describe
from relexify.systems.compression.compress import compress_folder
from relexify.systems.transfer.grafts import read_note

__all__ = ["prepare_start", "start_identity"]


def prepare_start(recipe: RecipeFile, model: str, folder: Path) -> None:
    """Write the model that a recipe's training begins with, unless an earlier call did.

    Args:
        recipe: With `[fresh]`, `[compress]` or both.
        model: What they are applied to.
        folder: To write; a note beside it tells what it was made of.

    Raises:
        InputError: The model, a field of its config or an option is not possible.
        OutputError: The folder is somebody else's, or cannot be written.
    """
    note = folder.with_name(f"{folder.name}.json")
    asked = start_identity(recipe, model)
    if (folder / MARKER).exists() and note.exists() and read_note(note) == asked:
        return
    if not note.exists():
        check_output(folder)
    write_file(note, json.dumps("under way") + "\n")
    if recipe.compress is not None:
        compress_folder(model, folder, recipe.compress, fresh=recipe.fresh, overwrite=True)
    else:
        seed = recipe.training.seed if recipe.training else 0
        fresh, tokenizer = fresh_model(model, recipe.fresh or {}, seed=seed), load_tokenizer(model)
        with write_folder(folder, overwrite=True) as beside:
            fresh.save_pretrained(beside)
            save_tokenizer(tokenizer, beside)
            write_file(beside / MARKER, json.dumps({"fresh": asked}, indent=2) + "\n")
    write_file(note, json.dumps(asked) + "\n")


def start_identity(recipe: RecipeFile, model: str) -> dict[str, Any]:
    """All that the start depends on, as json gives it back."""
    compress = recipe.compress
    asked = {
        "model": describe(Path(model)),
        "fresh": None if recipe.fresh is None else dict(recipe.fresh),
        "compress": None if compress is None else asdict(compress),
        "codes_from": describe(Path(compress.codes_from)) if compress and compress.codes_from else None,
        "seed": recipe.training.seed if recipe.training else 0,
    }
    found: dict[str, Any] = json.loads(json.dumps(asked))
    return found
