"""`relexify prune`: remove the tokens that a text never uses."""

from __future__ import annotations

from typing import Annotated

from relexify.cli.console import emit
from relexify.cli.options import TEXT, Model, OutputFolder, Overwrite, check_texts, option, say_loading
from relexify.cli.progress import bars
from relexify.cli.summary import print_model_folder, print_rows

__all__ = ["prune"]


def prune(
    model: Model,
    output: OutputFolder,
    corpus: Annotated[
        list[str],
        option(
            "All the text that the model is used for, in any language; formats as for relexify transfer. Repeatable.",
            TEXT,
        ),
    ],
    overwrite: Overwrite = False,
) -> None:
    """Remove the tokens that a text never uses from MODEL, with their embeddings, and write that to OUTPUT.

    The text is encoded exactly as before, and the logits of all remaining tokens are the same. Special tokens, single
    bytes, and the parts that other tokens are merged from stay.

    Example: relexify prune xlm-roberta-base xlm-roberta-swahili --corpus swahili.txt --corpus english.txt
    """
    from relexify.storage.files import check_output

    check_output(output, model, texts=(corpus,), overwrite=overwrite)
    check_texts((corpus, None))
    say_loading()
    from relexify.grafting import prune as prune_model

    with bars():
        result = prune_model(model, output, corpus, overwrite=overwrite)
    tokens = len(result.graft.mixture)
    rows = [
        ["", "before", "after", "saved"],
        _size_row("tokens", tokens + result.removed, tokens),
        _size_row("parameters", result.parameters_before, result.parameters_after),
    ]
    print_rows("Pruned vocabulary", rows)
    print_model_folder(output)
    emit(
        output=output,
        tokens=tokens,
        removed=result.removed,
        parameters_before=result.parameters_before,
        parameters_after=result.parameters_after,
    )


def _size_row(name: str, before: int, after: int) -> list[str]:
    return [name, f"{before:,}", f"{after:,}", f"{1 - after / before:.1%}"]
