"""Fine-tuning learns, resumes, and rejects models, data and options that do not fit."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer

from relexify.errors import InputError, OutputError, TrainingError, VocabularyError
from relexify.evaluation import training as epoch_training
from relexify.evaluation.data.answers import Passage
from relexify.evaluation.data.choices import Question
from relexify.evaluation.data.columns import TaggedSentence
from relexify.evaluation.data.examples import Example
from relexify.evaluation.data.files import TaskData
from relexify.evaluation.finetuning import run as finetuning
from relexify.evaluation.finetuning.run import FineTuner, fine_tune
from relexify.evaluation.metrics import LabelRow
from relexify.evaluation.options import FineTuning, check_seeds
from relexify.evaluation.registry import TASKS
from relexify.evaluation.results import TaskResult
from relexify.progress import report_to
from relexify.storage.runs import checkpoints
from tests import pico

QUICK = {"learning_rate": 1e-2, "batch": 32, "length": 32}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads cost more than they give where everything is tiny."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            for part in pico.pair(family):
                part.save_pretrained(made[family])
        return made[family]

    return folder


def how(task: str, seeds: tuple[int, ...] = (0,), **changes: Any) -> tuple[str, FineTuning, tuple[int, ...]]:
    """Return a task, its options with some changes, and seeds."""
    return task, replace(TASKS[task].training, **changes), seeds


def tune(model: Any, train: Any, test: Any, chosen: Any, *, folder: Path, dev: Any = None) -> TaskResult:
    task, options, seeds = chosen
    return fine_tune(model, task, TaskData(train, test, dev), options, seeds=seeds, folder=folder)


def sentence(draw: random.Random, *more: str) -> str:
    words = draw.choices(["the", "old", "river", "reads", "slowly"], k=4) + list(more)
    return " ".join(draw.sample(words, len(words)))


def pairs(count: int, seed: int = 0, labels: tuple[str, ...] = ("yes", "no")) -> list[Example]:
    """The colour of the second text determines the label."""
    draw = random.Random(seed)
    colours = dict(zip(labels, ("green", "quiet"), strict=True))
    drawn = draw.choices(labels, k=count)
    return [Example(sentence(draw), sentence(draw, colours[label]), label) for label in drawn]


def single(examples: list[Example]) -> list[Example]:
    return [replace(example, first=str(example.second), second=None) for example in examples]


def tagged(count: int, seed: int = 0) -> list[TaggedSentence]:
    """`teacher student` is a person, `house` a place."""
    draw = random.Random(seed)
    sentences = []
    for _ in range(count):
        parts = [(word, "O") for word in draw.choices(["the", "reads", "slowly", "water"], k=4)]
        parts.insert(draw.randint(0, 4), ("house", "B-LOC"))
        index = draw.randint(0, 5)
        parts[index:index] = [("teacher", "B-PER"), ("student", "I-PER")]
        words, tags = zip(*parts, strict=True)
        sentences.append(TaggedSentence(words, tags))
    return sentences


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_pairs_are_learned(folder_of, tmp_path, family):
    options = how("nli", epochs=4, **QUICK)
    result = tune(folder_of(family), pairs(256), pairs(80, seed=1), options, folder=tmp_path)
    (score,) = result.mean
    assert (score.task, score.metric, score.examples, score.higher_is_better) == ("nli", "accuracy", 80, True)
    assert score.value > 0.9
    assert result.deviation is None
    assert [row.label for row in result.table] == ["no", "yes"]
    assert sum(map(sum, result.confusion.counts)) == 80
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "seed-0.json"], "something was left behind"


def questions(count: int, seed: int = 0) -> list[Question]:
    """The answer with the colour is right; there are two or three of them."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        options = [sentence(draw) for _ in range(draw.choice([2, 3]))]
        right = draw.randrange(len(options))
        options[right] = sentence(draw, "green")
        made.append(Question(sentence(draw), "which", tuple(options), right))
    return made


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_choices_are_learned_and_may_be_of_different_numbers(folder_of, tmp_path, family):
    options = how("choice", epochs=4, **QUICK)
    result = tune(folder_of(family), questions(192), questions(80, seed=1), options, folder=tmp_path)
    (score,) = result.mean
    assert (score.task, score.metric, score.examples) == ("choice", "accuracy", 80)
    assert score.value > 0.9


