"""Find out before the work begins what would stop it at the end."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from relexify.errors import InputError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.storage.files import check_inputs, check_output
from relexify.systems.transfer.aligned_text import check_bitext
from relexify.systems.transfer.options import METHODS, Transfer
from relexify.text import Corpus
from relexify.training.plan import HELD_OUT_EVERY

__all__ = ["check_recipe", "open_texts", "transfer_inputs", "with_dictionary"]

_LEAST = {"vocab_size": 1, "neighbours": 1, "alphabet": 1, "pad_to_multiple_of": 1, "seed": 0, "score_bytes": 1}

logger = logging.getLogger(__name__)


def check_recipe(recipe: Transfer) -> None:
    """Refuse what no transfer can be made of.

    Raises:
        InputError: An option has an impossible value, or a file is missing.
        MissingExtra: A package is missing that the method needs.
        OutputError: The output cannot be written.
    """
    if recipe.method not in METHODS:
        raise InputError(f"there is no method {recipe.method!r}: choose one of {', '.join(METHODS)}")
    for name, least in _LEAST.items():
        value = getattr(recipe, name)
        if value is not None and value < least:
            raise InputError(f"{name} = {value} is not possible: give {least} or more")
    if recipe.aligned_by not in get_args(get_type_hints(Transfer)["aligned_by"]):
        raise InputError(
            f"vectors cannot be aligned by {recipe.aligned_by!r}: choose dictionary, identical or unsupervised"
        )
    if recipe.initialisation not in get_args(get_type_hints(Transfer)["initialisation"]):
        raise InputError(
            f"there is no initialisation {recipe.initialisation!r}: choose random, random-align, fasttext or "
            "fasttext-align"
        )
    if recipe.map not in get_args(get_type_hints(Transfer)["map"]):
        raise InputError(f"there is no map {recipe.map!r}: choose linear or orthogonal")
    if not 0 < recipe.temperature < float("inf"):
        raise InputError(f"temperature = {recipe.temperature} is not possible: give a number above 0, such as 0.1")
    for path in (recipe.dictionary, recipe.alignment, recipe.rotation, recipe.source_vectors, recipe.target_vectors):
        if isinstance(path, str | Path) and not Path(path).exists():
            raise InputError(f"{path} does not exist: check the path")
    _check_method(recipe)
    check_bitext(recipe)
    check_inputs(recipe.output, *transfer_inputs(recipe))
    check_output(recipe.output, overwrite=recipe.overwrite)


def transfer_inputs(recipe: Transfer) -> tuple[Any, ...]:
    """Return everything that a transfer reads, for `check_inputs`."""
    files = (recipe.alignment, recipe.rotation, recipe.source_vectors, recipe.target_vectors)
    texts = (recipe.corpus, recipe.source_corpus, recipe.held_out, recipe.bitext)
    return (recipe.model, recipe.tokenizer, recipe.dictionary, *files, *texts)


def with_dictionary(recipe: Transfer) -> Transfer:
    """The same recipe with its dictionary read, since a dictionary that cannot be read should not cost an hour.

    Raises:
        InputError: The dictionary cannot be read.
    """
    if not isinstance(recipe.dictionary, str | Path):
        return recipe
    lexicon = BilingualLexicon.load(recipe.dictionary, swapped=recipe.dictionary_swapped)
    return replace(recipe, dictionary=lexicon, dictionary_swapped=False)


def open_texts(recipe: Transfer) -> tuple[Corpus, Corpus]:
    """The text to learn from and the text to measure on, which never meet.

    Raises:
        InputError: One of them is missing, unreadable or empty.
    """
    corpus = Corpus.open(recipe.corpus)
    training, held_out = corpus.split(HELD_OUT_EVERY)
    if recipe.held_out is not None:
        training, held_out = corpus, Corpus.open(recipe.held_out)
    training.ensure_text()
    if recipe.source_corpus is not None:
        Corpus.open(recipe.source_corpus).ensure_text()
    if recipe.score:
        _ensure_held_out(held_out)
    return training, held_out


def _ensure_held_out(held_out: Corpus) -> None:
    try:
        held_out.ensure_text()
    except InputError as error:
        reason = str(error).partition(":")[0] if held_out.parts else str(error)
        raise InputError(f"{reason}: give text to score on (--held-out), or do not score (--no-score)") from error


def _check_method(recipe: Transfer) -> None:
    """Refuse or tell of evidence that the method has no use for."""
    method = METHODS[recipe.method]
    if recipe.overrides and not method.takes_overrides:
        raise InputError(f"the method {recipe.method} takes no overrides: leave them out, or choose another method")
    if method.needs_source_text and recipe.source_corpus is None:
        raise InputError(f"the method {recipe.method} needs text of the model's language too: give --source-corpus")
    unused = [name for name in method.unused if getattr(recipe, name) is not None]
    if unused:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in unused)
        logger.warning("the method %s makes no use of %s", recipe.method, names)
