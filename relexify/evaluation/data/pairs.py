"""Labelled texts and pairs of texts: NLI as tab-separated lines, GLUE as it is shipped, json records, data sets.

Every reader gives `Example`s in the order of the file and refuses a line that it does not understand, by its number.
Quotes are letters like all others: none of these formats escapes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relexify.evaluation.data.labelled_lines import GLUE_TASKS, NLI_LABELS, read_glue, read_nli
from relexify.evaluation.data.labelled_records import FieldNames, read_data_set, read_records
from relexify.evaluation.data.labelled_texts import Example
from relexify.text.decoding import COMPRESSIONS

__all__ = [
    "GLUE_TASKS",
    "NLI_LABELS",
    "Example",
    "FieldNames",
    "read_data_set",
    "read_examples",
    "read_glue",
    "read_nli",
    "read_records",
]


def read_examples(
    source: str | Path,
    *,
    fields: FieldNames | None = None,
    labels: Sequence[str] | None = None,
    numeric: bool = False,
) -> list[Example]:
    """Read whatever `source` names: `hf:…`, json records (`.jsonl`), or tab-separated lines of NLI.

    Args:
        source: A file, plain or compressed, or `hf:NAME[:CONFIG[:SPLIT]]`.
        fields: Of records; told from the first one if not given.
        labels: The only ones to be expected.
        numeric: Whether the labels of records are numbers to predict.

    Raises:
        InputError: It cannot be read, or a line is not what it should be.
        MissingExtra: A package is needed to read it.
    """
    if str(source).startswith("hf:"):
        return read_data_set(str(source), fields=fields, labels=labels, numeric=numeric)
    if _kind(Path(source)) in (".jsonl", ".ndjson", ".json"):
        return read_records(source, fields=fields, labels=labels, numeric=numeric)
    return read_nli(source, labels=NLI_LABELS if labels is None else labels)


def _kind(path: Path) -> str:
    """The ending of the name that tells the format, below that of a compression."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSIONS else path.suffix.lower()