def test_an_answer_that_a_question_does_not_have_is_never_predicted(folder_of, tmp_path):
    draw = random.Random(0)
    empty_is_right = [Question(sentence(draw), "which", (sentence(draw), sentence(draw), ""), 2) for _ in range(96)]
    two_answers = [replace(each, options=each.options[:2], label=draw.randrange(2)) for each in empty_is_right[:40]]
    options = how("choice", epochs=3, **QUICK)
    taught = tune(folder_of("bert"), empty_is_right, empty_is_right[:40], options, folder=tmp_path / "taught")
    assert taught.mean[0].value > 0.9
    result = tune(folder_of("bert"), empty_is_right, two_answers, options, folder=tmp_path / "two")
    assert 0.2 < result.mean[0].value < 0.8


def passages(count: int, seed: int = 0) -> list[Passage]:
    """A colour in a text of several windows is the answer."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        before, after = (" ".join(sentence(draw) for _ in range(draw.randrange(4))) for _ in range(2))
        text = f"{before} green {after}".strip()
        made.append(Passage(text, "which", ("green",), text.index("green")))
    return made


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_answers_are_found_in_texts_of_several_windows(folder_of, tmp_path, family):
    options = how("answer", epochs=4, **QUICK)
    result = tune(folder_of(family), passages(128), passages(40, seed=1), options, folder=tmp_path)
    exact, overlap = result.mean
    assert (exact.task, exact.metric, exact.examples) == ("answer", "exact matches", 40)
    assert exact.value > 0.9
    assert overlap.value >= exact.value


def test_questions_are_not_examples_of_other_tasks(folder_of, tmp_path):
    with pytest.raises(InputError, match="the training data holds a Question, but the task nli takes Examples"):
        tune(folder_of("bert"), questions(4), questions(4), how("nli", **QUICK), folder=tmp_path)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_entities_are_learned(folder_of, tmp_path, family):
    options = how("ner", epochs=4, **QUICK)
    result = tune(folder_of(family), tagged(160), tagged(50, seed=1), options, folder=tmp_path)
    assert [score.metric for score in result.mean] == ["entity F1", "entity precision", "entity recall"]
    assert result.mean[0].value > 0.9
    assert result.mean[0].examples == 100
    assert [(row.label, row.examples) for row in result.table] == [("LOC", 50), ("PER", 50)]
    assert result.confusion.labels == ("B-LOC", "B-PER", "I-PER", "O")


def test_a_model_that_finds_no_entity_is_reported_as_not_having_learned_the_task(folder_of, tmp_path):
    mostly_outside = [replace(each, tags=("O",) * len(each.words)) for each in tagged(160)] + tagged(8, seed=2)
    result = tune(folder_of("bert"), mostly_outside, tagged(20, seed=1), how("ner", epochs=2, **QUICK), folder=tmp_path)
    assert (result.mean[0].value, result.mean[0].measured_on) == (0, "40 entities")
    assert result.per_seed[0].only_label == "O"
    assert "predicts 'O' everywhere" in result.hint
    assert "more epochs" in result.hint
    learned = tune(folder_of("bert"), tagged(160), tagged(9, 1), how("ner", epochs=4, **QUICK), folder=tmp_path / "two")
    assert learned.hint == ""


def test_tags_are_learned_and_every_word_counts(folder_of, tmp_path):
    test = [*tagged(30, seed=1), TaggedSentence((), ()), TaggedSentence(("\u200b",) * 5, ("O",) * 5)]
    test.append(TaggedSentence(("house",) * 100, ("B-LOC",) * 100))
    training = [TaggedSentence((), ()), TaggedSentence(("\u200b",), ("O",)), *tagged(160)]
    result = tune(
        folder_of("bert"), training, test, how("pos", epochs=3, **QUICK), folder=tmp_path, dev=tagged(20, seed=2)
    )
    assert result.mean[0].examples == 30 * 7 + 5 + 100
    rows = {row.label: row for row in result.table}
    # Of the long sentence 30 pieces fit beside two special tokens; the rest is taken for O.
    assert rows["B-LOC"] == LabelRow("B-LOC", 1.0, pytest.approx(60 / 130), pytest.approx(120 / 190), 130)
    assert rows["O"].recall == 1


def test_the_longest_sequence_is_the_models(folder_of, tmp_path):
    long = [TaggedSentence(("house",) * 100, ("B-LOC",) * 100)]
    for family in ("bert", "roberta"):
        options = how("pos", epochs=1, batch=16, seeds=(0,), length=512)
        tune(folder_of(family), [*long, *tagged(20)], long, options, folder=tmp_path / family)


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("cola", ["Matthews correlation", "accuracy"]),
        ("mrpc", ["mean of accuracy and F1", "accuracy", "F1"]),
    ],
)
def test_glue_tasks(folder_of, tmp_path, task, metrics):
    shape = (lambda found: found) if task == "mrpc" else single
    training, test = (shape(pairs(count, seed, ("0", "1"))) for count, seed in ((256, 0), (60, 1)))
    result = tune(folder_of("roberta"), training, test, how(task, epochs=4, **QUICK), folder=tmp_path)
    assert [score.metric for score in result.mean] == metrics
    assert min(score.value for score in result.mean) > 0.9


def test_numbers_are_learned(folder_of, tmp_path):
    def numbers(found: list[Example]) -> list[Example]:
        return [replace(example, label=4.0 if example.label == "yes" else 1.0) for example in found]

    training, test = numbers(pairs(256)), numbers(pairs(60, seed=1))
    result = tune(folder_of("bert"), training, test, how("sts-b", epochs=4, **SLOWER), folder=tmp_path)
    assert [score.metric for score in result.mean] == [
        "mean of Pearson and Spearman",
        "Pearson correlation",
        "Spearman correlation",
    ]
    assert result.mean[1].value > 0.9
    assert result.table == ()
    assert result.confusion is None


def test_the_best_epoch_on_development_data_is_kept(folder_of, tmp_path, monkeypatch):
    wanted, measured = iter([0.3, 0.9, 0.5]), []
    real = FineTuner.score

    def score(self: Any, model: Any, data: Any, **options: Any) -> Any:
        found = real(self, model, data, **options)
        measured.append({name: each.clone() for name, each in model.state_dict().items()})
        value = next(wanted, None)
        main = found.scores[0] if value is None else replace(found.scores[0], value=value)
        return replace(found, scores=(main,))

    monkeypatch.setattr(FineTuner, "score", score)
    options = how("nli", epochs=3, **{**QUICK, "learning_rate": 1e-3})
    result = tune(folder_of("bert"), pairs(40), pairs(10, 1), options, folder=tmp_path, dev=pairs(12, 2))
    assert result.per_seed[0].epoch == 2
    assert result.per_seed[0].dev.examples == 12
    one, two, three, tested, _ = measured
    assert all(torch.equal(two[name], tested[name]) for name in two)
    assert not all(torch.equal(two[name], one[name]) for name in two)
    assert not all(torch.equal(two[name], three[name]) for name in two)


class Killed(BaseException):
    """An error that no `except Exception` catches."""


def killed_at(step: int) -> Any:
    @contextmanager
    def reporter(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        done = 0

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            if done == step:
                raise Killed

        yield advance

    return reporter


SLOWER = {**QUICK, "learning_rate": 5e-3, "batch": 16}
HARD = {**QUICK, "learning_rate": 3e-4, "batch": 16, "epochs": 3}
"""Too slow to learn all, so that the scores of runs differ."""


@pytest.fixture(scope="module")
def seeds(folder_of, tmp_path_factory) -> tuple[TaskResult, Path]:
    """Three seeds, uninterrupted; six steps a seed and two an epoch."""
    folder = tmp_path_factory.mktemp("seeds")
    options = how("nli", **{**HARD, "seeds": (0, 1, 2)})
    return tune(folder_of("bert"), pairs(32), pairs(97, 1), options, folder=folder, dev=pairs(31, 2)), folder


def test_means_and_deviations_over_seeds(seeds):
    result, _ = seeds
    values = [run.scores[0].value for run in result.per_seed]
    assert len(set(values)) > 1, "the seeds give the same"
    mean = sum(values) / 3
    assert result.mean[0].value == pytest.approx(mean)
    assert result.deviation == (pytest.approx((sum((value - mean) ** 2 for value in values) / 2) ** 0.5),)
    assert sum(map(sum, result.confusion.counts)) == 3 * 97
    assert result.table[0].recall == pytest.approx(sum(run.table[0].recall for run in result.per_seed) / 3)


def test_finished_seeds_are_kept_and_more_can_be_added(seeds, folder_of, tmp_path, monkeypatch):
    result, folder = seeds
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(FineTuner, "run", lambda *_: pytest.fail("a finished seed was run again"))
    options = how("nli", **{**HARD, "seeds": (2, 0)})
    again = tune(folder_of("bert"), pairs(32), pairs(97, 1), options, folder=tmp_path, dev=pairs(31, 2))
    assert again.per_seed == (result.per_seed[2], result.per_seed[0])


def test_the_same_call_gives_the_same_and_leaves_the_callers_randomness(seeds, folder_of, tmp_path):
    torch.manual_seed(7)
    random.seed(7)
    before = torch.get_rng_state(), random.getstate()
    options = how("nli", **{**HARD, "seeds": (1,)})
    again = tune(folder_of("bert"), pairs(32), pairs(97, 1), options, folder=tmp_path, dev=pairs(31, 2))
    assert again.per_seed == seeds[0].per_seed[1:2]
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


@pytest.mark.parametrize("step", [1, 4, 5])
def test_a_killed_run_resumes_and_ends_like_an_uninterrupted_one(seeds, folder_of, tmp_path, step):
    options = how("nli", **{**HARD, "seeds": (1,)})
    data = folder_of("bert"), pairs(32), pairs(97, 1), options
    with pytest.raises(Killed), report_to(killed_at(step)):
        tune(*data, folder=tmp_path / "a", dev=pairs(31, 2))
    kept = {path.name for path in (tmp_path / "a").glob("seed-1/checkpoint-*")}
    assert bool(kept) == (step > 2)
    (tmp_path / "a").rename(tmp_path / "b")
    result = tune(*data, folder=tmp_path / "b", dev=pairs(31, 2))
    assert result.per_seed == seeds[0].per_seed[1:2]
    assert not (tmp_path / "b" / "seed-1").exists()


def test_a_run_killed_before_its_result_was_written_resumes(seeds, folder_of, tmp_path, monkeypatch):
    options = how("nli", **{**HARD, "seeds": (1,)})
    data = folder_of("bert"), pairs(32), pairs(97, 1), options

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(finetuning, "write_file", die)
        with pytest.raises(Killed):
            tune(*data, folder=tmp_path, dev=pairs(31, 2))
    assert (tmp_path / "seed-1" / "checkpoint-6").exists()
    assert tune(*data, folder=tmp_path, dev=pairs(31, 2)).per_seed == seeds[0].per_seed[1:2]


def test_damaged_checkpoints_and_results_are_rebuilt(seeds, folder_of, tmp_path, caplog):
    options = how("nli", **{**HARD, "seeds": (1,)})
    data = folder_of("bert"), pairs(32), pairs(97, 1), options
    with pytest.raises(Killed), report_to(killed_at(4)):
        tune(*data, folder=tmp_path, dev=pairs(31, 2))
    for weights in tmp_path.glob("seed-1/*/model.safetensors"):
        weights.write_bytes(b"broken")
    result = tune(*data, folder=tmp_path, dev=pairs(31, 2))
    assert result.per_seed == seeds[0].per_seed[1:2]
    assert "starting again" in caplog.text
    (tmp_path / "seed-1.json").write_text("{")
    assert tune(*data, folder=tmp_path, dev=pairs(31, 2)) == result
    assert "training seed 1 again" in caplog.text


def test_a_folder_of_another_run_is_rejected(seeds, folder_of):
    _, folder = seeds
    options = how("nli", **HARD)
    for changed, found in [
        ((pairs(33), pairs(97, 1), options), ", whose training data differs"),
        ((pairs(32), pairs(96, 1), options), ", whose test data differs"),
        ((pairs(32), pairs(97, 1), how("nli", **HARD, warmup=0.2)), ": its warmup was"),
    ]:
        with pytest.raises(InputError, match=f"another run{found}"):
            tune(folder_of("bert"), *changed, folder=folder, dev=pairs(31, 2))
    with pytest.raises(InputError, match="whose model differs"):
        tune(folder_of("roberta"), pairs(32), pairs(97, 1), options, folder=folder, dev=pairs(31, 2))


def test_seeds_of_other_code_are_rejected(seeds, folder_of, monkeypatch):
    _, folder = seeds
    monkeypatch.setattr(finetuning, "TASK_REVISIONS", {"tasks": 99})
    with pytest.raises(InputError, match=r"holds work of another version of relexify.*\(changed: tasks\)"):
        tune(folder_of("bert"), pairs(32), pairs(97, 1), how("nli", **HARD), folder=folder, dev=pairs(31, 2))


def test_gradients_over_parts_of_a_batch(folder_of, tmp_path):
    whole, parts = (
        tune(folder_of("bert"), pairs(32), pairs(50, 1), how("nli", **options), folder=tmp_path / name)
        for name, options in (("whole", {**HARD, "epochs": 1}), ("parts", {**HARD, "epochs": 1, "micro_batch": 4}))
    )
    assert parts.mean[0].value == pytest.approx(whole.mean[0].value, abs=0.2)


def test_steps_are_reported(folder_of, tmp_path):
    reported: list[Any] = []

    @contextmanager
    def reporter(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        reported.append((description, total))
        yield reported.append

    options = how("nli", **{**HARD, "epochs": 2})
    with report_to(reporter):
        tune(folder_of("bert"), pairs(33), pairs(5, 1), options, folder=tmp_path)
    assert reported[0] == ("fine-tuning on nli, seed 0", 6)
    assert sum(reported[1:]) == 6


@pytest.mark.parametrize(
    ("family", "found"),
    [
        ("gpt2", r"is a decoder \(GPT2LMHeadModel\)"),
        ("llama tied", "is a decoder"),
        ("t5", "is an encoder-decoder"),
        ("bart", "is an encoder-decoder"),
    ],
)
def test_only_encoders_are_fine_tuned(folder_of, tmp_path, family, found):
    with pytest.raises(InputError, match=f"the task nli needs an encoder.*{found}"):
        tune(folder_of(family), pairs(8), pairs(8), how("nli"), folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_models_that_are_not_there_or_not_whole(folder_of, tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        tune(tmp_path / "nowhere", pairs(8), pairs(8), how("nli"), folder=tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no model that can be loaded"):
        tune(tmp_path / "empty", pairs(8), pairs(8), how("nli"), folder=tmp_path / "out")
    shutil.copytree(folder_of("bert"), tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="is truncated"):
        tune(tmp_path / "broken", pairs(8), pairs(8), how("nli"), folder=tmp_path / "out")
    shutil.copytree(folder_of("bert"), tmp_path / "deeper")
    config = json.loads((tmp_path / "deeper" / "config.json").read_text())
    (tmp_path / "deeper" / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(InputError, match="lacks 16 parameters of BertForSequenceClassification"):
        tune(tmp_path / "deeper", pairs(8), pairs(8), how("nli"), folder=tmp_path / "more")


def test_tokenizers_that_do_not_fit(folder_of, tmp_path):
    shutil.copytree(folder_of("bert"), tmp_path / "model")
    pico.wordpiece(size=300, lines=pico.sentences(words=[*pico.foreign_words(), "green"])).save_pretrained(
        tmp_path / "model"
    )
    with pytest.raises(VocabularyError, match="do not belong together"):
        tune(tmp_path / "model", pairs(8), pairs(8), how("nli"), folder=tmp_path / "out")
    tokenizer = pico.wordpiece()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(VocabularyError, match="no token to pad with"):
        tune(tmp_path / "model", pairs(8), pairs(8), how("nli"), folder=tmp_path / "other")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "`epochs=0"),
        ({"batch": 0}, "`batch=0"),
        ({"length": 4}, "`length=4"),
        ({"learning_rate": 0.0}, "`learning_rate=0.0"),
        ({"learning_rate": float("nan")}, "`learning_rate=nan"),
        ({"warmup": 10}, "`warmup=10` is not a share"),
        ({"precision": "float16"}, "`precision=float16` is not possible: choose one of auto"),
        ({"batch": 10, "micro_batch": 4}, "a batch of 10 cannot be split into parts of 4"),
    ],
)
def test_invalid_options_are_rejected(changes, message):
    with pytest.raises(InputError, match=message):
        FineTuning(**changes)


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,)])
def test_invalid_seeds_are_rejected(seeds, tmp_path):
    with pytest.raises(InputError, match=re.escape(f"`seeds={list(seeds)}`")):
        check_seeds(seeds)
    with pytest.raises(InputError, match="`seeds="):
        tune("model", pairs(8), pairs(8), how("nli", seeds), folder=tmp_path)


@pytest.mark.parametrize(
    ("task", "training", "test", "message"),
    [
        ("nli", [], pairs(2), "there is no training data"),
        ("nli", pairs(9), [], "there is no test data"),
        ("nli", tagged(2), pairs(2), "the training data holds a TaggedSentence, but the task nli takes Examples"),
        ("ner", tagged(2), pairs(2), "the test data holds a Example, but the task ner takes TaggedSentences"),
        ("nli", pairs(9), [Example("a", "b", "perhaps")], "the test data has the label 'perhaps', which the training"),
        ("nli", pairs(1), pairs(1), "all training data has the label"),
        ("nli", [Example("a", "b", 1.5)], pairs(1), "1.5 is a number, but the task takes classes"),
        ("sts-b", pairs(9), pairs(9), "the training data has the label '(yes|no)', but the task takes numbers"),
        ("sst-2", pairs(9), single(pairs(9)), "some examples are pairs of texts and some are single"),
        ("ner", [TaggedSentence((), ())], tagged(1), "the training data has only sentences without words"),
    ],
)
def test_data_that_does_not_fit_is_rejected(tmp_path, task, training, test, message):
    with pytest.raises(InputError, match=message):
        tune("model", training, test, how(task), folder=tmp_path)


def test_unknown_labels_of_development_data_are_named(tmp_path):
    with pytest.raises(InputError, match="the development data has the label 'perhaps'"):
        tune("m", pairs(9), pairs(2), how("nli"), folder=tmp_path, dev=[Example("a", "b", "perhaps")])


def test_unknown_tags_count_as_wrong(folder_of, tmp_path, caplog):
    test = [*tagged(10, 1), TaggedSentence(("river",), ("B-ORG",))]
    options = how("ner", epochs=1, **QUICK)
    result = tune(folder_of("bert"), tagged(40), test, options, folder=tmp_path)
    assert "1 words of the test data have tags that the training data never has (B-ORG)" in caplog.text
    assert {row.label: row.recall for row in result.table}["ORG"] == 0
    assert result.mean[0].examples == 21


def test_training_text_without_tokens(folder_of, tmp_path):
    training = [TaggedSentence(("\u200b", "\u200b"), ("O", "B-PER"))]
    with pytest.raises(InputError, match="finds no tokens in the training data"):
        tune(folder_of("bert"), training, tagged(1), how("pos"), folder=tmp_path)


def test_divergence_is_reported(folder_of, tmp_path):
    options = how("nli", **{**HARD, "learning_rate": 1.0, "weight_decay": 1e38})
    with pytest.raises(TrainingError, match="try a lower learning rate"):
        tune(folder_of("bert"), pairs(64), pairs(5, 1), options, folder=tmp_path)


def test_checkpoints_that_cannot_be_written(folder_of, tmp_path, monkeypatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "seal", full)
    with pytest.raises(OutputError, match=r"checkpoint-2 could not be written .*No space left"):
        tune(folder_of("bert"), pairs(32), pairs(5, 1), how("nli", **HARD), folder=tmp_path)
    assert not list(tmp_path.glob("seed-0/checkpoint-*"))


def test_a_version_of_transformers_without_an_overridden_method_is_rejected_with_its_name(monkeypatch):
    monkeypatch.delattr(Trainer, "_save_checkpoint")
    with pytest.raises(TrainingError, match=r"has no Trainer\._save_checkpoint\(model, trial\)"):
        epoch_training.EpochTrainer(score=None, callbacks=[])


def test_the_papers_settings():
    options = {name: task.training for name, task in TASKS.items()}
    assert (options["nli"].epochs, options["nli"].batch) == (2, 128)
    assert {(options[task].epochs, options[task].batch) for task in ("ner", "pos")} == {(10, 32)}
    assert {(options[task].epochs, options[task].batch) for task in ("cola", "rte", "sts-b")} == {(3, 32)}
    default = options["nli"]
    assert (default.learning_rate, default.length, default.warmup) == (2e-5, 128, 0.1)
    assert (default.beta1, default.beta2, default.epsilon) == (0.9, 0.999, 1e-8)
    arguments = epoch_training.epoch_arguments(default, Path("x"), seed=1, steps=1000, is_scored=True)
    assert (arguments.warmup_steps, arguments.lr_scheduler_type) == (100, "linear")
    assert (arguments.adam_beta2, arguments.adam_epsilon, arguments.weight_decay) == (0.999, 1e-8, 0)
    assert set(TASKS) >= {"nli", "ner", "pos", "cola", "sst-2", "mrpc", "rte", "sts-b"}
