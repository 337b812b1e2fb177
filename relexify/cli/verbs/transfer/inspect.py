"""`relexify inspect`: show which source tokens a target token was mixed from, and how far training has moved them."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from relexify.cli.console import console, emit, print_table, results, table
from relexify.cli.options import existing, option
from relexify.errors import InputError, VocabularyError
from relexify.progress import count_of

if TYPE_CHECKING:
    from relexify.mixture import Mixture
    from relexify.reports import EmbeddingChange
    from relexify.tokens import TokenForm

__all__ = ["inspect"]

FIRST_WORDS, MORE_WORDS = 12, 4
"""Words that are shown without TOKENS: of the first group, which has the best evidence, and of each other."""


def inspect(
    model: Annotated[Path, existing("A folder written by relexify transfer, or a mixture file.")],
    tokens: Annotated[
        list[str] | None, typer.Argument(help="Tokens or words (default: frequent words).", show_default=False)
    ] = None,
    sources: Annotated[int, typer.Option(min=1, help="Source tokens to show for each, the heaviest first.")] = 5,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Show a random sample of this size instead.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of --sample.")] = 0,
    since: Annotated[Path | None, option("The model before training: show how far its embeddings have moved.")] = None,
) -> None:
    """Show which source tokens a target token was mixed from, with their weights.

    With blend, a source token is a translation of the word, a translation of a similar word, or a part of its spelling.
    Without TOKENS, show the most frequent whole words, grouped by what they were made from; with --sample, a random
    sample of all tokens that were not copied. Words that are not tokens are reported, with the tokens that they are
    split into. With --since, show instead how far the embeddings have moved since then, by tenths of the
    vocabulary in the order of the ids (of a BPE, the order of its merges).

    Example: relexify inspect gpt2-swahili shule

    Example: relexify inspect gpt2-swahili-trained --since gpt2-swahili
    """
    from relexify.mixture import MIXTURE_FILE, Mixture

    if since is not None:
        if tokens:
            raise InputError("--since shows the whole vocabulary: leave out the tokens")
        return emit(changes=_print_changes(model, since))
    file = model / MIXTURE_FILE if model.is_dir() else model
    if model.is_dir() and not file.is_file():
        raise InputError(f"{model} contains no {MIXTURE_FILE}: give a folder written by relexify transfer")
    if model.is_file() and model.suffix != Path(MIXTURE_FILE).suffix:
        raise InputError(f"{model} is neither a model nor a mixture file: give a folder written by relexify transfer")
    mixture = Mixture.load(file)
    if tokens:
        result = _print_tokens(model, mixture, tokens, sources)
    elif sample is not None:
        result = _print_sample(mixture, sample, sources, seed)
    else:
        result = _print_frequent_words(mixture, sources)
    _report_training(model)
    emit(**result)


def _report_training(model: Path) -> None:
    """Say that the embeddings of a trained model are not mixed as shown any more, and how to see by how much.

    The embedding of a compressed model, which has a kind of its own, cannot be compared.
    """
    from relexify.pretrained.kinds import kind_of_folder
    from relexify.storage.notes import read_notes

    notes = read_notes(model) if model.is_dir() else {}
    steps = (notes.get("training") or {}).get("selected_step")
    if not steps:
        return
    shown = ""
    if kind_of_folder(model) is None:
        command = shlex.join(["relexify", "inspect", str(model), "--since", str(notes.get("trained_from", "TRANSFER"))])
        shown = f"; {command} shows by how much"
    text = f"{count_of(steps, 'step')} of training changed the embeddings since{shown}."
    results.print(escape(f"These are mixtures of the transfer. {text}"), highlight=False, soft_wrap=True)


def _print_tokens(model: Path, mixture: Mixture, tokens: list[str], sources: int) -> dict[str, Any]:
    """Print the heaviest source tokens of some tokens or words, and why they are there; return them for json."""
    from relexify.systems.transfer.word_origins import evidence_kinds

    ids = {token: _find_ids(token, mixture) for token in tokens}
    unknown = {token: _split(model, mixture, token) for token in tokens if not ids[token]}
    if len(unknown) == len(tokens):
        raise VocabularyError("; ".join(_explain_unknown(*pair) for pair in unknown.items()))
    found = list(dict.fromkeys(id for token in tokens for id in ids[token]))
    described = [_describe(mixture, id, sources) for id in found]
    for token, kinds in zip(described, evidence_kinds(mixture, found, sources), strict=True):
        name = _quote(mixture.target_spelling.read(mixture.target_tokens[token["id"]]))
        shown = table(f"{name} (id {token['id']}, {token['origin']})", "source token", "weight", "from")
        shown.columns[2].justify = "left"
        names = [_quote(mixture.source_spelling.read(name)) for name, _ in mixture.sources(token["id"], sources)]
        for source, kind, quoted in zip(token["sources"], kinds, names, strict=True):
            source["from"] = kind
            shown.add_row(escape(quoted), f"{source['weight']:.3f}", kind)
        if rest := mixture.sources(token["id"])[sources:]:
            shown.add_row(_count_others(len(rest)), f"{sum(weight for _, weight in rest):.3f}", "")
        print_table(shown)
    _print_limit(any(len(mixture.sources(id)) > sources for id in found), sources)
    for pair in unknown.items():
        console.print(f"[yellow]·[/] {escape(_explain_unknown(*pair))}", highlight=False, soft_wrap=True)
    return {"tokens": described, "unknown": unknown}


def _print_sample(mixture: Mixture, size: int, sources: int, seed: int) -> dict[str, Any]:
    """Print random tokens that are not copied, each with its heaviest source tokens; return them for json."""
    import numpy as np

    from relexify.mixture import Origin

    mixed = np.flatnonzero((mixture.origin == Origin.MIXED) | (mixture.origin == Origin.PIECES))
    chosen = [int(id) for id in np.random.default_rng(seed).choice(mixed, min(size, len(mixed)), replace=False)]
    title = f"{count_of(len(chosen), 'random token')} of {len(mixed):,} that are not copied (mixed or pieces)"
    shown = table(title, "target token", "source tokens")
    shown.columns[1].justify = "left"
    for id in chosen:
        name = _quote(mixture.target_spelling.read(mixture.target_tokens[id]))
        shown.add_row(escape(name), escape(_join_sources(mixture, mixture.sources(id), sources)))
    print_table(shown)
    _print_limit(any(len(mixture.sources(id)) > sources for id in chosen), sources)
    return {"tokens": [_describe(mixture, id, sources) for id in chosen], "unknown": {}}


def _print_changes(model: Path, since: Path) -> list[EmbeddingChange]:
    """Print and return how far the embeddings of a model have moved since another state of it."""
    from relexify.pretrained.files.embedding import read_embedding
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
    return changes


def _print_frequent_words(mixture: Mixture, sources: int) -> dict[str, Any]:
    """Print the most frequent words, grouped by what they were made from; return them for json."""
    from relexify.systems.transfer.word_origins import words_by_origin

    groups = words_by_origin(mixture)
    sizes = [FIRST_WORDS] + [MORE_WORDS] * len(groups)
    shown = {name: words[:size] for (name, words), size in zip(groups.items(), sizes, strict=False)}
    is_cut = False
    for name, words in shown.items():
        title = f"{name}: {count_of(len(groups[name]), 'word')}"
        if len(words) < len(groups[name]):
            title += f", {len(words)} of them shown"
        is_cut = _print_words(title, mixture, words, sources) or is_cut
    _print_limit(is_cut, sources)
    return {
        "groups": [{"name": name, "words": len(words), "shown": shown[name]} for name, words in groups.items()],
        "tokens": [_describe(mixture, id, sources) for words in shown.values() for id in words],
        "unknown": {},
    }


def _print_words(title: str, mixture: Mixture, words: list[int], sources: int) -> bool:
    """Print words, each with its heaviest source tokens: parts of its own spelling, and others.

    Returns:
        Whether a word has more source tokens of one kind than are shown.
    """
    from relexify.mixture import is_part_of
    from relexify.systems.transfer.word_origins import TRANSLATION, known_share, spelled_translations

    limit = known_share(mixture)
    rows: list[tuple[str, str, str]] = []
    is_cut = False
    for id in words:
        word = mixture.target_spelling.read(mixture.target_tokens[id])
        parts: list[tuple[str, float]] = []
        others: list[tuple[str, float]] = []
        translated = spelled_translations(mixture, id, limit)
        for token, weight in mixture.sources(id):
            is_part = is_part_of(mixture.source_spelling.read(token), word)
            (parts if is_part and translated.get(token) != TRANSLATION else others).append((token, weight))
        name = _quote(word)
        is_cut = is_cut or max(len(parts), len(others)) > sources
        also = _join_sources(mixture, parts, sources, translated)
        rows.append((name, _join_sources(mixture, others, sources), also))
    headers = ("word", "from other tokens", "from its spelling")
    used = [0, *(column for column in (1, 2) if any(row[column] for row in rows))]
    shown = table(title, *(headers[column] for column in used))
    for column in shown.columns[1:]:
        column.justify = "left"
    for row in rows:
        shown.add_row(*(escape(row[column]) for column in used))
    print_table(shown)
    return is_cut


def _join_sources(
    mixture: Mixture, weighted: list[tuple[str, float]], limit: int, translated: Collection[str] = ()
) -> str:
    """Return source tokens with their weights in one line: the first ones, and the sum of the others.

    Those that are also translations are marked.
    """
    forms = [(mixture.source_spelling.read(token), weight, token in translated) for token, weight in weighted]
    # Of those with equal weights, words come before the pieces of words that the model has no token for.
    forms.sort(key=lambda entry: (-round(entry[1], 2), not entry[0].starts_word))
    shown = [f"{_quote(form)} {weight:.2f}{' (also a translation)' * both}" for form, weight, both in forms[:limit]]
    if rest := forms[limit:]:
        shown.append(f"{_count_others(len(rest))} {sum(weight for _, weight, _ in rest):.2f}")
    return ", ".join(shown)


def _quote(form: TokenForm) -> str:
    """Return a token in quotation marks; bytes that are only a part of a character are written as `\\xe0`."""
    return (
        f"'{form.readable}'" if any("\udc80" <= letter <= "\udcff" for letter in form.surface) else repr(form.readable)
    )


def _count_others(count: int) -> str:
    return count_of(count, "other")


def _print_limit(is_cut: bool, sources: int) -> None:
    """Say that only the heaviest source tokens are listed, if a list was cut."""
    if is_cut:
        heaviest = "heaviest source token is" if sources == 1 else f"{sources} heaviest source tokens are"
        results.print(f"The {heaviest} listed; --sources N lists more.", highlight=False, soft_wrap=True)


def _describe(mixture: Mixture, id: int, sources: int) -> dict[str, Any]:
    """Return a token, its origin and its heaviest source tokens as plain data."""
    from relexify.mixture import Origin

    return {
        "token": mixture.target_spelling.read(mixture.target_tokens[id]).readable,
        "id": id,
        "origin": Origin(int(mixture.origin[id])).name.lower(),
        "sources": [
            {"token": mixture.source_spelling.read(token).readable, "weight": weight}
            for token, weight in mixture.sources(id, sources)
        ],
    }


def _find_ids(word: str, mixture: Mixture) -> list[int]:
    """Return the ids of tokens that are spelled `word`, or whose text is `word`; empty if there are none."""
    written = word.strip()
    texts = (mixture.target_spelling.read(token).readable.strip() for token in mixture.target_tokens)
    pairs = enumerate(zip(mixture.target_tokens, texts, strict=True))
    return [id for id, (token, text) in pairs if token == word or (written and text == written)]


def _split(model: Path, mixture: Mixture, word: str) -> list[str]:
    """Return the tokens that a word is split into, in quotation marks; empty if there is no tokenizer to tell."""
    from relexify.pretrained.files.tokenizer import read_local_backend
    from relexify.tokens import copy_backend

    backend = read_local_backend(str(model))
    if backend is None:
        return []
    tokenizer = copy_backend(backend)
    pieces = tokenizer.encode(f" {word.strip()}", add_special_tokens=False).tokens
    return [_quote(mixture.target_spelling.read(piece)) for piece in pieces]


def _explain_unknown(word: str, pieces: list[str]) -> str:
    if not pieces:
        return f"the target vocabulary has no token {word!r}"
    return f"{word!r} is not a token; it is split into {len(pieces)}: {', '.join(pieces)}"
