"""One language of a model: load it, or write it as a model of its own.

A model of transformers has one language, and none need be named. Of a folder with several (a bilingual model, or a
TRILayer model with separate vocabularies) one can be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from relexify.errors import InputError
from relexify.pretrained.kinds import kind_of_folder
from relexify.pretrained.loading import check_loadable, load_model, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["export_language", "language_folder", "load_with_tokenizer", "needs_language"]


def needs_language(name: str | Path) -> bool:
    """Return whether a name is a folder with one model per language, of which one must be chosen."""
    kind = kind_of_folder(name)
    return kind is not None and kind.needs_language


def load_with_tokenizer(
    name: str | Path, language: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load a model and its tokenizer.

    Args:
        name: A folder, a Hub name, or a packaged model such as `smollm2-135m`.
        language: The language of a folder with several; None for any other model.

    Raises:
        InputError: There is no such model, or it does not have this language.
    """
    if language is None:
        return load_model(name), load_tokenizer(name)
    kind = kind_of_folder(name)
    if kind is None or kind.load_language is None or not kind.languages(name):
        raise _has_one_language(name, language)
    return kind.load_language(name, language)


@contextmanager
def language_folder(name: str | Path, language: str | None = None) -> Iterator[str | Path]:
    """Yield a name that `load_model` accepts: the given one, or a temporary export of one of its languages.

    Raises:
        InputError: The model does not have this language, or no language is named and one must be.
    """
    if language is None:
        check_loadable(name)
        yield name
        return
    kind = kind_of_folder(name)
    if kind is None or kind.export_language is None or not kind.languages(name):
        raise _has_one_language(name, language)
    with TemporaryDirectory(prefix="relexify-") as folder:
        yield kind.export_language(name, language, Path(folder) / language, False)


def export_language(name: str | Path, language: str, output: str | Path, *, overwrite: bool = False) -> Path:
    """Write one language of a folder with several, with its tokenizer, as a model of its own.

    Raises:
        InputError: The folder does not hold several languages, or not this one.
        OutputError: The output cannot be written.
    """
    kind = kind_of_folder(name)
    if kind is None or kind.export_language is None:
        raise InputError(
            f"{name} holds no bilingual model: give a folder that relexify bilingual wrote, "
            "or relexify trelm with separate vocabularies"
        )
    return kind.export_language(name, language, output, overwrite)


def _has_one_language(name: str | Path, language: str) -> InputError:
    return InputError(f"{name} is not a bilingual model, so no language can be chosen: leave {language!r} out")
