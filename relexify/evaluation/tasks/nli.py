"""Natural language inference (WECHSEL, Table 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relexify.evaluation.data.examples import read_examples
from relexify.evaluation.metrics import accuracy_alone, label_table
from relexify.evaluation.options import FineTuning, Probing
from relexify.evaluation.registry import TASKS, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from relexify.evaluation.data.files import TaskData
    from relexify.scoring import Score


def _probe(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, data: TaskData, options: Probing) -> Score:
    from relexify.evaluation.probing.probes import probe_pairs

    (tested,) = data.tests.values()  # a probe is called once for each test set
    train, test = (
        [(example.first, example.second or "", str(example.label)) for example in part] for part in (data.train, tested)
    )
    return probe_pairs(model, tokenizer, train, test, batch=options.batch)


TASKS.add(
    "nli",
    Task(
        summary="natural language inference: premise, hypothesis, label; accuracy",
        read=read_examples,
        predicts="class",
        metric=accuracy_alone,
        table=label_table,
        training=FineTuning(epochs=2, batch=128),
        probe=_probe,
    ),
)
