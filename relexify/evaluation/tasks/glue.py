"""The eight tasks of GLUE in Table 2 of k-sub-embeddings, in the formats of GLUE and of the Hub."""

from __future__ import annotations

from functools import partial

from relexify.evaluation.data.examples import FieldNames, GlueFormat, read_glue
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
_ENTAILMENT = ("entailment", "not_entailment")
_PAIR = FieldNames("sentence1", "sentence2")
_QUESTION = FieldNames("question", "sentence")
_SINGLE = FieldNames("sentence", None)


def _add(name: str, metric: Metric, layout: GlueFormat) -> None:
    TASKS.add(
        name,
        Task(
            summary=f"{name.upper()} as GLUE or the Hub distributes it",
            read=partial(read_glue, task=name, layout=layout),
            predicts="number" if layout.labels is None else "class",
            metric=metric,
            table=None if layout.labels is None else label_table,
            training=FineTuning(),
            suite="GLUE",
        ),
    )


_add(
    "cola",
    matthews_and_accuracy,
    GlueFormat(
        _SINGLE,
        _BINARY,
        _SINGLE,
        names=("unacceptable", "acceptable"),
        header=("source", "label", "annotation", "sentence"),
    ),
)
_add("sst-2", accuracy_alone, GlueFormat(_SINGLE, _BINARY, _SINGLE, names=("negative", "positive")))
_add(
    "mrpc",
    accuracy_and_f1,
    GlueFormat(FieldNames("#1 String", "#2 String", "Quality"), _BINARY, _PAIR, names=("not_equivalent", "equivalent")),
)
_add("sts-b", correlations, GlueFormat(FieldNames("sentence1", "sentence2", "score"), None, _PAIR))
_add(
    "qqp",
    accuracy_and_f1,
    GlueFormat(
        FieldNames("question1", "question2", "is_duplicate"),
        _BINARY,
        FieldNames("question1", "question2"),
        names=("not_duplicate", "duplicate"),
        skips_incomplete=True,  # the published training file breaks a few questions over two lines
    ),
)
_add(
    "mnli",
    accuracy_alone,
    GlueFormat(
        FieldNames("sentence1", "sentence2", "gold_label"),
        ("entailment", "neutral", "contradiction"),
        FieldNames("premise", "hypothesis"),
    ),
)
_add("qnli", accuracy_alone, GlueFormat(_QUESTION, _ENTAILMENT, _QUESTION))
_add("rte", accuracy_alone, GlueFormat(_PAIR, _ENTAILMENT, _PAIR))
