"""`relexify inspect`: what a token was made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.markup import escape

from relexify.cli.console import results, table
from relexify.errors import InputError, VocabularyError

if TYPE_CHECKING:
    from relexify.mixture import Mixture

__all__ = ["inspect"]


def inspect(
    model: Annotated[Path, typer.Argument(help="A folder that relexify transfer wrote, or a mixture file.")],
    tokens: Annotated[list[str] | None, typer.Argument(help="Tokens or words; none for a random sample.")] = None,
    sources: Annotated[int, typer.Option(min=1, help="Source tokens to show of each.")] = 10,
    sample: Annotated[int, typer.Option(min=1, help="How many random tokens to show.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
) -> None:
    """Show which old tokens a new token was mixed from, with their weights.

    Without TOKENS, show a random sample of new tokens, each with its closest old one.
    """
    from relexify.mixture import Mixture

    mixture = Mixture.load(_mixture_file(model))
    readable = _Readable(model)
    if not tokens:
        _print_sample(mixture, readable, sample, seed)
    found = {id: None for token in tokens or () for id in _ids(token, mixture.target_tokens, readable)}
    for id in found:
        _print_token(mixture, readable, id, sources)


def _print_sample(mixture: Mixture, readable: _Readable, size: int, seed: int) -> None:
    """Some mixed tokens, each with the old token it has most of."""
    from relexify.mixture import Origin

    mixed = np.flatnonzero((mixture.origin == Origin.MIXED) | (mixture.origin == Origin.PIECES))
    chosen = np.random.default_rng(seed).choice(mixed, min(size, len(mixed)), replace=False)
    shown = table(f"A sample of {len(chosen)} of {len(mixed):,} mixed tokens", "new token", "closest", "weight")
    for id in chosen:
        (source, weight), *_ = mixture.sources(int(id), 1)
        shown.add_row(escape(readable(mixture.target_tokens[id])), escape(readable(source)), f"{weight:.2f}")
    results.print(shown)


def _print_token(mixture: Mixture, readable: _Readable, id: int, sources: int) -> None:
    """All that one token was mixed from."""
    from relexify.mixture import Origin

    origin = Origin(int(mixture.origin[id])).name.lower()
    shown = table(f"{readable(mixture.target_tokens[id])!r} (id {id}, {origin})", "old token", "weight")
    for source, weight in mixture.sources(id, sources):
        shown.add_row(escape(repr(readable(source))), f"{weight:.3f}")
    results.print(shown)


def _mixture_file(model: Path) -> Path:
    from relexify.grafting.graft import MIXTURE_FILE

    if model.is_dir():
        if not (model / MIXTURE_FILE).is_file():
            raise InputError(f"{model} holds no {MIXTURE_FILE}: give a folder that relexify transfer wrote")
        return model / MIXTURE_FILE
    return model


class _Readable:
    """Tokens as people read them: the tokenizer of the folder knows how both vocabularies are spelled."""

    def __init__(self, model: Path) -> None:
        from tokenizers import Tokenizer

        from relexify.tokens.forms import spelling_of

        file = (model if model.is_dir() else model.parent) / "tokenizer.json"
        try:
            self.spelling = spelling_of(Tokenizer.from_file(str(file))) if file.is_file() else None
        except Exception as error:  # tokenizers raises a plain one
            raise InputError(f"{file} is no tokenizer that can be read ({error}): write the folder anew") from error

    def __call__(self, token: str) -> str:
        surface = self.spelling.read(token).surface if self.spelling else token
        return surface.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _ids(word: str, tokens: Sequence[str], readable: _Readable) -> list[int]:
    written = word.strip()
    found = [id for id, token in enumerate(tokens) if token == word or (written and readable(token).strip() == written)]
    if not found:
        raise VocabularyError(f"the new vocabulary has no token {word!r}: it is written with several, or not at all")
    return found
