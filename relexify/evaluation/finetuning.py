"""Fine-tune an encoder on a task, as often as there are seeds, and measure it.

Pairs of texts are classified, or given a number; words are tagged. A model with a new language is worth what it can
learn to do with it, and one run of a small task says little: hence several seeds, a mean and a deviation. Finished
seeds lie as json in a folder, an unfinished one leaves checkpoints there, and the same call goes on from both.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from relexify.artifacts import sha256_of, write_file
from relexify.errors import InputError, OutputError, TrainingError, VocabularyError
from relexify.evaluation.columns import TaggedSentence
from relexify.evaluation.metrics import (
    Confusion,
    LabelRow,
    accuracy,
    accuracy_and_f1,
    confusion,
    correlations,
    entity_scores,
    entity_table,
    label_table,
    matthews,
)
from relexify.evaluation.pairs import Example
from relexify.evaluation.through import Lexicon, load_lexicon
from relexify.evaluation.word_pieces import WordPieces, cut_sentences, labels_of, tags_of
from relexify.grafting import load_tokenizer
from relexify.grafting.hub import check_name, must_be_local
from relexify.progress import Progress, silent
from relexify.scoring import IGNORED, Score, check_fit, usable_length
from relexify.training.checkpoints import (
    claim_folder,
    drop_checkpoint,
    find_checkpoint,
    seal,
    sealed_checkpoints,
    sweep,
)
from relexify.training.randomness import own_randomness

__all__ = ["TASKS", "FineTuning", "SeedResult", "Task", "TaskResult", "fine_tune"]

Data = Sequence[Example] | Sequence[TaggedSentence]
DEV = "eval_score"
PRECISIONS = ("auto", "float32", "bfloat16")
_OUTSIDE = "O"
_MODEL_FILES = (".json", ".safetensors", ".bin", ".txt", ".model")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """A kind of task.

    Attributes:
        kind: What is predicted: a class or a number of a text or a pair, or tags of words.
        metric: What is counted; the first of several scores is the one that the best epoch is chosen by.
        epochs: Passes over the training data, if not said otherwise.
        batch: Examples a step, if not said otherwise.
    """

    kind: Literal["class", "number", "tags"]
    metric: Literal["accuracy", "matthews", "accuracy and F1", "correlations", "entities"]
    epochs: int
    batch: int


TASKS: Mapping[str, Task] = {
    "nli": Task("class", "accuracy", 2, 128),
    "ner": Task("tags", "entities", 10, 32),
    "pos": Task("tags", "accuracy", 10, 32),
    "cola": Task("class", "matthews", 3, 32),
    "sst-2": Task("class", "accuracy", 3, 32),
    "mrpc": Task("class", "accuracy and F1", 3, 32),
    "rte": Task("class", "accuracy", 3, 32),
    "sts-b": Task("number", "correlations", 3, 32),
    "classification": Task("class", "accuracy", 3, 32),
}
"""What `FineTuning.task` may be."""


@dataclass(frozen=True)
class FineTuning:
    """How to fine-tune; the defaults are those of the WECHSEL paper (Table 5).

    Attributes:
        task: One of `TASKS`.
        epochs: Passes over the training data; the task's own number if not given.
        batch: Examples a step; the task's own number if not given.
        learning_rate: The peak; it falls to zero in a straight line.
        length: Tokens a sequence; longer ones are cut.
        warmup: Share of the steps with a rising rate.
        seeds: One run for each.
        weight_decay: Of all parameters but biases and norms.
        beta1: Of Adam.
        beta2: Of Adam.
        epsilon: Of Adam.
        clip: The largest norm of a gradient.
        micro_batch: Examples that are taken at once; gradients are accumulated over the rest of a batch.
        precision: `float32`, `bfloat16` (mixed), or `auto`: bfloat16 where a GPU has it.
    """

    task: str
    epochs: int | None = None
    batch: int | None = None
    learning_rate: float = 2e-5
    length: int = 128
    warmup: float = 0.1
    seeds: tuple[int, ...] = (0, 1, 2)
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = 1.0
    micro_batch: int | None = None
    precision: str = "auto"

    @property
    def rounds(self) -> int:
        """Passes over the training data."""
        return TASKS[self.task].epochs if self.epochs is None else self.epochs

    @property
    def batch_size(self) -> int:
        """Examples a step."""
        return TASKS[self.task].batch if self.batch is None else self.batch


@dataclass(frozen=True)
class SeedResult:
    """What one run came to.

    Attributes:
        seed: Of the new layers, of the order of the data and of dropout.
        scores: On the test data, the most telling one first.
        dev: On the development data, in the epoch that was kept; None without such data.
        epoch: The epoch that was kept, from 1.
        table: How well each label was found; empty where numbers are predicted.
        confusion: What was taken for what; None where numbers are predicted.
    """

    seed: int
    scores: tuple[Score, ...]
    dev: Score | None
    epoch: int
    table: tuple[LabelRow, ...]
    confusion: Confusion | None


@dataclass(frozen=True)
class TaskResult:
    """What a model is worth on a task.

    Attributes:
        scores: Means over the seeds, the most telling one first.
        deviation: The sample standard deviation of each; None for a single seed.
        per_seed: Each run.
        table: How well each label was found, means over the seeds; empty where numbers are predicted.
        confusion: What was taken for what, summed over the seeds; None where numbers are predicted.
    """

    scores: tuple[Score, ...]
    deviation: tuple[float, ...] | None
    per_seed: tuple[SeedResult, ...]
    table: tuple[LabelRow, ...]
    confusion: Confusion | None


@dataclass(frozen=True)
class _Problem:
    """What is to be learnt: the labels by number, and the one for words that no piece speaks for."""

    name: str
    task: Task
    labels: tuple[str, ...]
    default: str


@dataclass(frozen=True)
class _Inputs:
    """Examples as a model reads them; `pieces` for words alone."""

    rows: list[dict[str, Any]]
    gold: list[Any]
    pieces: list[WordPieces]


def fine_tune(
    model: str | Path,
    training: Data,
    test: Data,
    options: FineTuning,
    *,
    folder: str | Path,
    dev: Data | None = None,
    through: str | Path | None = None,
    progress: Progress = silent,
) -> TaskResult:
    """Fine-tune an encoder once for each seed, and measure it on test data.

    Args:
        model: A folder or Hub name of an encoder, with its tokenizer.
        training: To learn from; its labels are the ones to choose among.
        test: To measure on.
        options: How.
        folder: For finished seeds and for checkpoints; the same call goes on from what lies there.
        dev: To choose the best epoch by; the last one is kept where this is not given.
        through: A model of another language that shares the encoder; the test data is read with its tokenizer and its
            embeddings: zero-shot transfer.
        progress: Told about steps.

    Raises:
        InputError: Something about model, data or options does not fit, or the folder is another run's.
        VocabularyError: The tokenizer is not the model's, or lacks a token.
        TrainingError: The model diverged, or the memory does not suffice.
        OutputError: A checkpoint cannot be written.
        MissingExtra: Names are to be scored, and the package seqeval is not installed.
    """
    folder = Path(folder)
    _check_options(options)
    problem = _problem(options.task, training, test, dev)
    config = _encoder_config(model)
    claim_folder(folder, _run_of(model, options, training, test, dev, through))
    finished = {seed: _kept(folder, seed) for seed in options.seeds}
    if any(result is None for result in finished.values()):
        learner = _Learner.of(model, config, problem, options, training, test, dev, through)
        for seed in options.seeds:
            if finished[seed] is None:
                finished[seed] = learner.run(seed, folder, progress)
                _keep(folder, finished[seed])
    return _summary([result for result in finished.values() if result is not None])


@dataclass(frozen=True)
class _Learner:
    """Everything that the runs of all seeds have in common."""

    model: str | Path
    problem: _Problem
    options: FineTuning
    padding: int
    training: _Inputs
    test: _Inputs
    dev: _Inputs | None
    lexicon: Lexicon | None

    @classmethod
    def of(
        cls,
        model: str | Path,
        config: Any,
        problem: _Problem,
        options: FineTuning,
        training: Data,
        test: Data,
        dev: Data | None,
        through: str | Path | None,
    ) -> _Learner:
        tokenizer = load_tokenizer(model)
        if tokenizer.pad_token_id is None:
            raise VocabularyError(f"the tokenizer of {model} has no token to pad with: set its pad_token")
        with torch.device("meta"):
            hollow = AutoModel.from_config(config)
        check_fit(hollow, tokenizer)
        length = min(options.length, usable_length(hollow) or options.length)

        lexicon = None if through is None else load_lexicon(through)

        def encode(data: Data, reader: Any = tokenizer) -> _Inputs:
            return _encode(problem, reader, data, length, kinds=int(getattr(config, "type_vocab_size", 0) or 0))

        learnt = encode(training)
        if problem.task.kind == "tags":  # nothing can be learnt from a sentence whose words have no pieces
            rows = [row for row in learnt.rows if any(label != IGNORED for label in row["labels"])]
            learnt = _Inputs(rows, [], [])
        if not learnt.rows:
            raise InputError("the tokenizer finds no tokens in the training data: give text in a script that it knows")
        padding = int(tokenizer.pad_token_id)
        tested = encode(test) if lexicon is None else encode(test, lexicon.tokenizer)
        return cls(model, problem, options, padding, learnt, tested, None if dev is None else encode(dev), lexicon)

    def run(self, seed: int, folder: Path, progress: Progress) -> SeedResult:
        """Train with one seed, or go on with it, and measure."""
        work = folder / f"seed-{seed}"
        sweep(work)
        try:
            checkpoint = find_checkpoint(work)
        except InputError as error:
            logger.warning("%s; seed %d starts anew", error, seed)
            shutil.rmtree(work, ignore_errors=True)
            checkpoint = None
        steps = math.ceil(len(self.training.rows) / self.options.batch_size) * self.options.rounds
        title = f"fine-tuning on {self.problem.name}, seed {seed}"
        with own_randomness(), progress(title, steps) as advance:
            set_seed(seed)
            learner = _build(self.model, self.problem)
            trainer = _TaskTrainer(
                learner,
                _arguments(self.options, work, seed, steps, choose=self.dev is not None),
                self.training.rows,
                self.collate,
                None if self.dev is None else lambda: self.measure(learner, self.dev).scores[0].value,
                advance,
            )
            try:
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
                measured = self.tested(learner)
                dev = None if self.dev is None else self.measure(learner, self.dev).scores[0]
            except torch.OutOfMemoryError as error:
                size = self.options.micro_batch or self.options.batch_size
                raise TrainingError(
                    f"the GPU's memory does not suffice for {size} sequences of {self.options.length} tokens at once: "
                    f"take fewer of them (micro_batch = {max(1, size // 2)}), or shorter ones (length)"
                ) from error
        kept = int(trainer.state.best_global_step or steps) if self.dev is not None else steps
        epoch = kept // (steps // self.options.rounds)
        return SeedResult(seed, measured.scores, dev, epoch, measured.table, measured.confusion)

    def tested(self, learner: Any) -> _Measured:
        """What a model scores on the test data, through the lexicon of another language where that is asked for."""
        if self.lexicon is None:
            return self.measure(learner, self.test)
        reader = replace(self, padding=int(self.lexicon.tokenizer.pad_token_id))
        return reader.measure(self.lexicon.put_into(learner), self.test)

    def collate(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Rows of one batch, padded to the longest."""
        multiple = 8 if torch.cuda.is_available() else 1
        width = math.ceil(max(len(row["input_ids"]) for row in rows) / multiple) * multiple
        fill = {"input_ids": self.padding, "attention_mask": 0, "token_type_ids": 0, "labels": IGNORED}

        def stacked(name: str) -> torch.Tensor:
            values = [row[name] for row in rows]
            if isinstance(values[0], list):
                values = [value + [fill[name]] * (width - len(value)) for value in values]
            return torch.tensor(values)

        return {name: stacked(name) for name in rows[0]}

    def measure(self, learner: Any, data: _Inputs | None) -> _Measured:
        """What a model scores; all words count, whatever the model saw of them."""
        assert data is not None
        kind, labels = self.problem.task.kind, self.problem.labels
        predicted = list(self._predict(learner, data.rows))
        if kind == "number":
            return _measured(self.problem, data.gold, [float(each[0]) for each in predicted])
        if kind == "class":
            return _measured(self.problem, data.gold, [labels[int(each.argmax())] for each in predicted])
        best = (each.argmax(-1) for each in predicted)
        found = [
            tags_of(pieces, places, labels, default=self.problem.default)
            for pieces, places in zip(data.pieces, best, strict=True)
        ]
        return _measured(self.problem, data.gold, found)

    def _predict(self, learner: Any, rows: Sequence[Mapping[str, Any]]) -> Iterator[np.ndarray]:
        """The logits of each example, computed in order of length, given back in order."""
        size = self.options.micro_batch or self.options.batch_size
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]["input_ids"]))
        logits: dict[int, np.ndarray] = {}
        was_training = learner.training
        learner.eval()
        with torch.inference_mode(), torch.autocast(learner.device.type, torch.bfloat16, enabled=_half(self.options)):
            for start in range(0, len(order), size):
                places = order[start : start + size]
                batch = self.collate([rows[place] for place in places])
                batch.pop("labels")
                given = learner(**{name: tensor.to(learner.device) for name, tensor in batch.items()}).logits.float()
                if not bool(given.isfinite().all()):
                    raise TrainingError(
                        "the fine-tuned model gives numbers that are none: "
                        "try a lower learning rate or a longer warm-up"
                    )
                logits.update(zip(places, given.cpu().numpy(), strict=True))
        learner.train(was_training)
        return (logits[place] for place in range(len(rows)))


