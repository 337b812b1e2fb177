"""`relexify vectors`: train word vectors and look at them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from relexify.cli.console import emit, print_table, results, say_assisting, table
from relexify.cli.group import HELP_OPTIONS, VerbCommand
from relexify.cli.options import OutputFile, Overwrite, Seed, Settings, apply_settings, option
from relexify.cli.progress import bars
from relexify.errors import EvidenceError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, context_settings=HELP_OPTIONS)

VectorsFile = Annotated[Path, typer.Argument(help="Word vectors: .bin, .vec, .safetensors or word2vec.")]


@app.callback()
def vectors() -> None:
    """Train word vectors on your own text, and look at them."""


@app.command(cls=VerbCommand)
def train(
    corpus: Annotated[list[str], typer.Argument(help="Text: files, folders, compressed or not, or hf:NAME.")],
    output: OutputFile,
    method: Annotated[
        Literal["counts", "skipgram", "cbow"],
        typer.Option(help="counts: factorised co-occurrence counts, in seconds; skipgram and cbow: fastText (extra)."),
    ] = "counts",
    tokenizer: Annotated[str | None, option("Train vectors of this tokenizer's tokens instead of words.")] = None,
    width: Annotated[int, typer.Option(help="Dimensions.")] = 100,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    settings: Settings = None,
) -> None:
    """Train word vectors, with counts and n-grams, on text in one language.

    With --tokenizer, train vectors of tokens, on text in one or several languages (the lines of the files alternate).
    Vectors already trained on the same text with the same options are taken from the cache.

    Example: relexify vectors train swahili.txt -o swahili.safetensors --set minimum_count=5
    """
    from relexify.evidence.vectors.options import VectorTraining, validate_vector_training
    from relexify.processes import launch
    from relexify.storage.files import check_output
    from relexify.text import Corpus

    started = launch()
    if started.local_rank:
        return  # one process of each host counts, and starts others
    if started.rank:
        say_assisting(output)
    else:  # it writes the output, and may have done so already
        check_output(output, corpus, tokenizer, overwrite=overwrite, file=True)
    options = apply_settings("transfer.vectors", VectorTraining(method=method, width=width, seed=seed), settings)
    validate_vector_training(options)
    from relexify.methods.parts.vectors import trained_vectors
    from relexify.pretrained.loading import load_tokenizer
    from relexify.systems.trelm.joint_vocabulary import joint_token_vectors

    with bars():
        if tokenizer is None:
            vectors = trained_vectors(Corpus.open(corpus), options)
        else:
            if options.method == "counts":  # a token has its own vector, so counts need no n-grams
                options = replace(options, longest_ngram=0)
            texts = [Corpus.open(text) for text in corpus]
            vectors = joint_token_vectors(texts, load_tokenizer(tokenizer), options)
    if started.rank:
        return  # the first one writes them
    vectors.save(output)
    results.print(f"{len(vectors):,} words × {vectors.width} in [bold]{escape(str(output))}[/]", soft_wrap=True)
    emit(output=output, words=len(vectors), width=vectors.width)


@app.command(cls=VerbCommand)
def info(path: VectorsFile) -> None:
    """Describe a file of word vectors."""
    from relexify.evidence.vectors.formats.loading import load_vectors

    vectors = load_vectors(path)
    grams = vectors.ngrams
    ngrams = f"{grams.minimum} to {grams.maximum} letters, {len(grams.matrix):,} rows" if grams else "no"
    shown = table(str(path), "property", "value")
    shown.add_row("words", f"{len(vectors):,}")
    shown.add_row("dimensions", str(vectors.width))
    shown.add_row("counts", "yes" if vectors.counts is not None else "no")
    shown.add_row("n-grams", ngrams)
    shown.add_row("most frequent", escape(" ".join(vectors.words[:8])))
    print_table(shown)
    emit(words=len(vectors), width=vectors.width, counts=vectors.counts is not None, most_frequent=vectors.words[:8])


@app.command(cls=VerbCommand)
def nearest(
    path: VectorsFile,
    words: Annotated[list[str], typer.Argument(help="Words to look up.")],
    count: Annotated[int, typer.Option(min=1, help="Number of neighbours.")] = 10,
    among: Annotated[int, typer.Option(min=1, help="Search among this many of the most frequent words.")] = 100_000,
) -> None:
    """Show the nearest neighbours of words."""
    from relexify.evidence.vectors.formats.loading import load_vectors
    from relexify.neighbours import nearest as find

    vectors = load_vectors(path)
    queries = vectors.lookup(words)
    unknown = [word for word, row in zip(words, queries, strict=True) if not row.any()]
    if unknown:
        raise EvidenceError(f"{path} has no vector for {', '.join(unknown)}: check the spelling")
    candidates = list(vectors.words[:among])
    with bars():
        found, similarities = find(queries, vectors.lookup(candidates), count + 1)
    neighbours: dict[str, list[tuple[str, float]]] = {}
    for word, row, values in zip(words, found, similarities, strict=True):
        pairs = [(candidates[key], float(value)) for key, value in zip(row, values, strict=True)]
        neighbours[word] = [pair for pair in pairs if pair[0] != word][:count]
        shown = table(word, "neighbour", "cosine")
        for neighbour, value in neighbours[word]:
            shown.add_row(escape(neighbour), f"{value:.3f}")
        print_table(shown)
    emit(neighbours=neighbours)
