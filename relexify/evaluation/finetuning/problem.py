"""How fine-tuning handles each kind of prediction: model class, labels, inputs, and decoding of logits.

Everything that depends on `Task.predicts` is in the table `PREDICTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedTokenizerFast,
)
from transformers.utils import ModelOutput

from relexify.errors import InputError
from relexify.evaluation.data.answers import Passage
from relexify.evaluation.data.choices import Question
from relexify.evaluation.data.columns import TaggedSentence
from relexify.evaluation.data.examples import Example
from relexify.evaluation.data.files import TaskData
from relexify.evaluation.finetuning.inputs import (
    EncodedData,
    encode_answers,
    encode_classes,
    encode_numbers,
    encode_questions,
    encode_tags,
    word_tags,
)
from relexify.evaluation.finetuning.labels import (
    Data,
    Labels,
    answer_labels,
    choice_labels,
    class_labels,
    number_labels,
    tag_labels,
)
from relexify.evaluation.finetuning.windows import find_answers
from relexify.evaluation.registry import TASKS, Task

__all__ = ["PREDICTIONS", "Prediction", "Problem", "find_labels"]


@dataclass(frozen=True)
class Prediction:
    """A kind of prediction.

    Attributes:
        item: The type of an example.
        model_class: The class of the model.
        labels: Validates the data, and returns its labels.
        encode: Encodes examples as model inputs. Takes the examples, the labels, the tokenizer of the model, the
            maximum number of tokens per sequence (longer ones are truncated), and the number of token types of the
            model.
        decode: Takes the logits of every row, and returns a prediction for every example.
        logits: Takes the output of the model, and returns its logits, [rows × labels] or [rows × pieces × labels].
        loss: The `problem_type` in the config of transformers; None if the class of the model has only one loss.
        tags_words: Whether an example has a label for each of its words.
    """

    item: type
    model_class: type
    labels: Callable[[Mapping[str, Data]], Labels]
    encode: Callable[[Sequence[Any], tuple[str, ...], PreTrainedTokenizerFast, int, int], EncodedData]
    decode: Callable[[Problem, EncodedData, Sequence[np.ndarray]], list[Any]]
    logits: Callable[[ModelOutput], torch.Tensor] = lambda output: output.logits
    loss: str | None = None
    tags_words: bool = False


@dataclass(frozen=True)
class Problem:
    """A task with its labels.

    Attributes:
        name: The name of the task.
        task: The entry of the task in the registry.
        labels: The labels in the order of the logits: a single one for a number, the positions of the answers for
            multiple choice, the two ends for an answer in a text.
        default: The tag of words that the model does not see.
    """

    name: str
    task: Task
    labels: tuple[str, ...]
    default: str

    @property
    def prediction(self) -> Prediction:
        """The kind of prediction of the task."""
        return PREDICTIONS[self.task.predicts]


def find_labels(name: str, data: TaskData) -> Problem:
    """Collect the labels of the training data, and validate that all data fits the task and the labels.

    Raises:
        InputError: A part of the data is empty or of another kind, or its labels are invalid.
    """
    task = TASKS[name]
    prediction = PREDICTIONS[task.predicts]
    parts: dict[str, Data] = {"training": data.train}
    parts |= {f"test ({test})" if test else "test": examples for test, examples in data.tests.items()}
    if data.dev is not None:
        parts["development"] = data.dev
    _check_types(name, prediction.item, parts)
    labels, default = prediction.labels(parts)
    return Problem(name, task, labels, default)


def _check_types(name: str, expected: type, parts: Mapping[str, Data]) -> None:
    """Validate that every part of the data has examples, and that all are of the type that the task takes."""
    for part, data in parts.items():
        if not data:
            raise InputError(f"there is no {part} data: give at least one example")
        if other := next((each for each in data if not isinstance(each, expected)), None):
            raise InputError(
                f"the {part} data holds a {type(other).__name__}, but the task {name} takes {expected.__name__}s: "
                "choose another task, or another reader"
            )


def _decode_classes(problem: Problem, data: EncodedData, logits: Sequence[np.ndarray]) -> list[str]:
    return [problem.labels[int(each.argmax())] for each in logits]


def _decode_numbers(problem: Problem, data: EncodedData, logits: Sequence[np.ndarray]) -> list[float]:
    return [float(each[0]) for each in logits]


def _decode_choices(problem: Problem, data: EncodedData, logits: Sequence[np.ndarray]) -> list[str]:
    # Only the first `number` answers belong to the question; the others are padding.
    pairs = zip(logits, data.answers, strict=True)
    return [problem.labels[int(each[:number].argmax())] for each, number in pairs]


def _decode_answers(problem: Problem, data: EncodedData, logits: Sequence[np.ndarray]) -> list[str]:
    return find_answers(data.windows, logits)


def _decode_tags(problem: Problem, data: EncodedData, logits: Sequence[np.ndarray]) -> list[list[str]]:
    return [
        word_tags(pieces, each.argmax(-1), problem.labels, default=problem.default)
        for pieces, each in zip(data.pieces, logits, strict=True)
    ]


PREDICTIONS: Mapping[str, Prediction] = {
    "class": Prediction(
        item=Example,
        model_class=AutoModelForSequenceClassification,
        labels=class_labels,
        encode=encode_classes,
        decode=_decode_classes,
        loss="single_label_classification",
    ),
    "number": Prediction(
        item=Example,
        model_class=AutoModelForSequenceClassification,
        labels=number_labels,
        encode=encode_numbers,
        decode=_decode_numbers,
        loss="regression",
    ),
    "choice": Prediction(
        item=Question,
        model_class=AutoModelForMultipleChoice,
        labels=choice_labels,
        encode=encode_questions,
        decode=_decode_choices,
    ),
    "answer": Prediction(
        item=Passage,
        model_class=AutoModelForQuestionAnswering,
        labels=answer_labels,
        encode=encode_answers,
        decode=_decode_answers,
        logits=lambda output: torch.stack((output.start_logits, output.end_logits), -1),
    ),
    "tags": Prediction(
        item=TaggedSentence,
        model_class=AutoModelForTokenClassification,
        labels=tag_labels,
        encode=encode_tags,
        decode=_decode_tags,
        tags_words=True,
    ),
}
"""The kinds of prediction of fine-tuning, by `Task.predicts`."""
