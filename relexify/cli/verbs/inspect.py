"""`relexify inspect`: show which source tokens a target token was mixed from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.markup import escape

from relexify.cli.console import results, table
from relexify.errors import InputError, VocabularyError

if TYPE_CHECKING:
    from relexify.mixture import Mixture
    from relexify.tokens import Spelling

__all__ = ["inspect"]


def inspect(
    model: Annotated[Path, typer.Argument(help="A folder written by relexify transfer, or a mixture file.")],
    tokens: Annotated[
        list[str] | None, typer.Argument(help="Tokens or words (default: a random sample).", show_default=False)
    ] = None,
    sources: Annotated[int, typer.Option(min=1, help="Source tokens to show for each.")] = 10,
    sample: Annotated[int, typer.Option(min=1, help="Size of the random sample.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample.")] = 0,
) -> None:
    """Show which source tokens a target token was mixed from, with their weights.

    Without TOKENS, show a random sample of target tokens, each with its heaviest source token.

    Example: relexify inspect gpt2-swahili shule
    """
    from relexify.mixture import Mixture

    mixture = Mixture.load(_mixture_file(model))
    if not tokens:
        _print_sample(mixture, sample, seed)
    found = {id: None for token in tokens or () for id in _ids(token, mixture)}
    for id in found:
        _print_token(mixture, id, sources)


def _print_sample(mixture: Mixture, size: int, seed: int) -> None:
    """Print random mixed tokens, each with its heaviest source token."""
    from relexify.mixture import Origin

    mixed = np.flatnonzero((mixture.origin == Origin.MIXED) | (mixture.origin == Origin.PIECES))
    chosen = np.random.default_rng(seed).choice(mixed, min(size, len(mixed)), replace=False)
    shown = table(
        f"A sample of {len(chosen)} of {len(mixed):,} mixed tokens", "target token", "heaviest source token", "weight"
    )
    for id in chosen:
        (source, weight), *_ = mixture.sources(int(id), 1)
        written = _readable(mixture.target_tokens[id], mixture.target_spelling)
        shown.add_row(escape(written), escape(_readable(source, mixture.source_spelling)), f"{weight:.2f}")
    results.print(shown)


def _print_token(mixture: Mixture, id: int, sources: int) -> None:
    """Print the heaviest source tokens of one token."""
    from relexify.mixture import Origin

    origin = Origin(int(mixture.origin[id])).name.lower()
    written = _readable(mixture.target_tokens[id], mixture.target_spelling)
    shown = table(f"{written!r} (id {id}, {origin})", "source token", "weight")
    for source, weight in mixture.sources(id, sources):
        shown.add_row(escape(repr(_readable(source, mixture.source_spelling))), f"{weight:.3f}")
    results.print(shown)


def _mixture_file(model: Path) -> Path:
    from relexify.grafting.graft import MIXTURE_FILE

    if model.is_dir():
        if not (model / MIXTURE_FILE).is_file():
            raise InputError(f"{model} contains no {MIXTURE_FILE}: give a folder written by relexify transfer")
        return model / MIXTURE_FILE
    return model


def _readable(token: str, spelling: Spelling) -> str:
    """Return a token as people read it, independent of the tokenizer family."""
    return spelling.read(token).surface.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _ids(word: str, mixture: Mixture) -> list[int]:
    """Return the ids of tokens that are spelled `word`, or whose text is `word`."""
    written = word.strip()
    texts = (_readable(token, mixture.target_spelling).strip() for token in mixture.target_tokens)
    pairs = enumerate(zip(mixture.target_tokens, texts, strict=True))
    found = [id for id, (token, text) in pairs if token == word or (written and text == written)]
    if not found:
        raise VocabularyError(
            f"the target vocabulary has no token {word!r}: it is split into several tokens, or cannot be written"
        )
    return found
