"""`relexify align`: map the word vectors of two languages into one space."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from relexify.cli.console import emit, results
from relexify.cli.options import Device, OutputFile, Overwrite, Seed, chosen_device, option
from relexify.cli.progress import bars
from relexify.cli.summary import print_summary
from relexify.errors import InputError

__all__ = ["align"]


def align(
    source: Annotated[Path, typer.Argument(help="Word vectors of the source language.")],
    target: Annotated[Path, typer.Argument(help="Word vectors of the target language.")],
    output: OutputFile,
    dictionary: Annotated[Path | None, option("Bilingual dictionary (default: identically spelled words).")] = None,
    swapped: Annotated[bool, typer.Option("--swapped", help="The dictionary has the target language first.")] = False,
    unsupervised: Annotated[
        bool,
        typer.Option("--unsupervised", help="Align without word pairs; a dictionary is then used to measure only."),
    ] = False,
    self_learning: Annotated[
        bool,
        typer.Option("--self-learning", help="Extend a small dictionary by mutual neighbours, repeatedly."),
    ] = False,
    restarts: Annotated[
        int, typer.Option(help="With --unsupervised: adversarial runs at most, minutes each on a CPU.")
    ] = 3,
    direction: Annotated[
        Literal["source-to-target", "target-to-source"], typer.Option(help="Which language is rotated.")
    ] = "source-to-target",
    reduce: Annotated[bool, typer.Option("--reduce", help="Reduce the wider vectors by PCA.")] = False,
    device: Device = "auto",
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Rotate the word vectors of one language onto those of another, and measure how well that works.

    Uses orthogonal Procrustes on a dictionary, which --self-learning extends, or, with --unsupervised, only the two
    sets of vectors and word frequencies.

    Example: relexify align en.vec sw.vec -o en-sw.safetensors --dictionary en-sw.tsv
    """
    from relexify.evidence.alignment import align as fit
    from relexify.evidence.lexicon import BilingualLexicon
    from relexify.evidence.vectors.formats.loading import load_vectors
    from relexify.methods.parts.vectors import choose_lexicon
    from relexify.storage.files import check_output
    from relexify.systems.transfer.assessment.summary import summarise_rotation

    if unsupervised and self_learning:
        raise InputError("--self-learning starts with a dictionary and --unsupervised has none: choose one of them")
    check_output(output, source, target, dictionary, overwrite=overwrite, file=True)
    source_vectors, target_vectors = load_vectors(source), load_vectors(target)
    if source_vectors.width != target_vectors.width and not reduce:
        raise InputError(
            f"{source} has {source_vectors.width} dimensions and {target} {target_vectors.width}: "
            "pass --reduce to reduce the wider vectors"
        )
    lexicon = BilingualLexicon.load(dictionary, swapped=swapped) if dictionary else None
    with bars():
        if unsupervised:
            from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
            from relexify.evidence.alignment.unsupervised.search import align_unsupervised

            rotation = align_unsupervised(
                source_vectors,
                target_vectors,
                options=AdversarialTraining(restarts=restarts),
                lexicon=lexicon,
                direction=direction,
                reduce=reduce,
                seed=seed,
                device=chosen_device(device),
            )
        else:
            refinement = None
            if self_learning:
                from relexify.evidence.alignment.unsupervised.self_learning import self_learn

                refinement = partial(self_learn, device=chosen_device(device))
            rotation = fit(
                source_vectors,
                target_vectors,
                choose_lexicon(lexicon, source_vectors, target_vectors),
                direction=direction,
                reduce=reduce,
                refinement=refinement,
                seed=seed,
            )
    rotation.save(output)
    print_summary(summarise_rotation(rotation))
    results.print(f"The rotation is in [bold]{escape(str(output))}[/]", soft_wrap=True)
    emit(output=output, alignment=rotation.summary())
