"""`relexify align`: bring two languages' word vectors into one space."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from relexify.cli.console import results
from relexify.cli.device import chosen_device
from relexify.cli.progress import bars
from relexify.cli.summary import print_alignment
from relexify.errors import InputError

__all__ = ["align"]


def align(
    source: Annotated[Path, typer.Argument(help="Word vectors of the source language.")],
    target: Annotated[Path, typer.Argument(help="Word vectors of the target language.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .safetensors file to write the rotation to.")],
    dictionary: Annotated[
        Path | None, typer.Option(help="Source word and target word; without one, identical words.")
    ] = None,
    unsupervised: Annotated[
        bool, typer.Option("--unsupervised", help="Align without pairs of words; a dictionary then only measures.")
    ] = False,
    games: Annotated[
        int, typer.Option(help="Of --unsupervised: games, at most, where nothing quicker helps; minutes each on a CPU.")
    ] = 3,
    direction: Annotated[
        Literal["source-to-target", "target-to-source"], typer.Option(help="Which language is moved.")
    ] = "source-to-target",
    reduce: Annotated[bool, typer.Option("--reduce", help="Reduce the wider vectors by PCA.")] = False,
    swapped: Annotated[bool, typer.Option("--swapped", help="The dictionary has the target language first.")] = False,
    device: Annotated[str, typer.Option(help="Of --unsupervised: cpu, cuda, or auto.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of the held-out words, and of --unsupervised.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")] = False,
) -> None:
    """Rotate the word vectors of one language onto another's and tell how good that is.

    By orthogonal Procrustes over a dictionary, or, with --unsupervised, from the shapes of the two spaces and
    how frequent words are, alone.
    """
    from relexify.evidence.alignment import align as fit
    from relexify.evidence.lexicon import BilingualLexicon
    from relexify.evidence.vectors.formats.loading import load_vectors
    from relexify.methods.inputs import choose_lexicon
    from relexify.storage.files import check_inputs, check_output

    check_inputs(output, source, target, dictionary)
    check_output(output, overwrite=overwrite, file=True)
    old, new = load_vectors(source), load_vectors(target)
    if old.width != new.width and not reduce:
        raise InputError(
            f"{source} is {old.width} wide and {target} {new.width}: pass --reduce to narrow the wider vectors"
        )
    given = BilingualLexicon.load(dictionary, swapped=swapped) if dictionary else None
    with bars():
        if unsupervised:
            from relexify.evidence.alignment.unsupervised import AdversarialTraining, align_unsupervised

            rotation = align_unsupervised(
                *(old, new),
                options=AdversarialTraining(restarts=games),
                lexicon=given,
                direction=direction,
                reduce=reduce,
                seed=seed,
                device=chosen_device(device),
            )
        else:
            lexicon = choose_lexicon(given, old, new)
            rotation = fit(old, new, lexicon, direction=direction, reduce=reduce, seed=seed)
    rotation.save(output)
    print_alignment(rotation)
    results.print(f"The rotation is in [bold]{escape(str(output))}[/]", soft_wrap=True)