@dataclass(frozen=True)
class _Measured:
    """Scores, the most telling one first, and where they come from."""

    scores: tuple[Score, ...]
    table: tuple[LabelRow, ...]
    confusion: Confusion | None


def _measured(problem: _Problem, gold: list[Any], predicted: list[Any]) -> _Measured:
    name, metric = problem.name, problem.task.metric
    if metric == "correlations":
        return _Measured(correlations(gold, predicted, task=name), (), None)
    if problem.task.kind == "tags":
        words, said = [tag for tags in gold for tag in tags], [tag for tags in predicted for tag in tags]
        if metric == "entities":
            scores, table = entity_scores(gold, predicted, task=name), entity_table(gold, predicted)
            return _Measured(scores, table, confusion(words, said))
        gold, predicted = words, said
    scores_of: dict[str, Callable[..., tuple[Score, ...]]] = {
        "accuracy": lambda *pair: (accuracy(*pair, task=name),),
        "matthews": lambda *pair: (matthews(*pair, task=name), accuracy(*pair, task=name)),
        "accuracy and F1": lambda *pair: accuracy_and_f1(*pair, task=name),
    }
    return _Measured(scores_of[metric](gold, predicted), label_table(gold, predicted), confusion(gold, predicted))


class _TaskTrainer(Trainer):  # type: ignore[misc]
    """transformers' Trainer with our own scores on development data, and sealed checkpoints after every epoch."""

    def __init__(
        self,
        model: Any,
        arguments: TrainingArguments,
        rows: list[dict[str, Any]],
        collate: Callable[..., dict[str, torch.Tensor]],
        dev_score: Callable[[], float] | None,
        advance: Callable[[int], None],
    ) -> None:
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=rows if dev_score else None,  # asked for, never read: see `evaluate`
            data_collator=collate,
            callbacks=[_Steps(advance)],
        )
        self.remove_callback(PrinterCallback)
        self.dev_score = dev_score

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Measure on development data."""
        assert self.dev_score is not None
        metrics = {DEV: self.dev_score()}
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write, then seal; drop older ones only after that."""
        folder = Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
            (checkpoint / "training_args.bin").unlink(missing_ok=True)  # a pickle, and of no use here
            seal(checkpoint)
        except (OSError, SafetensorError, RuntimeError, OutputError) as error:
            shutil.rmtree(checkpoint, ignore_errors=True)
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise OutputError(f"{checkpoint} could not be written ({reason}): make room, and start again") from error
        best = f"checkpoint-{self.state.best_global_step}"
        for old in sealed_checkpoints(folder)[:-1]:
            if old.name != best:
                drop_checkpoint(old)


