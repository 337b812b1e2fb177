"""Prune a model: remove the tokens that a text never uses, with their rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relexify.grafting.graft import Graft, graft
from relexify.grafting.vocabulary import load_own_tokenizer
from relexify.mixture import Mixture, Origin, mixture_of_rows
from relexify.pretrained.architecture import check_fit
from relexify.pretrained.files.weights import identify_weights
from relexify.pretrained.languages import check_one_language
from relexify.pretrained.loading import load_model
from relexify.storage.documents import write_documents
from relexify.storage.files import Provenance, check_output, write_folder
from relexify.storage.fingerprint import fingerprint
from relexify.storage.notes import read_notes
from relexify.text import Corpus, TextOption
from relexify.tokens import prune_tokenizer, vocabulary_of
from relexify.version import __version__

__all__ = ["PruneResult", "prune"]


@dataclass(frozen=True)
class PruneResult:
    """The result of pruning.

    Attributes:
        graft: The pruned model, its tokenizer and its mixture, which selects rows.
        removed: Number of tokens that were removed.
        parameters_before: Number of parameters of the source model.
        parameters_after: Number of parameters of the pruned model.
        output: The folder.
    """

    graft: Graft
    removed: int
    parameters_before: int
    parameters_after: int
    output: Path


def prune(model: str | Path, output: str | Path, corpus: TextOption, *, overwrite: bool = False) -> PruneResult:
    """Remove the tokens that a text never uses from a model, and write it to a folder.

    The text is encoded as before, and the logits of the remaining tokens do not change. Special and added tokens,
    single bytes, and the parts from which byte-pair encoding merges the remaining tokens are also kept.

    Args:
        model: A folder, a Hub name, or a packaged model.
        output: The folder to write.
        corpus: All text that the model is used for; anything that `Corpus.open` accepts.
        overwrite: Replace the output.

    Raises:
        InputError: The model or the text cannot be read, the model has several vocabularies, or the output would
            replace one of them.
        GraftError: The vocabulary of the model cannot be changed.
        VocabularyError: The tokenizer does not belong to the model, or the text would be encoded differently.
        OutputError: The output cannot be written.
    """
    output = Path(output)
    check_output(output, model, texts=(corpus,), overwrite=overwrite)
    check_one_language(model)
    source_provenance = read_notes(model).get("provenance")
    text = Corpus.open(corpus)
    text.ensure_text()
    tokenizer, loaded = load_own_tokenizer(model), load_model(model)
    check_fit(loaded, tokenizer)
    pruned, ids = prune_tokenizer(tokenizer, lambda: iter(text))
    source, target = vocabulary_of(tokenizer), vocabulary_of(pruned)
    origins = np.where([form.is_special for form in target.forms], Origin.SPECIAL, Origin.COPIED)
    selection: Mixture = mixture_of_rows([[int(id)] for id in ids], source, target, method="prune", origin=origins)
    result = graft(loaded, pruned, selection, copy_inner=False)
    command: dict[str, Any] = {"model": str(model), "corpus": text.name}
    weights = identify_weights(model, loaded, is_read=False)
    inputs = ({"model": weights} if weights else {}) | {"corpus": fingerprint(text)}
    provenance = Provenance(version=__version__, command=command, inputs=inputs, seed=0, source=source_provenance)
    removed = sum(map(bool, source.tokens)) - len(target)  # some ids may have no token
    with write_folder(output, overwrite=overwrite) as folder:
        result.write(folder, provenance=provenance, summary={"pruned": {"removed": removed}}, inner=model)
    write_documents(output)
    return PruneResult(
        graft=result,
        removed=removed,
        parameters_before=loaded.num_parameters(),
        parameters_after=result.model.num_parameters(),
        output=output,
    )
