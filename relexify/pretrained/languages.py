"""The languages of a model: validate their names, and load or export a single language as a separate model.

An ordinary transformers model has one language, which need not be specified. If a folder has several languages (its
`ModelKind` lists them), one can be selected; each has its tokenizer in `MODEL/languages/NAME`. Names are validated
without importing torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from relexify.errors import InputError
from relexify.pretrained.kinds import MODEL_KINDS, kind_of_folder
from relexify.storage.files import MARKER, write_file, write_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = [
    "LANGUAGES",
    "check_languages",
    "check_one_language",
    "export_language",
    "language_folder",
    "load_for_language",
    "needs_language",
]

LANGUAGES = "languages"
"""The folder with one tokenizer per language, inside the folder of the model."""


def check_languages(languages: Sequence[str]) -> None:
    """Validate the names of two languages.

    Raises:
        InputError: There are not exactly two names, they are equal, or one is not a valid name for a folder.
    """
    if len(languages) != 2:
        raise InputError(f"{len(languages)} languages are named, but a bilingual model has two: name two")
    for name in languages:
        if not re.fullmatch(r"\w[\w-]*", name):
            raise InputError(f"{name!r} cannot name a language, because it names a folder: use letters, digits and '-'")
    # Some file systems are case-insensitive.
    if languages[0].lower() == languages[1].lower():
        raise InputError(f"both languages are called {languages[0]!r}: give two different names, such as en and sw")


def check_one_language(name: str | Path) -> None:
    """Validate that a folder does not have several languages with their own vocabularies, of which only one is read.

    Raises:
        InputError: It has several.
    """
    kind = kind_of_folder(name)
    if kind is not None and (languages := kind.languages(name)):
        raise InputError(
            f"{name} has a vocabulary for each of the languages {' and '.join(languages)}: export one of them first "
            f"(relexify export {name} {languages[-1]} OUTPUT)"
        )


def needs_language(name: str | Path) -> bool:
    """Return whether a name is a folder with one model per language, so that a language must be chosen."""
    kind = kind_of_folder(name)
    return kind is not None and kind.needs_language


def load_for_language(name: str | Path, language: str | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load a model and its tokenizer.

    Args:
        name: A folder, a Hub name, or a packaged model such as `smollm2-135m`.
        language: The language to load from a folder with several languages; None for any other model.

    Raises:
        InputError: The model does not exist, or does not have this language.
    """
    if language is None:
        from relexify.pretrained.loading import load_model, load_tokenizer

        return load_model(name), load_tokenizer(name)
    kind = kind_of_folder(name)
    if kind is None or kind.load_language is None or not kind.languages(name):
        raise _has_one_language(name, language)
    return kind.load_language(name, language)


@contextmanager
def language_folder(name: str | Path, language: str | None = None) -> Iterator[str | Path]:
    """Yield a name that `load_model` accepts: the given name, or a temporary folder with one exported language.

    Raises:
        InputError: The model does not have this language, or it needs a language and none is given.
    """
    if language is None:
        from relexify.pretrained.loading import check_loadable

        check_loadable(name)
        yield name
        return
    kind = kind_of_folder(name)
    if kind is None or not kind.languages(name):
        raise _has_one_language(name, language)
    with TemporaryDirectory(prefix="relexify-") as folder:
        yield export_language(name, language, Path(folder) / language)


def export_language(name: str | Path, language: str, output: str | Path, *, overwrite: bool = False) -> Path:
    """Write one language of a folder with several languages, with its tokenizer, as a separate model.

    Raises:
        InputError: The folder does not contain several languages, or does not contain this one.
        OutputError: The output cannot be written.
    """
    kind = kind_of_folder(name)
    if kind is None or kind.load_language is None:
        writers = " or ".join(sorted(kind.written_by for kind in MODEL_KINDS.values() if kind.load_language))
        raise InputError(f"{name} holds no bilingual model: give a folder written by {writers}")
    # Imported here, because importing torch takes seconds, and other folders are rejected above without it.
    from relexify.pretrained.runtime.quiet import save_model
    from relexify.pretrained.tokenizers import save_tokenizer

    model, tokenizer = kind.load_language(name, language)
    with write_folder(output, overwrite=overwrite) as folder:
        save_model(model, folder)
        save_tokenizer(tokenizer, folder)
        notes = {"exported": {"language": language, "languages": list(kind.languages(name))}}
        write_file(folder / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
    return Path(output)


def _has_one_language(name: str | Path, language: str) -> InputError:
    return InputError(f"{name} is not a bilingual model, so no language can be chosen: remove {language!r}")