class _Steps(TrainerCallback):  # type: ignore[misc]
    """Tells of every step, and finds the best checkpoint again where the folder was moved."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self.advance, self.done = advance, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        if best.exists():
            state.best_model_checkpoint = str(best)
        self._tell(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self._tell(state.global_step)

    def _tell(self, step: int) -> None:
        self.advance(step - self.done)
        self.done = step


def _arguments(options: FineTuning, folder: Path, seed: int, steps: int, *, choose: bool) -> TrainingArguments:
    """What the Trainer is told."""
    on_gpu = torch.cuda.is_available()
    size = options.micro_batch or options.batch_size
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=options.rounds,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=options.batch_size // size,
        learning_rate=options.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=round(options.warmup * steps),
        weight_decay=options.weight_decay,
        adam_beta1=options.beta1,
        adam_beta2=options.beta2,
        adam_epsilon=options.epsilon,
        max_grad_norm=options.clip,
        optim="adamw_torch_fused" if on_gpu else "adamw_torch",
        bf16=_half(options),
        use_cpu=not on_gpu,
        eval_strategy="epoch" if choose else "no",
        save_strategy="epoch",
        logging_strategy="no",
        load_best_model_at_end=choose,
        metric_for_best_model=DEV,
        greater_is_better=True,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        dataloader_pin_memory=on_gpu,
        seed=seed,
        data_seed=seed,
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # or every GPU takes a batch of its own
    return arguments


def _half(options: FineTuning) -> bool:
    if options.precision == "auto":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return options.precision == "bfloat16"


def _encode(problem: _Problem, tokenizer: Any, data: Data, length: int, *, kinds: int) -> _Inputs:
    """Examples as a model reads them."""
    numbers = {label: number for number, label in enumerate(problem.labels)}
    if problem.task.kind == "tags":
        sentences = [sentence for sentence in data if isinstance(sentence, TaggedSentence)]
        pieces = cut_sentences(tokenizer, [sentence.words for sentence in sentences], length=length)
        tagged: list[dict[str, Any]] = [
            {
                "input_ids": list(cut.ids),
                "attention_mask": [1] * len(cut.ids),
                "labels": labels_of(cut, [numbers.get(tag, IGNORED) for tag in sentence.tags]),
            }
            for cut, sentence in zip(pieces, sentences, strict=True)
        ]
        return _Inputs(tagged, [list(sentence.tags) for sentence in sentences], pieces)
    examples = [example for example in data if isinstance(example, Example)]
    seconds = [example.second for example in examples]
    encoded = tokenizer(
        [example.first for example in examples],
        None if seconds[0] is None else seconds,
        truncation="longest_first",
        max_length=length,
    )
    names = ["input_ids", "attention_mask"]
    if "token_type_ids" in encoded and kinds > 1:  # tokenizers of RoBERTa's kind may give them all the same
        names.append("token_type_ids")
    gold = [example.label for example in examples]
    labels = gold if problem.task.kind == "number" else [numbers[str(label)] for label in gold]
    rows = [{name: list(encoded[name][place]) for name in names} for place in range(len(labels))]
    return _Inputs([{**row, "labels": label} for row, label in zip(rows, labels, strict=True)], gold, [])


def _problem(name: str, training: Data, test: Data, dev: Data | None) -> _Problem:
    """What is to be learnt, told from the training data; the other data must fit."""
    task = TASKS[name]
    sets = {"training": training, "test": test, **({} if dev is None else {"development": dev})}
    wanted: type = TaggedSentence if task.kind == "tags" else Example
    for called, data in sets.items():
        if not data:
            raise InputError(f"there is no {called} data: give at least one example")
        if foreign := next((each for each in data if not isinstance(each, wanted)), None):
            raise InputError(
                f"the {called} data holds a {type(foreign).__name__}, the task {name} takes {wanted.__name__}s: "
                "choose another task, or another reader"
            )
    if task.kind == "number":
        _check_numbers(sets)
        _check_pairs(sets)
        return _Problem(name, task, ("number",), "")
    counts = {called: Counter(_labels(data)) for called, data in sets.items()}
    for called, found in counts.items():
        if not found:
            raise InputError(f"the {called} data holds sentences without words alone: give some with words")
    labels = tuple(sorted(counts["training"]))
    if len(labels) < 2:
        raise InputError(f"all training data has the label {labels[0]!r}, and nothing can be learnt: give other data")
    if task.kind == "class":
        _check_pairs(sets)
    for called, found in counts.items():
        _check_known(called, found, labels, refuse=task.kind == "class")
    frequent = max(labels, key=lambda label: counts["training"][label])
    return _Problem(name, task, labels, _OUTSIDE if _OUTSIDE in labels else frequent)


def _labels(data: Data) -> Iterator[str]:
    for each in data:
        if isinstance(each, TaggedSentence):
            yield from each.tags
        elif isinstance(each.label, str):
            yield each.label
        else:
            raise InputError(f"{each.label} is a number, and the task takes classes: give their names, or another task")


def _check_known(called: str, found: Counter[str], labels: tuple[str, ...], *, refuse: bool) -> None:
    unknown = sorted(found.keys() - set(labels))
    if unknown and refuse:
        raise InputError(
            f"the {called} data has the label {', '.join(map(repr, unknown[:5]))}, which the training data never has "
            f"(it has {', '.join(labels[:10])}): give data with the same labels"
        )
    if unknown:
        count = sum(found[tag] for tag in unknown)
        logger.warning(
            "%d words of the %s data have tags that the training data never has (%s): they count as wrong",
            count,
            called,
            ", ".join(unknown[:5]),
        )


def _check_numbers(sets: Mapping[str, Data]) -> None:
    for called, data in sets.items():
        for each in data:
            if isinstance(each, Example) and not (isinstance(each.label, int | float) and math.isfinite(each.label)):
                raise InputError(f"the {called} data has the label {each.label!r}, the task takes numbers: give those")


def _check_pairs(sets: Mapping[str, Data]) -> None:
    paired = {each.second is not None for data in sets.values() for each in data if isinstance(each, Example)}
    if len(paired) > 1:
        raise InputError("some examples are pairs of texts and some are single ones: give one kind of them")


def _check_options(options: FineTuning) -> None:
    if options.task not in TASKS:
        raise InputError(f"there is no task {options.task!r}: choose one of {', '.join(TASKS)}")
    for name in ("epochs", "batch", "micro_batch"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InputError(f"{name} = {value} is not possible: give 1 or more")
    if options.length < 8:
        raise InputError(f"length = {options.length} tokens a sequence is too short to learn from: give 8 or more")
    if not 0 < options.learning_rate < math.inf:
        raise InputError(f"learning_rate = {options.learning_rate} is not possible: give a number above 0")
    if not 0 <= options.warmup <= 1:
        raise InputError(f"warmup = {options.warmup} is not a share: give a number from 0 to 1")
    if options.precision not in PRECISIONS:
        raise InputError(f"there is no precision {options.precision!r}: choose one of {', '.join(PRECISIONS)}")
    if options.micro_batch and options.batch_size % options.micro_batch:
        raise InputError(
            f"a batch of {options.batch_size} cannot be cut into parts of {options.micro_batch}: "
            "give a micro_batch that divides it"
        )
    if not options.seeds or len(set(options.seeds)) < len(options.seeds) or min(options.seeds) < 0:
        raise InputError(f"seeds = {options.seeds} is not possible: give one or more different numbers from 0 on")


def _encoder_config(model: str | Path) -> Any:
    """The config of an encoder; anything else is refused."""
    check_name(model)
    try:
        config = AutoConfig.from_pretrained(model, local_files_only=must_be_local(str(model)))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{model} holds no model that can be loaded ({_first_line(error)}): check the name") from error
    names = [str(name) for name in getattr(config, "architectures", None) or []]
    decodes = getattr(config, "is_decoder", False) or any("CausalLM" in name or "LMHead" in name for name in names)
    if getattr(config, "is_encoder_decoder", False):
        found = "an encoder-decoder"
    elif decodes or config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        found = "a decoder"
    else:
        return config
    raise InputError(
        f"{model} is {found} ({names[0] if names else config.model_type}): "
        "an encoder is needed to fine-tune on tasks, such as BERT or RoBERTa"
    )


def _build(model: str | Path, problem: _Problem) -> Any:
    """The encoder with a new layer for the task, in float32."""
    tags, number = problem.task.kind == "tags", problem.task.kind == "number"
    loader = AutoModelForTokenClassification if tags else AutoModelForSequenceClassification
    try:
        with _hushed():
            learner, loaded = loader.from_pretrained(
                model,
                num_labels=len(problem.labels),
                id2label=dict(enumerate(problem.labels)),
                label2id={label: number for number, label in enumerate(problem.labels)},
                problem_type=None if tags else "regression" if number else "single_label_classification",
                dtype=torch.float32,
                output_loading_info=True,
                local_files_only=must_be_local(str(model)),
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{model} cannot be loaded ({_first_line(error)}): check that it is complete") from error
    inner = f"{learner.base_model_prefix}."
    missing = sorted(name for name in loaded["missing_keys"] if name.startswith(inner) and "pooler" not in name)
    if missing:
        raise InputError(
            f"{model} lacks {len(missing)} parameters of its encoder ({missing[0]}, …): "
            "check that config.json and the weights belong together"
        )
    return learner


@contextmanager
def _hushed() -> Iterator[None]:
    """Without transformers' report that the layers for the task are new."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)


