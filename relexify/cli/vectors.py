"""`relexify vectors`: train word vectors, and look into them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from relexify.cli.console import results, table
from relexify.cli.progress import bars
from relexify.errors import EvidenceError

__all__ = ["app"]

app = typer.Typer(help="Train word vectors on your own text, and look into them.", no_args_is_help=True)


@app.command()
def train(
    corpus: Annotated[list[str], typer.Argument(help="Text: files, folders, compressed or not, or hf:NAME.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .safetensors file to write.")],
    method: Annotated[
        Literal["counts", "skipgram", "cbow"],
        typer.Option(help="Factored counts take seconds; the others are fastText's, and need relexify's extra for it."),
    ] = "counts",
    tokenizer: Annotated[
        str | None, typer.Option(help="Train vectors of this tokenizer's tokens instead of words; see transfer trelm.")
    ] = None,
    width: Annotated[int, typer.Option(help="Numbers a vector has.")] = 100,
    epochs: Annotated[int | None, typer.Option(help="Of fastText: passes over the text; by default, by size.")] = None,
    minimum_count: Annotated[int | None, typer.Option(help="Leave rarer words out; by default, by size.")] = None,
    workers: Annotated[int, typer.Option(help="Of fastText: more than 1 is faster, but not repeatable.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the training.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")] = False,
) -> None:
    """Train word vectors, with counts and n-grams, on text of one language.

    With --tokenizer they are vectors of tokens, on text of one language or of several, a line of each file in turn.

    Vectors that were trained before on the same text with the same options are found in the cache.
    """
    from relexify.evidence.vectors import VectorTraining
    from relexify.methods.inputs import trained_vectors
    from relexify.pretrained.loading import load_tokenizer
    from relexify.storage.files import check_inputs, check_output
    from relexify.systems.trelm.joint_vocabulary import token_vectors
    from relexify.text import Corpus

    check_inputs(output, corpus, tokenizer)
    check_output(output, overwrite=overwrite, file=True)
    options = VectorTraining(
        method=method, width=width, epochs=epochs, minimum_count=minimum_count, workers=workers, seed=seed
    )
    with bars():
        if tokenizer is None:
            vectors = trained_vectors(Corpus.open(corpus), options)
        else:  # a token has a vector of its own, so that counts need no n-grams
            options = replace(options, longest_ngram=0) if method == "counts" else options
            texts = [Corpus.open(text) for text in corpus]
            vectors = token_vectors(texts, load_tokenizer(tokenizer), options)
    vectors.save(output)
    results.print(f"{len(vectors):,} words, {vectors.width} wide, in [bold]{escape(str(output))}[/]", soft_wrap=True)


@app.command()
def info(path: Annotated[Path, typer.Argument(help="A vectors file: .bin, .vec, .safetensors, word2vec.")]) -> None:
    """Tell what a vectors file holds."""
    from relexify.evidence.vectors.formats.loading import load_vectors

    vectors = load_vectors(path)
    shown = table(str(path), "what", "value")
    shown.add_row("words", f"{len(vectors):,}")
    shown.add_row("width", str(vectors.width))
    shown.add_row("counts", "yes" if vectors.counts is not None else "no")
    grams = vectors.ngrams
    shown.add_row(
        "n-grams", f"{grams.minimum} to {grams.maximum} letters, {len(grams.matrix):,} rows" if grams else "no"
    )
    shown.add_row("most frequent", escape(" ".join(vectors.words[:8])))
    results.print(shown)


@app.command()
def nearest(
    path: Annotated[Path, typer.Argument(help="A vectors file.")],
    words: Annotated[list[str], typer.Argument(help="Words to look up.")],
    count: Annotated[int, typer.Option(min=1, help="How many neighbours.")] = 10,
    among: Annotated[int, typer.Option(min=1, help="Search among so many of the most frequent words.")] = 100_000,
) -> None:
    """Show the words nearest to given ones."""
    from relexify.evidence.vectors.formats.loading import load_vectors
    from relexify.neighbours import nearest as find

    vectors = load_vectors(path)
    queries = vectors.lookup(words)
    unknown = [word for word, row in zip(words, queries, strict=True) if not row.any()]
    if unknown:
        raise EvidenceError(f"nothing is known of {', '.join(unknown)} in {path}: check the spelling")
    candidates = list(vectors.words[:among])
    with bars():
        found, similarities = find(queries, vectors.lookup(candidates), count + 1)
    for word, row, values in zip(words, found, similarities, strict=True):
        shown = table(word, "neighbour", "cosine")
        pairs = [(candidates[key], value) for key, value in zip(row, values, strict=True) if candidates[key] != word]
        for neighbour, value in pairs[:count]:
            shown.add_row(escape(neighbour), f"{value:.3f}")
        results.print(shown)
