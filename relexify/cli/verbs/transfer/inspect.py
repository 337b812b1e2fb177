"""`relexify inspect`: show which source tokens a target token was mixed from, and how far training has moved them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from relexify.cli.console import console, emit, print_table, table
from relexify.cli.options import existing, option
from relexify.errors import InputError, VocabularyError

if TYPE_CHECKING:
    from relexify.mixture import Mixture
    from relexify.tokens import Spelling

__all__ = ["inspect"]


def inspect(
    model: Annotated[Path, existing("A folder written by relexify transfer, or a mixture file.")],
    tokens: Annotated[
        list[str] | None, typer.Argument(help="Tokens or words (default: a random sample).", show_default=False)
    ] = None,
    sources: Annotated[int, typer.Option(min=1, help="Source tokens to show for each, the heaviest first.")] = 5,
    sample: Annotated[int, typer.Option(min=1, help="Size of the random sample.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample.")] = 0,
    since: Annotated[Path | None, option("The model before training: show how far its embeddings have moved.")] = None,
) -> None:
    """Show which source tokens a target token was mixed from, with their weights.

    Without TOKENS, show a random sample of mixed tokens. Words that are not tokens are reported, with the tokens that
    they are split into. With --since, show instead how far the embeddings have moved since then, by tenths of the
    vocabulary in the order of the ids (of a BPE, the order of its merges).

    Example: relexify inspect gpt2-swahili shule

    Example: relexify inspect gpt2-swahili-trained --since gpt2-swahili
    """
    from relexify.mixture import MIXTURE_FILE, Mixture

    if since is not None:
        if tokens:
            raise InputError("--since shows the whole vocabulary: leave out the tokens")
        return _print_changes(model, since)
    file = model / MIXTURE_FILE if model.is_dir() else model
    if model.is_dir() and not file.is_file():
        raise InputError(f"{model} contains no {MIXTURE_FILE}: give a folder written by relexify transfer")
    mixture = Mixture.load(file)
    if tokens:
        ids = {token: _ids(token, mixture) for token in tokens}
        unknown = {token: _pieces(model, token) for token in tokens if not ids[token]}
        if len(unknown) == len(tokens):
            raise VocabularyError("; ".join(_explain_unknown(*pair) for pair in unknown.items()))
        found = list(dict.fromkeys(id for token in tokens for id in ids[token]))
        for token in (_described(mixture, id, sources) for id in found):
            shown = table(f"{token['token']!r} (id {token['id']}, {token['origin']})", "source token", "weight")
            for source in token["sources"]:
                shown.add_row(escape(repr(source["token"])), f"{source['weight']:.3f}")
            print_table(shown)
        for pair in unknown.items():
            console.print(f"[yellow]·[/] {escape(_explain_unknown(*pair))}", highlight=False, soft_wrap=True)
    else:
        unknown, found = {}, _print_sample(mixture, sample, sources, seed)
    emit(tokens=[_described(mixture, id, sources) for id in found], unknown=unknown)


def _print_changes(model: Path, since: Path) -> None:
    """Print how far the embeddings of a model have moved since another state of it."""
    from relexify.pretrained.lexical import read_embedding
    from relexify.reports import embedding_changes

    before, after = (read_embedding(folder) for folder in (since, model))
    if before is None or after is None:
        raise InputError("a model has no embedding of its own, but computes it: expand it first (relexify expand)")
    changes = embedding_changes(before, after)
    shown = table(
        f"Embeddings since {since.name}, by tenths of the vocabulary", "ids", "cosine", "distance / length before"
    )
    for change in changes:
        shown.add_row(f"{change.first:,} – {change.last:,}", f"{change.cosine:.3f}", f"{change.distance:.3f}")
    print_table(shown)
    emit(changes=changes)


def _print_sample(mixture: Mixture, size: int, sources: int, seed: int) -> list[int]:
    """Print random mixed tokens, each with its heaviest source tokens, and return their ids."""
    import numpy as np

    from relexify.mixture import Origin

    mixed = np.flatnonzero((mixture.origin == Origin.MIXED) | (mixture.origin == Origin.PIECES))
    chosen = [int(id) for id in np.random.default_rng(seed).choice(mixed, min(size, len(mixed)), replace=False)]
    title = f"{len(chosen)} of {len(mixed):,} tokens made from several (mixed or pieces)"
    shown = table(title, "target token", "source tokens")
    shown.columns[1].justify = "left"
    for found in (_described(mixture, id, sources) for id in chosen):
        parts = [f"{source['token']!r} {source['weight']:.2f}" for source in found["sources"]]
        shown.add_row(escape(repr(found["token"])), escape(", ".join(parts)))
    print_table(shown)
    return chosen


def _described(mixture: Mixture, id: int, sources: int) -> dict[str, Any]:
    """Return a token, its origin and its heaviest source tokens as plain data."""
    from relexify.mixture import Origin

    return {
        "token": _readable(mixture.target_tokens[id], mixture.target_spelling),
        "id": id,
        "origin": Origin(int(mixture.origin[id])).name.lower(),
        "sources": [
            {"token": _readable(token, mixture.source_spelling), "weight": weight}
            for token, weight in mixture.sources(id, sources)
        ],
    }


def _readable(token: str, spelling: Spelling) -> str:
    """Return a token as people read it, independent of the tokenizer family."""
    return spelling.read(token).surface.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _ids(word: str, mixture: Mixture) -> list[int]:
    """Return the ids of tokens that are spelled `word`, or whose text is `word`; empty if there are none."""
    written = word.strip()
    texts = (_readable(token, mixture.target_spelling).strip() for token in mixture.target_tokens)
    pairs = enumerate(zip(mixture.target_tokens, texts, strict=True))
    return [id for id, (token, text) in pairs if token == word or (written and text == written)]


def _pieces(model: Path, word: str) -> list[str]:
    """Return the tokens that a word is split into; empty if that is not known, because there is no tokenizer."""
    from tokenizers import Tokenizer

    file = model / "tokenizer.json"
    if not file.is_file():
        return []
    tokenizer = Tokenizer.from_file(str(file))
    ids = tokenizer.encode(f" {word.strip()}", add_special_tokens=False).ids
    return [tokenizer.decode([id]) for id in ids]


def _explain_unknown(word: str, pieces: list[str]) -> str:
    if not pieces:
        return f"the target vocabulary has no token {word!r}"
    return f"{word!r} is not a token; it is split into {len(pieces)}: {', '.join(map(repr, pieces))}"