def _run_of(
    model: str | Path,
    options: FineTuning,
    training: Data,
    test: Data,
    dev: Data | None,
    through: str | Path | None,
) -> dict[str, Any]:
    """All that the result of a seed depends on."""
    how = asdict(options)
    del how["seeds"]
    how.update(epochs=options.rounds, batch=options.batch_size)
    sets = {"training data": training, "test data": test, "development data": dev}
    read = {} if through is None else {"through": _identity(through)}
    return {"model": _identity(model), **read, **how, **{name: data and _digest(data) for name, data in sets.items()}}


def _identity(model: str | Path) -> str:
    """The content of a folder, or the name on the Hub."""
    folder = Path(model)
    if not folder.is_dir():
        return str(model)
    files = sorted(path for path in folder.iterdir() if path.suffix in _MODEL_FILES and path.is_file())
    return _sha256(f"{path.name} {sha256_of(path)}" for path in files)


def _digest(data: Data) -> str:
    return _sha256(json.dumps(asdict(each)) for each in data)


def _sha256(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\n")
    return digest.hexdigest()


def _keep(folder: Path, result: SeedResult | None) -> None:
    """Write a finished seed, and drop its checkpoints."""
    assert result is not None
    write_file(folder / f"seed-{result.seed}.json", json.dumps(asdict(result), ensure_ascii=False, indent=1) + "\n")
    shutil.rmtree(folder / f"seed-{result.seed}", ignore_errors=True)


def _kept(folder: Path, seed: int) -> SeedResult | None:
    """A seed that was finished earlier."""
    path = folder / f"seed-{seed}.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        shape = found["confusion"]
        return SeedResult(
            int(found["seed"]),
            tuple(Score(**score) for score in found["scores"]),
            Score(**found["dev"]) if found["dev"] else None,
            int(found["epoch"]),
            tuple(LabelRow(**row) for row in found["table"]),
            Confusion(tuple(shape["labels"]), tuple(map(tuple, shape["counts"]))) if shape else None,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s is damaged (%s): seed %d is trained anew", path, error, seed)
        return None


def _summary(results: Sequence[SeedResult]) -> TaskResult:
    """Means and deviations over the seeds."""
    columns = list(zip(*(result.scores for result in results), strict=True))
    scores = tuple(
        Score(same[0].task, same[0].metric, _mean(same), same[0].higher_is_better, same[0].examples) for same in columns
    )
    deviation = tuple(statistics.stdev(score.value for score in same) for same in columns) if len(results) > 1 else None
    return TaskResult(scores, deviation, tuple(results), _mean_table(results), _summed(results))


def _mean(scores: Sequence[Score]) -> float:
    return statistics.fmean(score.value for score in scores)


def _mean_table(results: Sequence[SeedResult]) -> tuple[LabelRow, ...]:
    """A label that a seed neither saw nor said counts nothing there."""
    rows: dict[str, list[LabelRow]] = {}
    for result in results:
        for row in result.table:
            rows.setdefault(row.label, []).append(row)
    return tuple(
        LabelRow(
            label,
            sum(row.precision for row in same) / len(results),
            sum(row.recall for row in same) / len(results),
            sum(row.f1 for row in same) / len(results),
            same[0].examples,
        )
        for label, same in sorted(rows.items())
    )


def _summed(results: Sequence[SeedResult]) -> Confusion | None:
    found = [result.confusion for result in results if result.confusion is not None]
    if not found:
        return None
    counts: Counter[tuple[str, str]] = Counter()
    for each in found:
        for gold, row in zip(each.labels, each.counts, strict=True):
            counts.update({(gold, label): count for label, count in zip(each.labels, row, strict=True)})
    labels = tuple(sorted({label for each in found for label in each.labels}))
    return Confusion(labels, tuple(tuple(counts[one, other] for other in labels) for one in labels))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
