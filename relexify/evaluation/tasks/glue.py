"""Tasks of GLUE, read from the files that GLUE distributes (k-sub-embeddings, Table 2)."""

from __future__ import annotations

from functools import partial

from relexify.evaluation.data.examples import GlueFile, read_glue
from relexify.evaluation.metrics import (
    accuracy_alone,
    accuracy_and_f1,
    correlations,
    label_table,
    matthews_and_accuracy,
)
from relexify.evaluation.options import FineTuning
from relexify.evaluation.registry import TASKS, Metric, Task

_BINARY = ("0", "1")
_STS_HEADER = (
    "index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score",
)  # fmt: skip


def _add(name: str, metric: Metric, layout: GlueFile) -> None:
    TASKS.add(
        name,
        Task(
            summary=f"{name.upper()} as GLUE distributes it",
            read=partial(read_glue, task=name, layout=layout),
            predicts="number" if layout.labels is None else "class",
            metric=metric,
            table=None if layout.labels is None else label_table,
            training=FineTuning(),
        ),
    )


_add("cola", matthews_and_accuracy, GlueFile(None, 4, first=3, second=None, label=1, labels=_BINARY))
_add("sst-2", accuracy_alone, GlueFile(("sentence", "label"), 2, first=0, second=None, label=1, labels=_BINARY))
_add(
    "mrpc",
    accuracy_and_f1,
    GlueFile(("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"), 5, first=3, second=4, label=0, labels=_BINARY),
)
_add(
    "rte",
    accuracy_alone,
    GlueFile(
        ("index", "sentence1", "sentence2", "label"),
        4,
        first=1,
        second=2,
        label=3,
        labels=("entailment", "not_entailment"),
    ),
)
_add("sts-b", correlations, GlueFile(_STS_HEADER, 10, first=7, second=8, label=9, labels=None))
